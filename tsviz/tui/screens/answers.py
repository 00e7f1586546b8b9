"""What comes back from the fetching thread besides frames, and the jobs that make it. Jobs run on that thread."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from tsviz.replay.recorded.snapshot import RecordedView, TraceHead
from tsviz.replay.stops.story import NotKnown
from tsviz.tui.scene import Detail, Details
from tsviz.tui.view import RequestFinder, Witness

LOOKED_UP = frozenset({"why", "transfers", "device", "raw"})
"""Views of the inspector that look something up beyond the frame."""
_NO_WITNESS = NotKnown("not_recorded", "This trace cannot be asked for it.")


class Answered(Message):
    """The fetching thread has fulfilled a wish."""

    def __init__(self, result: object) -> None:
        super().__init__()
        self.result = result


@dataclass(frozen=True, slots=True)
class Opened:
    """What the trace is."""

    head: TraceHead


@dataclass(frozen=True, slots=True)
class Marked:
    """The next mark of a request in a direction; `round` is None where there is none."""

    round: int | None
    step: int


@dataclass(frozen=True, slots=True)
class Found:
    """A request that was looked for: its submission and the first round that shows it (None: not found, no such)."""

    request: str
    submission: int | None
    round: int | None
    everywhere: bool


_AROUND_ROUNDS = 20


def detail(view: RecordedView, name: str, round_: int, submission: int | None) -> Detail:
    """Look up what a view of the inspector shows beyond the frame."""
    if not isinstance(view, Witness):
        return Detail(name, round_, submission, _NO_WITNESS)
    found: Details = _NO_WITNESS
    if name == "why" and submission is not None:
        found = view.why(submission, round_)
    elif name == "transfers":
        found = view.outstanding(round_)
    elif name == "device":
        found = view.device(round_, _AROUND_ROUNDS)
    elif name == "raw":
        found = view.records(round_, submission)
    return Detail(name, round_, submission, found)


def opened(view: RecordedView) -> Opened:
    """Return what the trace is."""
    return Opened(view.head)


def marked(view: RecordedView, round_: int, submission: int, step: int) -> Marked:
    """Return the next round in which a submission was scheduled or changed state."""
    return Marked(view.next_mark(round_, submission, step), step)


def found(view: RecordedView, request: str, round_: int) -> Found:
    """Look for a request: in the round that is shown, then in the whole trace where the view can."""
    here = next((r for r in reversed(view.snapshot(round_).requests) if r.request == request), None)
    if here is not None:
        return Found(request, here.submission, round_, True)
    if not isinstance(view, RequestFinder):
        return Found(request, None, None, False)
    submission = view.find_request(request)
    first = None if submission is None else view.next_mark(0, submission, 1)
    return Found(request, submission, first, True)
