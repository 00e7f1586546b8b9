"""The state at the start of any round, by re-execution that is compared with the recording on the way."""

from __future__ import annotations

from collections.abc import Callable

from tsviz.scheduler import compat
from tsviz.trace import entries as e
from tsviz.trace.reader import Part

from .keyframe_book import Keyframe
from .reexecute import NoKeyframe, Reexecution
from .verify import compare


def reach(part: Part, round_: int, *, progress: Callable[[int, int], None] | None = None) -> Keyframe | str:
    """Return the twin's state before the first call of a round; or, in words, why it is not known.

    Every round before it was made again and equals the recording. `progress(done, of)` is told rounds now and then.
    Raises `TraceError`.
    """
    try:
        execution = Reexecution(part, compat)
    except NoKeyframe as error:
        return error.found
    begin = part.meta.get("starts_at", 1)
    if begin == round_:
        return execution.keyframe()
    digests = compare(part)
    for executed in execution:
        if (divergence := digests.check(executed)) is not None:
            return f"the twin leaves the recording in round {divergence.round} ({divergence.field})"
        if executed.call.kind == e.PLAN:
            if executed.call.round == round_ - 1:
                return execution.keyframe()
            if progress is not None and executed.call.round % 256 == 0:
                progress(executed.call.round - begin, round_ - begin)
    return f"the recording ends before round {round_}"
