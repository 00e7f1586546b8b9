"""The rows of one advance call, column by column, and what its events mean for the tokens that requests hold."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import add, attrgetter
from typing import Any

from . import entries as e
from .builder import TableBuilder
from .causes import Causes
from .chains import ChainBook
from .refusals import refused_at
from .result_rows import Cause, ResultRows
from .rounds import PlanBook
from .tokens import PageBook

_RESULT = "ExtendResult"
"""Name of the class of results in the public API; its fields are read directly."""
_of_result = attrgetter("request_id", "tokens", "spec_candidate_ids")
_ENDS = frozenset((e.FINISH, e.ABORT, e.FAILED, e.SUCCEEDED))
_REMOTE = frozenset((e.REMOTE_PREFILL_DONE, e.SUCCEEDED, e.FAILED))


class EventRows:
    """Appends to the tables events and grown_pages; keeps `causes`, the plan book and the page book up to date."""

    def __init__(
        self,
        tables: Mapping[str, TableBuilder],
        *,
        book: PlanBook,
        pages: PageBook,
        chains: ChainBook | None,
        reader: e.EventReader,
        full: bool,
    ) -> None:
        """`full`: whether tokens are recorded."""
        self._table, self._grown = tables["events"].columns, tables["grown_pages"]
        self._book, self._pages, self._chains = book, pages, chains
        self._reader, self._full = reader, full
        self._result = next((kind for kind in reader if kind.__name__ == _RESULT), None)
        self._held: dict[int, int] = {}
        self._landed = ResultRows(self._table, full=full)
        self.causes = Causes()

    def follow(self, before: EventRows, book: PlanBook) -> None:
        """Go on from the rows of an earlier segment, with another plan book; identity tokens keep their pages."""
        self._held, self.causes, self._book = before._held, before.causes, book
        if not self._full:
            self._pages, self._chains = before._pages, before._chains

    @property
    def live(self) -> Collection[int]:
        """The submissions that hold tokens."""
        return self._held

    def submitted(self, submission: int, prompt_tokens: int) -> None:
        """Note how many tokens an accepted request starts with."""
        self._held[submission] = prompt_tokens

    def add(self, entry: e.AdvanceEntry, sequence: int, round_: int) -> None:
        """Append the events of a call, which precedes the plan of `round_`."""
        events = entry.events
        if entry.failure is not None or entry.held is not None:
            self._add(entry, events, 0, sequence, round_)
            return
        # Nearly all events are results that land one behind the other: those are taken column by column.
        first = 0
        for run in events.runs if isinstance(events, e.Runs) else self._runs(events):
            if not isinstance(run, e.Results) or not self._results(entry, run, first, sequence, round_):
                self._add(entry, run, first, sequence, round_)
            first += len(run)

    def settle(self) -> None:
        """Make rows of what waits."""
        self._landed.settle()

    def _runs(self, events: Sequence[Any]) -> Iterable[e.Results | Sequence[Any]]:
        if set(map(type, events)) == {self._result}:
            return (_as_columns(events),)
        runs = [(kind, list(group)) for kind, group in groupby(events, type)]
        return [_as_columns(run) if kind is self._result else run for kind, run in runs]

    def _results(self, entry: e.AdvanceEntry, run: e.Results, first: int, sequence: int, round_: int) -> bool:
        """Append results that all land; returns False, with nothing done, when one is of a request that is not live."""
        requests, tokens = run.requests, run.tokens
        submissions, held = self._book.submissions(requests), self._held
        if not all(map(held.__contains__, submissions)):
            return False
        lengths = list(map(len, tokens))
        held.update(zip(submissions, map(add, map(held.__getitem__, submissions), lengths), strict=True))
        if not self._full:
            for submission, pages in self._pages.grow_all(submissions, tokens):
                self._grow(submission, pages, round_)
        causes = self.causes.results(submissions)
        self._landed.add(
            sequence, round_, first, run, array("i", submissions), array("i", lengths), *self._caused(entry, causes)
        )
        return True

    def _caused(self, entry: e.AdvanceEntry, causes: list[int | None]) -> tuple[Cause, Cause]:
        """Return the cause of each event, and how long after the start of its round it was told; one for all."""
        began, now, cause = self.causes.start_ns, entry.time_ns, causes[0]
        if causes.count(cause) == len(causes):
            start = None if cause is None else began(cause)
            return cause, None if start is None else now - start
        starts = [None if cause is None else began(cause) for cause in causes]
        return causes, [None if start is None else now - start for start in starts]

    def _add(self, entry: e.AdvanceEntry, raw: Iterable[Any], first: int, sequence: int, round_: int) -> None:
        """Append events of any kind, of which `first` is the position of the first one in the call."""
        self._landed.settle()
        reader, named = self._reader, self._book.submission
        events: list[e.Event] = [v if type(v) is e.Event else reader[type(v)](v) for v in raw]
        submissions = [-1 if v.request is None else named(v.request) for v in events]
        applied, landed = len(events), self._land(entry, events, submissions)
        if entry.failure is not None:
            ran = [self.causes.ran(submission) for submission in submissions]
            applied = refused_at(events, entry.failure, [i for i, count in enumerate(landed) if count], ran)
        causes = self._causes_of(events, submissions, applied)
        for item in range(applied):
            self._apply(events[item], submissions[item], landed[item], round_)
        self._rows(events, submissions, landed, applied, range(first, first + len(events)), sequence, round_)
        if events:
            for name, value in zip(("cause_round", "delay_ns"), self._caused(entry, causes), strict=True):
                if isinstance(value, list):
                    self._table[name].extend_optional(value)
                else:
                    self._table[name].repeat(value, len(events))

    def _land(self, entry: e.AdvanceEntry, events: Sequence[e.Event], submissions: Sequence[int]) -> list[int]:
        """Return how many tokens the request of each event took.

        A result of a live request always lands, unless the call raised before it. A bootstrap token lands only while
        its request waits for it, and no result can come then. Where that leaves a question, `entry.held` answers it.
        """
        held, told = self._held, entry.held
        landed = [0] * len(events)
        resulted = {s for v, s in zip(events, submissions, strict=True) if v.tokens} if told is not None else set()
        for item, (event, submission) in enumerate(zip(events, submissions, strict=True)):
            have = held.get(submission)
            if event.kind == e.REMOTE_PREFILL_DONE:
                count = 0 if submission in resulted or event.value is None or event.value < 0 else 1
            else:
                count = len(event.tokens)
                if event.kind in _ENDS and entry.failure is None:
                    held.pop(submission, None)
            if not count or have is None:
                continue
            if told is not None and have + count > told.get(event.request or "", have + count):
                continue
            held[submission] = have + count
            landed[item] = count
        return landed

    def _causes_of(self, events: Sequence[e.Event], submissions: Sequence[int], applied: int) -> list[int | None]:
        causes = self.causes
        found: list[int | None] = [None] * len(events)
        for item, (event, submission) in enumerate(zip(events, submissions, strict=True)):
            if item > applied:
                break
            kind = event.kind
            if kind == e.EXTEND_RESULT:
                found[item] = causes.result(submission)
            elif event.op_id is not None:
                found[item] = causes.operation(event.op_id)
            elif kind in _REMOTE:
                found[item] = causes.remote(submission)
            if item < applied:
                if kind in _ENDS:
                    causes.ended(submission)
                elif kind == e.RETRACT:
                    causes.retracted(submission)
        return found

    def _apply(self, event: e.Event, submission: int, landed: int, round_: int) -> None:
        """Follow a request's tokens, so that pages which it fills are known by identity; drop what ended."""
        if event.kind in _ENDS:
            self._held.pop(submission, None)
            self._pages.forget(submission)
            if self._chains is not None:
                self._chains.forget(submission)
        elif event.kind == e.RETRACT and event.request is not None:
            self._book.retract(event.request)
        elif landed and not self._full:
            tokens = (event.value or 0,) if event.kind == e.REMOTE_PREFILL_DONE else event.tokens
            self._grow(submission, self._pages.grow(submission, tokens), round_)

    def _grow(self, submission: int, pages: Sequence[tuple[int, int]], round_: int) -> None:
        for index, page in pages:
            self._grown.add(round=round_, submission=submission, index=index, page=page)
            if self._chains is not None:
                self._chains.grown(submission, page, self._pages)

    def _rows(
        self,
        events: Sequence[e.Event],
        submissions: Sequence[int],
        landed: Sequence[int],
        applied: int,
        items: range,
        sequence: int,
        round_: int,
    ) -> None:
        table, count, full = self._table, len(events), self._full
        table["call_seq"].repeat(sequence, count)
        table["round"].repeat(round_, count)
        table["item"].extend(items)
        table["kind"].extend_text([v.kind for v in events])
        table["request"].extend_text([v.request for v in events])
        table["submission"].extend(submissions)
        table["op_id"].extend_optional([v.op_id for v in events])
        table["value"].extend_optional([_value(v, full=full) for v in events])
        table["applied"].extend([True] * applied + [False] * (count - applied))
        table["token_count"].extend(
            [n if v.kind == e.REMOTE_PREFILL_DONE else len(v.tokens) for v, n in zip(events, landed, strict=True)]
        )
        table["candidate_count"].extend([len(v.candidates) for v in events])
        if full:
            table["tokens"].extend([v.tokens for v in events])
            table["candidates"].extend([v.candidates for v in events])
        else:
            table["tokens"].repeat_missing(count)
            table["candidates"].repeat_missing(count)


def _as_columns(results: Iterable[Any]) -> e.Results:
    requests, tokens, candidates = zip(*map(_of_result, results), strict=True)
    return e.Results(requests, tokens, candidates if any(candidates) else None)


def _value(event: e.Event, *, full: bool) -> int | None:
    value: Any = event.value
    if full or value is None or event.kind != e.REMOTE_PREFILL_DONE:
        return None if value is None else int(value)
    return 0 if value >= 0 else -1
