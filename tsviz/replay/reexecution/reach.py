"""The state at the start of any round, by re-execution that is compared with the recording on the way."""

from __future__ import annotations

from collections.abc import Callable

from tsviz.replay.keyframes.book import Keyframe
from tsviz.scheduler import compat
from tsviz.trace import entries as e
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import Part

from .behind_gaps import kept_keyframe
from .index import Index, open_index
from .keyframe_files import KeyframeFiles
from .run import NoKeyframe, Reexecution
from .verify import Divergence, compare


def _leaves(divergence: Divergence) -> str:
    return f"the twin leaves the recording in round {divergence.round} ({divergence.field})"


def _indexed(part: Part, index: Index, round_: int) -> Keyframe | None:
    """Return the last keyframe in front of a round that an index has and has proven; None without one."""
    try:
        frames = KeyframeFiles(index.directory, part)
    except TraceError:
        return None
    at = frames.nearest(round_)
    return frames.load(at) if at else None


def reach(part: Part, round_: int, *, progress: Callable[[int, int], None] | None = None) -> Keyframe | str:
    """Return the twin's state before the first call of a round; or, in words, why it is not known.

    Every round before it was made again and equals the recording: now, or when its index was built, from whose last
    keyframe it goes on, or when a flight recorder wrote it out, from whose keyframe behind a gap. `progress(done, of)`
    is told rounds now and then. Raises `TraceError`.
    """
    index = open_index(part)
    if index is not None and index.divergence is not None and index.divergence.round < round_:
        return _leaves(index.divergence)
    try:
        start = None if index is None else _indexed(part, index, round_)
        start = kept_keyframe(part, round_, 0 if start is None else start.round) or start
        execution = Reexecution(part, compat, start=start)
    except NoKeyframe as error:
        return error.found
    begin = execution.round
    if begin == round_:
        return execution.keyframe()
    digests = compare(part)
    for executed in execution:
        if (divergence := digests.check(executed)) is not None:
            return _leaves(divergence)
        if executed.call.kind == e.PLAN:
            if executed.call.round == round_ - 1:
                return execution.keyframe()
            if progress is not None and executed.call.round % 256 == 0:
                progress(executed.call.round - begin, round_ - begin)
    return f"the recording ends before round {round_}"
