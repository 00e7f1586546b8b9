"""Decisions of a trace that was recorded without them: its calls, made again in the twin, which says why.

Nothing derived is kept for a round that was not verified (architecture.md, section 2): digests are compared on the way,
and at the first difference derivation stops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsviz.scheduler import compat
from tsviz.trace import entries as e
from tsviz.trace.builder import TableBuilder, Vocabulary
from tsviz.trace.compact import compact_part
from tsviz.trace.decided import DECIDED, DecisionRows
from tsviz.trace.layout import HOT
from tsviz.trace.reader import Part
from tsviz.trace.rounds import RoundRecord
from tsviz.trace.segments import HotSegments

from .collecting import collecting_seldom
from .keyframe_files import KeyframeWriter
from .left_open import left_open
from .run import Reexecution
from .verify import Divergence, compare

_FLUSH_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class Derivation:
    """How far decisions could be derived: rounds verified, rounds recorded, and where the twin left the recording."""

    verified_rounds: int
    recorded_rounds: int
    divergence: Divergence | None


@collecting_seldom()
def derive(
    part: Part, directory: Path, *, progress: Callable[[int, int], None] | None = None,
    plans: Callable[[int, RoundRecord], None] | None = None,
) -> Derivation:  # fmt: skip
    """Write the decided tables of a part into `directory` (as the cold tables of a part) and say how far they reach.

    `plans` is given every plan that was made again and found equal.

    Raises `TraceError` when the trace cannot be read, OSError when the directory cannot be written.
    """
    requests, words = Vocabulary(), Vocabulary()
    builders = {name: TableBuilder(table, requests, words) for name, table in DECIDED.items()}
    segments = HotSegments(directory / HOT)
    told: list[tuple[int, int, Any]] = []

    def observe(round_: int, stop: int, decision: Any) -> None:
        told.append((round_, stop, decision))

    execution = Reexecution(part, compat, observer=observe)
    behind = {last for _, last in execution.lost.spans}
    rows = DecisionRows(builders, execution.submission)
    for round_, decision in () if execution.start is None else left_open(part, execution.start):
        rows.add(round_, 0, decision)
    keyframes = KeyframeWriter(directory, part)
    recorded = part.rows("rounds")
    digests = compare(part)
    verified, divergence, last = 0, None, 0
    for executed in execution:
        divergence = digests.check(executed)
        if divergence is not None:
            break
        for round_, stop, decision in told:
            if round_ not in execution.lost:  # made again, and compared with nothing
                rows.add(round_, stop, decision)
        told.clear()
        if executed.call.kind == e.PLAN:
            if executed.call.round not in execution.lost:
                last = executed.call.round
            if plans is not None and executed.record is not None:
                plans(last, executed.record)
            verified += executed.record is not None
            keyframes.offer(execution, last, now=executed.call.round in behind)
            if sum(b.rows for b in builders.values()) > _FLUSH_ROWS:
                rows.settle()
                _flush(segments, builders, last, executed.call.seq)
            if progress is not None and verified % 256 == 0:
                progress(verified, recorded)
    rows.settle()
    keyframes.close()
    _flush(segments, builders, last, -1)
    segments.finish()
    segments.close()
    compact_part(directory)
    return Derivation(verified, recorded, divergence)


def _flush(segments: HotSegments, builders: dict[str, TableBuilder], last_round: int, last_seq: int) -> None:
    for builder in builders.values():
        if builder.rows:
            segments.append(builder.table, builder.take())
    segments.commit(last_round, last_seq)
