"""What is left of a ring whose recorder and keeper were killed, as a trace: `tsviz repair OUT.ring NEW`.

All that is committed is written, not only what the limits would keep: nobody dropped the rest, and it may be why. The
ring is left as it is. Where a segment is missing the trace ends before it, and where one is damaged with its last
commit that holds, which is said; where that is none of the oldest one of any part, nothing is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from tsviz.trace import layout
from tsviz.trace.catalogue import TABLES
from tsviz.trace.drafts import draft
from tsviz.trace.endings import why_not_closed
from tsviz.trace.errors import CannotRecord, Damaged, TraceError
from tsviz.trace.hot import HotTables
from tsviz.trace.layout import RING_FILE
from tsviz.trace.lock import ALIVE, recorder_of
from tsviz.trace.reader import Part
from tsviz.trace.repair import SPARE, Repaired, nothing_of, sound_tables
from tsviz.trace.ring import keeper_of, segment_directories, written_to
from tsviz.trace.whole import WholePart, write_whole

from .join import behind_gaps
from .kept import KeptPart, has_commits


def write_left(home: Path, out: Path) -> list[Repaired]:
    """Write what is committed in a ring to the new bundle `out`; return what became of each part.

    Raises CannotRecord while it is recorded or kept or where something is at `out`, `TraceError` where no round can be
    read, OSError.
    """
    if recorder_of(home) == ALIVE:
        raise CannotRecord(f"{home}: it is being recorded; its keeper writes it out")
    if keeper := keeper_of(home):  # it moves the segments
        raise CannotRecord(f"{home}: {keeper} is alive and still writes {written_to(home)}: wait until it has ended")
    if out.exists():
        raise CannotRecord(f"{out}: expected a path that is free, found something there")
    values = layout.read_json(home / RING_FILE)
    description = {name: value for name, value in values.items() if name != "ring"}
    names = layout.part_names(home, values) if values["parts"] else []
    directories = [layout.part_directory(home, node, rank) for node, rank in names]
    parts = [_LeftPart(home, path, description) for path in directories if (path / layout.PART_FILE).exists()]
    read = [(part, *_read(part)) for part in parts if part.begun]
    if not read:
        raise Damaged(home, "segments", "a commit", "none")
    lost = "; ".join(f"{part.name}: {words}" for part, _, words in read if words)
    if lost and not any(kept.last_round for _, kept, _ in read):
        raise Damaged(home, "segments", "a round that can be read", f"none: {lost}")
    ends = {part.name: {"reason": "ring: repaired: the recorder and its keeper were killed"} for part, _, _ in read}
    said = [f"{part.name}: {part.said}: there is no keyframe, it cannot be re-executed" for part in parts if part.said]
    with draft(out.parent, f"{out.name}-writing-") as place:
        whole = [behind_gaps(kept, description, place / str(number)) for number, (_, kept, _) in enumerate(read)]
        write_whole(
            out, description, whole, {"parts": ends, "error": "; ".join([*said, *filter(None, [lost])]) or None}
        )
    closed = why_not_closed(home)
    return [Repaired(part.name, kept.last_round, tuple(filter(None, (closed, words)))) for part, kept, words in read]


class _LeftPart(KeptPart):
    """What can be read of one part of a ring in which files may be damaged; `lost` says what cannot, in words."""

    def __init__(self, home: Path, directory: Path, description: Mapping[str, Any]) -> None:
        super().__init__(home, directory, description)
        self.lost: list[str] = []
        self._cut: dict[Path, HotTables] = {}

    @property
    def begun(self) -> bool:
        """Whether anything was ever committed."""
        return self.sealed is not None or any(has_commits(path) for path in self.segments())

    def cut(self, segment: Path) -> bool:
        """Take of a damaged segment what its last commit that holds says; return whether there is one."""
        try:
            sound, _ = sound_tables(segment)
        except TraceError:
            return False
        if sound is None or segment in self._cut:
            return False
        self._cut[segment] = sound
        return True

    def _hot(self, segment: Path) -> HotTables:
        return self._cut.get(segment) or super()._hot(segment)

    def _sealed_table(self, part: Part, name: str) -> pa.Table:
        try:
            return super()._sealed_table(part, name)
        except TraceError as error:
            if name not in SPARE:
                raise
            words = f"table {name} of segment {part.directory.parent.parent.parent.name} ({error.place})"
            self.lost += [words] if words not in self.lost else []
            return TABLES[name].schema.empty_table()


def _read(part: _LeftPart) -> tuple[WholePart, str]:
    """Return what can be read from the oldest segment on, and why not the rest, in words.

    Of the first segment that is damaged it is what its last commit that holds says: behind that calls are missing, so
    that nothing that came later can be made again.
    """
    segments = part.segments()
    try:
        whole = part.joined(segments)
    except TraceError as error:
        damaged = next((number for number, path in enumerate(segments) if _fault(path) is not None), -1)
        return _until(part, segments[: damaged + 1], error)
    return whole, "; ".join(filter(None, (*part.lost, _hole(part, whole.last_round))))


def _fault(segment: Path) -> TraceError | None:
    """Return what is wrong with a segment; None for nothing."""
    try:
        if has_commits(segment):
            hot = HotTables(segment)
            for table in TABLES.values():
                deque(hot.batches(table), 0)
    except TraceError as error:
        return error
    return None


def _until(part: _LeftPart, segments: list[Path], problem: TraceError) -> tuple[WholePart, str]:
    """Return what can be read up to the last of some segments, which is the first that is damaged."""
    ends = [segments, segments[:-1]] if segments and part.cut(segments[-1]) else [segments[:-1]]
    for chosen in ends:
        if not chosen and part.sealed is None:
            break
        try:
            whole = part.joined(chosen)
        except TraceError:  # the sealed segment is damaged as well
            break
        if whole.last_round:
            where = f"behind round {whole.last_round:,} segment {segments[-1].name} is damaged ({problem})"
            return whole, "; ".join((*part.lost, where + "; nothing that came behind it is in this trace"))
    return nothing_of(part.meta), "; ".join((*part.lost, f"every round: the oldest segment is damaged ({problem})"))


def _hole(part: KeptPart, last_round: int) -> str:
    numbers = [int(path.name) for path in segment_directories(part.directory)]
    if part.sealed is not None:
        numbers = [int(part.sealed.name), *(number for number in numbers if number > int(part.sealed.name))]
    missing = next((one + 1 for one, following in pairwise(numbers) if following != one + 1), None)
    return "" if missing is None else f"behind round {last_round:,} segment {missing:06d} is missing"
