"""The state of the twin behind each gap of a recording, so that a reader begins there without making the gap again.

Calls are complete through a gap, so the twin goes through it; what it made is proven by the first plan behind, whose
digest holds the block tables of all its rows and every counter. Where that plan is missing or differs there is none.
"""

from __future__ import annotations

from tsviz.replay.keyframes.book import Keyframe
from tsviz.replay.keyframes.keyframe import recorded_keyframe
from tsviz.scheduler import compat
from tsviz.trace import entries as e
from tsviz.trace.errors import TraceError
from tsviz.trace.gaps import LostRounds
from tsviz.trace.reader import Part

from .collecting import collecting_seldom
from .run import NoKeyframe, Reexecution, rules_of
from .verify import compare


@collecting_seldom()
def keyframes_behind_gaps(part: Part) -> list[Keyframe]:
    """Return a keyframe for each gap that a proven plan follows, in order.

    None behind a round in which the twin differs. Raises `TraceError`.
    """
    ends = {last for _, last in LostRounds(part.table("gaps")).spans}
    found: list[Keyframe] = []
    try:
        execution = Reexecution(part, compat)
    except NoKeyframe:
        return found
    digests, pending = compare(part), None
    for executed in execution:
        if digests.check(executed) is not None:
            break
        if executed.record is not None and pending is not None:
            found.append(pending)
            pending = None
        if executed.call.kind == e.PLAN and executed.call.round in ends:
            pending = execution.keyframe()
        if executed.record is not None and executed.call.round > max(ends, default=0):
            break
    return found


def kept_keyframe(part: Part, round_: int, better_than: int = 0) -> Keyframe | None:
    """Return the last keyframe behind a gap that a trace holds at or in front of a round and behind another one.

    None where there is none, or it is damaged: whoever asks makes the rounds again.
    """
    rows = part.table("keyframes")
    first = part.meta.get("starts_at", 1)
    rounds = [at for at in rows["round"].to_pylist() if max(better_than, first) < at <= round_]
    if not rounds:
        return None
    try:
        frame = recorded_keyframe(part, max(rounds))
    except TraceError:
        return None
    return frame if frame.snapshot.rules == rules_of(part) else None
