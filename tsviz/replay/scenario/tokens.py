"""The tokens of all requests of a trace as spans that keep exactly the recorded sharing of prefixes.

Matching goes by whole prefix pages from the start of a request, so two requests share what their page numbers share
from the front. Every distinct prefix becomes a place (source, offset): the first prefix that goes on with an older one
keeps its source, any other starts a new one. Equal places are equal tokens, others are not.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from tsviz.engine.workloads.model import Span
from tsviz.replay.reexecution.call_log import CallLog
from tsviz.trace import entries as e
from tsviz.trace.reader import Part
from tsviz.trace.tokens import FULL

_ROOT = -1


def page_numbers(part: Part) -> list[dict[int, int]]:
    """Return, per submission, the numbers of its full prefix pages by their position, generated ones included.

    Raises `TraceError` when a table cannot be read.
    """
    if part.token_mode == FULL:
        return _by_content(part)
    submissions = part.table("submissions")
    found = [dict(enumerate(pages)) for pages in submissions["pages"].to_pylist()]
    grown = part.table("grown_pages")
    columns = (grown[name].to_pylist() for name in ("submission", "index", "page"))
    for submission, index, page in zip(*columns, strict=True):
        if 0 <= submission < len(found):
            found[submission][index] = page
    return found


def _by_content(part: Part) -> list[dict[int, int]]:
    tokens: list[array[int]] = []
    for call in CallLog(part):
        if call.kind == e.SUBMIT:
            tokens.extend(array("i", spec.tokens) for spec in call.specs)
        elif call.kind == e.ADVANCE:
            for event, submission in zip(call.events, call.submissions, strict=True):
                if event.kind == e.EXTEND_RESULT and 0 <= submission < len(tokens):
                    tokens[submission].extend(event.tokens)
    numbers: dict[bytes, int] = {}
    size = part.prefix_tokens
    return [
        {
            i: numbers.setdefault(held[i * size : (i + 1) * size].tobytes(), len(numbers))
            for i in range(len(held) // size)
        }
        for held in tokens
    ]


def unbroken(pages: dict[int, int]) -> int:
    """Return how many pages are known from the front without a gap."""
    count = 0
    while count in pages:
        count += 1
    return count


class SpanBook:
    """Gives every prefix its place. Feed requests in order of submission, then ask for the spans of each."""

    def __init__(self, page_tokens: int) -> None:
        self._size = page_tokens
        self._child: dict[tuple[int, int], int] = {}
        self._place: list[tuple[int, int]] = []
        self._continued: set[int] = set()
        self._sources = 0
        self._paths: list[list[int]] = []

    def add(self, pages: Sequence[int]) -> None:
        """Learn the full pages of the next request, from the front."""
        node, path = _ROOT, []
        for page in pages:
            child = self._child.get((node, page))
            if child is None:
                child = self._child[node, page] = len(self._place)
                self._place.append(self._next_place(node))
            node = child
            path.append(node)
        self._paths.append(path)

    def _next_place(self, node: int) -> tuple[int, int]:
        if node != _ROOT and node not in self._continued:
            self._continued.add(node)
            source, offset = self._place[node]
            return source, offset + self._size
        return self._new_source(), 0

    def _new_source(self) -> int:
        self._sources += 1
        return self._sources

    def spans(self, submission: int, tokens: int) -> tuple[Span, ...]:
        """Return `tokens` tokens of a request: its pages, and behind them tokens that nothing shares. Ask once each."""
        path = self._paths[submission][: tokens // self._size]
        spans: list[Span] = []
        for node in path:
            _append(spans, Span(*self._place[node], self._size))
        if rest := tokens - len(path) * self._size:
            _append(spans, Span(*self._next_place(path[-1] if path else _ROOT), rest))
        return tuple(spans)


def _append(spans: list[Span], span: Span) -> None:
    if spans and spans[-1].source == span.source and spans[-1].start + spans[-1].length == span.start:
        span = Span(span.source, spans[-1].start, spans.pop().length + span.length)
    spans.append(span)
