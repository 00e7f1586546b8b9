"""What an empty plan waits for: an answer from outside, or nothing that anybody could send."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.replay.recorded.snapshot import RequestLine, Snapshot
from tsviz.tui.causes import cause_mark
from tsviz.tui.clean import shorten
from tsviz.tui.lines import Line, Span, clip, line, wrapped
from tsviz.tui.numbers import counted

_OUTSIDE = {
    "waits_for_bootstrap": "for a peer to be ready: ",
    "waits_for_result": "for results: ",
    "remote_transfer": "for peers that have pages of ",
    "deferred_by_transfer": "for copies that are out, so that pages can be freed for ",
    "victim_not_quiescent": "for forwards that are out, so that pages can be freed for ",
}
"""Causes that end with an answer from outside."""
_NAMED, _INDENT = 3, 3


def idle(snapshot: Snapshot, width: int) -> list[Line]:
    """Return why a plan is empty: whose answer it waits for, and how many requests wait for what."""
    waiting: dict[str, list[RequestLine]] = {}
    for request in snapshot.requests:
        if request.cause is not None and not request.scheduled:
            waiting.setdefault(request.cause.name, []).append(request)
    if not waiting:
        return wrapped("Nothing was scheduled in this round.", width, "dim", indent=_INDENT)
    outside = [f"{words}{_names(waiting[cause])}" for cause, words in _OUTSIDE.items() if cause in waiting]
    if outside:
        lines = wrapped(f"Idle, it waits {'; '.join(outside)}.", width, "remote", indent=_INDENT)
    elif snapshot.retracted:
        words = f"Nothing was scheduled; {counted(snapshot.retracted, 'request')} gave way in this round."
        lines = wrapped(words, width, "dim", indent=_INDENT)
    else:
        words = "Nothing was scheduled, and nobody waits for an answer from outside."
        lines = wrapped(words, width, "retracted", indent=_INDENT)
    for cause, requests in waiting.items():
        mark = cause_mark(cause)
        told = f" {counted(len(requests), 'request')}: {mark.word}"
        lines.append(clip(line(" " * _INDENT, Span(mark.glyph, mark.role), Span(told, "dim")), width))
    return lines


def _names(requests: Sequence[RequestLine]) -> str:
    more = f" and {len(requests) - _NAMED:,} more" if len(requests) > _NAMED else ""
    return ", ".join(shorten(request.request, 24) for request in requests[:_NAMED]) + more
