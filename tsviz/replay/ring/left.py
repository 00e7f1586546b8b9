"""What is left of a ring whose recorder and keeper were killed, as a trace: `tsviz repair OUT.ring NEW`.

All that is committed is written, not only what the limits would keep: nobody dropped the rest, and it may be why. The
ring is left as it is. Where a segment is missing or damaged the trace ends before it, which is said.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from tsviz.trace import layout
from tsviz.trace.drafts import draft
from tsviz.trace.endings import why_not_closed
from tsviz.trace.errors import CannotRecord, Damaged, TraceError
from tsviz.trace.layout import RING_FILE
from tsviz.trace.lock import ALIVE, recorder_of
from tsviz.trace.repair import Repaired
from tsviz.trace.ring import segment_directories
from tsviz.trace.whole import WholePart, write_whole

from .join import behind_gaps
from .kept import KeptPart


def write_left(home: Path, out: Path) -> list[Repaired]:
    """Write what is committed in a ring to the new bundle `out`; return what became of each part.

    Raises CannotRecord while it is recorded or where something is at `out`, `TraceError` where nothing can be read,
    OSError.
    """
    if recorder_of(home) == ALIVE:
        raise CannotRecord(f"{home}: it is being recorded; its keeper writes it out")
    if out.exists():
        raise CannotRecord(f"{out}: expected a path that is free, found something there")
    values = layout.read_json(home / RING_FILE)
    description = {name: value for name, value in values.items() if name != "ring"}
    names = layout.part_names(home, values) if values["parts"] else []
    directories = [layout.part_directory(home, node, rank) for node, rank in names]
    parts = [KeptPart(home, path, description) for path in directories if (path / layout.PART_FILE).exists()]
    read = [(part, *_read(part)) for part in parts if part.last_round()]
    if not read:
        raise Damaged(home, "segments", "a commit", "none")
    ends = {part.name: {"reason": "ring: repaired: the recorder and its keeper were killed"} for part, _, _ in read}
    said = [f"{part.name}: {part.said}: there is no keyframe, it cannot be re-executed" for part in parts if part.said]
    with draft(out.parent, f"{out.name}-writing-") as place:
        whole = [behind_gaps(kept, description, place / str(number)) for number, (_, kept, _) in enumerate(read)]
        told = [f"{part.name}: {words}" for part, _, words in read if words]
        write_whole(out, description, whole, {"parts": ends, "error": "; ".join([*said, *told]) or None})
    closed = why_not_closed(home)
    return [Repaired(part.name, kept.last_round, tuple(filter(None, (closed, words)))) for part, kept, words in read]


def _read(part: KeptPart) -> tuple[WholePart, str]:
    """Return what can be read from the oldest segment on, and why not the rest, in words. Raises `TraceError`."""
    segments = part.segments()
    problem: TraceError | None = None
    for count in range(len(segments), -1, -1):
        try:
            whole = part.joined(segments[:count])
        except TraceError as error:
            problem = error
            continue
        if not whole.last_round:
            break
        if problem is not None:
            return whole, f"behind round {whole.last_round:,} segment {segments[count].name} is damaged ({problem})"
        return whole, _hole(part, whole.last_round)
    raise problem or Damaged(part.directory, "segments", "a commit", "none")


def _hole(part: KeptPart, last_round: int) -> str:
    numbers = [int(path.name) for path in segment_directories(part.directory)]
    if part.sealed is not None:
        numbers = [int(part.sealed.name), *(number for number in numbers if number > int(part.sealed.name))]
    missing = next((one + 1 for one, following in pairwise(numbers) if following != one + 1), None)
    return "" if missing is None else f"behind round {last_round:,} segment {missing:06d} is missing"
