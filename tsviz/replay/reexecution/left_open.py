"""What the state at the start of a slice says of the rounds before it, as decisions (debugger.md, section 5).

Three tables hold until something ends what a row says. Re-execution from a keyframe tells only what changes, so what
is open there is told first: the state in which each request stands and the operations that are out. A verdict begins
anew in the first round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tsviz.replay.keyframes.book import Keyframe
from tsviz.replay.rows.lifetimes import column
from tsviz.scheduler.decisions import StateChange, Transfer
from tsviz.scheduler.snapshot import PLAIN, RequestState
from tsviz.scheduler.states import STATE_NAMES
from tsviz.trace.reader import Part

_STATE, _VERDICT = PLAIN.index("state"), PLAIN.index("verdict")


def state_of(request: RequestState) -> int:
    """Return the state of a request of a snapshot."""
    state = request.plain[_STATE]
    assert isinstance(state, int)
    return state


def without_verdicts(keyframe: Keyframe) -> Keyframe:
    """Return a keyframe in which nothing was said of a request yet, so that the first round tells every verdict.

    One that an index made holds the verdicts of its round, and one that was reached from there those of an older one.
    """
    requests = tuple(
        request._replace(plain=(*request.plain[:_VERDICT], None, *request.plain[_VERDICT + 1 :]))
        for request in keyframe.snapshot.requests
    )
    return replace(keyframe, snapshot=replace(keyframe.snapshot, requests=requests))


def left_open(part: Part, keyframe: Keyframe) -> Iterator[tuple[int, Transfer | StateChange]]:
    """Yield, in order of rounds, what is open in front of a keyframe's round: the round of which it is told, and it.

    An operation is told of the round whose plan began it, where the slice has its rows, else of the last round before
    the slice. So is a state, as a change to itself: when it began is not known. Raises `TraceError`.
    """
    last = keyframe.round - 1
    transfers = part.table("transfers")
    began = dict(zip(column(transfers, "op_id").tolist(), column(transfers, "round").tolist(), strict=True))
    snapshot = keyframe.snapshot
    out = [Transfer(op.op_id, "load", "started", len(op.pairs)) for op in snapshot.loads]
    for op in snapshot.stores:
        kind = "store_pinned" if op.source_pinned else "store_stream_ordered"
        out.append(Transfer(op.op_id, kind, "started", len(op.transfers)))
    told = {op.op_id: min(began.get(op.op_id, last), last) for op in out}
    for transfer in sorted(out, key=lambda op: (told[op.op_id], op.op_id)):
        yield told[transfer.op_id], transfer
    for request in snapshot.requests:
        name = STATE_NAMES[state_of(request)]
        yield last, StateChange(request.request_id, name, name)
