"""Entries become rows: the writer's side of recording one scheduler. Runs on the writer thread only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from . import entries as e
from .builder import TableBuilder, Vocabulary
from .catalogue import CALLS, PLANS, TABLES
from .chains import ChainBook
from .decided import DecisionRows
from .device_rows import DeviceRows
from .event_rows import EventRows
from .gaps import Gap
from .plan_fields import ReadPlan
from .round_rows import OperationRows, add_plan, add_round
from .rounds import PlanBook
from .segments import HotSegments
from .shared_plans import SharedPlans
from .tokens import FULL, PageBook


class PartWriter:
    """Takes the entries of one scheduler in order, keeps their rows and writes them at `flush`."""

    def __init__(
        self,
        segments: HotSegments,
        *,
        prefix_tokens: int,
        token_mode: str,
        event_reader: e.EventReader,
        storage: bool = False,
        read: ReadPlan | None = None,
        level: str = PLANS,
        most_pages: int | None = None,
    ) -> None:
        """`storage`: whether registered storage keys have an effect, so that their prefixes must be followed.

        `read` reads a plan, as `SharedPlans` does. At level `calls` nothing is kept of one but its row in `rounds`.
        `most_pages`: how many distinct prefix pages are known at once; with storage all are: what is stored stays.
        """
        self._segments = segments
        read = read or SharedPlans().read
        self._settings: dict[str, Any] = {
            "prefix_tokens": prefix_tokens, "token_mode": token_mode, "event_reader": event_reader, "storage": storage,
            "read": read, "level": level, "most_pages": most_pages,
        }  # fmt: skip
        self._first_submission = 0
        self._full = token_mode == FULL
        self._keeps_plans = level != CALLS
        self._requests = Vocabulary()
        self._tables = {name: TableBuilder(t, self._requests) for name, t in TABLES.items()}
        self._book = PlanBook(content=self._full, read=read)
        self._pages = PageBook(prefix_tokens, None if storage else most_pages)
        self._chains = ChainBook(prefix_tokens) if storage and not self._full else None
        self._keys_seen: dict[str, int] = {}
        self._decisions = DecisionRows(self._tables, self._book.submission)
        self._told: list[e.Decided] = []
        self.unsettled = 0
        """How many entries were taken since `settle`."""
        self._events = EventRows(
            self._tables, book=self._book, pages=self._pages, chains=self._chains, reader=event_reader, full=self._full
        )
        self._operations = OperationRows(self._tables["operations"], content=self._full)
        self._device = DeviceRows(self._tables, self._submissions_of, content=self._full)
        self._settlers: list[Callable[[], None]] = [
            self._operations.settle, self._events.settle, *self._device.settlers,
            *(builder.settle for builder in self._tables.values()),
        ]  # fmt: skip
        self._gap = Gap()
        self._round = 0
        self._sequence = 0
        self._submissions = 0

    def successor(self, segments: HotSegments) -> PartWriter:
        """Return a writer of the next segment, to be called behind a plan once everything was flushed.

        It numbers on, and knows of the past what it needs: requests that live or were submitted in this segment. Its
        vocabularies are new; with tokens in full its dictionary of pages too.
        """
        after = PartWriter(segments, **self._settings)
        after._book = self._book.forget(self._events.live, self._first_submission)
        after._events.follow(self._events, after._book)
        after._decisions = DecisionRows(after._tables, after._book.submission)
        after._decisions.follow(self._decisions)
        if not self._full:
            after._pages, after._chains = self._pages, self._chains
        after._keys_seen, after._gap = self._keys_seen, self._gap
        after._round, after._sequence = self._round, self._sequence
        after._submissions = after._first_submission = self._submissions
        segments.start_at(self._round, self._sequence - 1)
        return after

    def _submissions_of(self, requests: Sequence[str]) -> list[int]:
        return self._book.submissions(requests)

    @property
    def pending_rows(self) -> int:
        """Rows that wait for the next flush."""
        return self._decisions.count + sum(t.rows for t in self._tables.values())

    def settle(self, between: Callable[[], None] = lambda: None) -> None:
        """Make rows of what waits for more to come: to be called now and then, and better behind many entries.

        `between` is called between the parts of that, none of which takes long.
        """
        self.unsettled = 0
        for settle in self._settlers:
            settle()
            between()

    def flush(self) -> bool:
        """Write what has come together and commit it; returns whether there was anything."""
        wrote = False
        self.settle()
        self._decisions.settle()
        self._tell_gap()
        for builder in self._tables.values():
            if builder.rows:
                self._segments.append(builder.table, builder.take())
                wrote = True
        if wrote:
            self._segments.commit(self._round, self._sequence - 1)
        return wrote

    def consume(self, entry: e.Entry | e.Decided) -> None:
        """Turn one entry into rows. Decisions wait for the call that they were taken in, which names its requests."""
        if type(entry) is tuple:  # and not one of the named ones
            self._told.append(cast(e.Decided, entry))
            return
        self.unsettled += 1
        match entry:
            case e.PlanEntry():
                self._plan(entry)
            case e.AdvanceEntry():
                self._advance(entry)
            case e.SubmitEntry():
                self._submit(entry)
            case e.ForwardEntry() | e.ForwardRowsEntry() | e.DeviceOpsEntry() | e.PageCrcsEntry():
                self._device.add(self._round, entry)
            case e.KeysEntry():
                self._keys(entry)
            case e.ClearEntry():
                self._call(entry, entry.kind, 0, entry.failure, result=entry.result)
            case e.DrainEntry():
                self._drain(entry)
        if self._told:
            for round_, stop, decision in self._told:
                self._decisions.add(round_, stop, decision)
            self._told.clear()

    def _call(
        self,
        entry: Any,
        kind: str,
        items: int,
        failure: e.Failure | None,
        *,
        round_: int | None = None,
        result: bool | None = None,
    ) -> int:
        sequence = self._sequence
        self._sequence += 1
        self._tables["calls"].add(
            seq=sequence,
            round=self._round + 1 if round_ is None else round_,
            kind=kind,
            time_ns=entry.time_ns,
            duration_ns=entry.duration_ns,
            items=items,
            outcome="ok" if failure is None else failure.kind,
            error=None if failure is None else failure.message,
            result=result,
        )
        return sequence

    def _plan(self, entry: e.PlanEntry) -> None:
        self._round += 1
        sequence = self._call(entry, e.PLAN, 0, entry.failure, round_=self._round)
        if entry.plan is None or entry.counters is None:
            return
        if entry.plan is e.DROPPED:
            self._gap.drop(self._round)
            return
        if self._gap.open:
            self._gap.open = False
            self._tell_gap()
            self._book.lose()
            self._events.causes.lose(self._events.live)
        record = self._book.record(entry.plan, entry.waiting_before, entry.counters)
        add_round(self._tables["rounds"], self._round, sequence, entry.time_ns, record)
        if self._keeps_plans:
            add_plan(self._tables, self._round, record, self._operations)
        causes, round_ = self._events.causes, self._round
        for batch in record.batches:
            if batch.decode_kind == "decode":
                causes.planned(round_, entry.time_ns, batch.submissions)
            else:
                causes.planned_remote(round_, batch.submissions)
        for transfer in record.plan.transfers:
            for op_id in transfer.op_ids:
                causes.planned_operation(round_, op_id)

    def _tell_gap(self) -> None:
        """Say which plans were dropped that nothing was said of yet."""
        for row in self._gap.rows(plans=self._keeps_plans):
            self._tables["gaps"].add(**row)

    def _submit(self, entry: e.SubmitEntry) -> None:
        self._device.settle()
        sequence = self._call(entry, e.SUBMIT, len(entry.specs), entry.failure)
        accepted = entry.failure is None
        for spec in entry.specs:
            submission = self._submissions
            self._submissions += 1
            self._requests.code(spec.request)  # numbered now: codes do not depend on which table is filled first
            prompt = self._pages.prompt(spec.tokens)
            if self._full:
                for number, tokens in prompt.new:
                    self._tables["prefix_pages"].add(round=self._round + 1, page=number, tokens=tokens)
            if accepted:
                self._book.submit(spec.request, submission)
                self._events.submitted(submission, len(spec.tokens))
                if not self._full:
                    self._pages.follow(submission, len(spec.tokens), prompt.tail)
                    if self._chains is not None:
                        self._chains.prompt(submission, spec.tokens, prompt.pages)
            arrival = (entry.arrivals or {}).get(spec.request, e.Arrival(None, None, None))
            self._tables["submissions"].add(
                call_seq=sequence,
                round=self._round + 1,
                submission=submission,
                request=spec.request,
                prompt_tokens=len(spec.tokens),
                max_new_tokens=spec.max_new_tokens,
                accepted=accepted,
                pages=prompt.pages,
                tail=prompt.tail if self._full else None,
                arrival_ns=arrival.arrival_ns,
                after=arrival.after,
                think_ns=arrival.think_ns,
            )
        self._tell_chains()

    def _advance(self, entry: e.AdvanceEntry) -> None:
        sequence = self._call(entry, e.ADVANCE, len(entry.events), entry.failure)
        self._events.add(entry, sequence, self._round + 1)
        self._tell_chains()

    def _keys(self, entry: e.KeysEntry) -> None:
        lists = (entry.groups, entry.hashes, entry.offsets)
        sequence = self._call(entry, entry.kind, max(map(len, lists)), entry.failure)
        for item, (group, content_hash, offset) in enumerate(zip(*lists, strict=False)):
            key = self._keys_seen.get(content_hash)
            if key is None:
                key = self._keys_seen[content_hash] = len(self._keys_seen)
                if self._chains is not None:
                    self._chains.want(key, content_hash)
            self._tables["storage_keys"].add(
                call_seq=sequence,
                round=self._round + 1,
                item=item,
                group_index=group,
                key=key,
                content_hash=content_hash if self._full else None,
                page_offset=offset,
            )
        self._tell_chains()

    def _tell_chains(self) -> None:
        """Store the chains of storage keys that became known."""
        if self._chains is not None:
            for key, pages in self._chains.known():
                self._tables["key_prefixes"].add(round=self._round + 1, key=key, pages=pages)

    def _drain(self, entry: e.DrainEntry) -> None:
        sequence = self._call(entry, e.DRAIN, len(entry.events), entry.failure)
        if not self._full:
            return
        for item, event in enumerate(entry.events):
            stored = event.kind == "BlockStored"
            self._tables["kv_events"].add(
                call_seq=sequence,
                round=self._round + 1,
                item=item,
                kind=event.kind,
                block_hash=event.block_hashes[0],
                parent_hash=event.parent_block_hash if stored else None,
                tokens=event.token_ids if stored else None,
                block_tokens=event.block_size if stored else None,
            )
