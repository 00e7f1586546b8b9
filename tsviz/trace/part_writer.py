"""Entries become rows: the writer's side of recording one scheduler. Runs on the writer thread only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import entries as e
from .builder import TableBuilder, Vocabulary
from .causes import Causes
from .chains import ChainBook
from .round_rows import add_round
from .rounds import PlanBook
from .segments import HotSegments
from .tables import RECORDED
from .tokens import FULL, PageBook


class PartWriter:
    """Takes the entries of one scheduler in order, keeps their rows and writes them at `flush`."""

    def __init__(
        self,
        segments: HotSegments,
        *,
        slots: int,
        prefix_tokens: int,
        token_mode: str,
        event_reader: e.EventReader,
        storage: bool = False,
    ) -> None:
        """`slots`: size of the request pool; `storage`: whether storage keys may be registered."""
        self._segments = segments
        self._full = token_mode == FULL
        self._event_reader = event_reader
        self._requests, self._words = Vocabulary(), Vocabulary()
        self._tables = {name: TableBuilder(t, self._requests, self._words) for name, t in RECORDED.items()}
        self._book = PlanBook(slots, content=self._full)
        self._pages = PageBook(prefix_tokens)
        self._chains = ChainBook(prefix_tokens) if storage and not self._full else None
        self._causes = Causes()
        self._round = 0
        self._sequence = 0
        self._submissions = 0

    @property
    def pending_rows(self) -> int:
        """Rows that wait for the next flush."""
        return sum(t.rows for t in self._tables.values())

    def flush(self) -> bool:
        """Write what has come together and commit it; returns whether there was anything."""
        wrote = False
        for builder in self._tables.values():
            if builder.rows:
                self._segments.append(builder.table, builder.take())
                wrote = True
        if wrote:
            self._segments.commit(self._round, self._sequence - 1)
        return wrote

    def consume(self, entry: e.Entry) -> None:
        """Turn one entry into rows."""
        match entry:
            case e.PlanEntry():
                self._plan(entry)
            case e.AdvanceEntry():
                self._advance(entry)
            case e.SubmitEntry():
                self._submit(entry)
            case e.ForwardEntry():
                self._tables["forwards"].add(round=self._round, start_ns=entry.start_ns, end_ns=entry.end_ns)
            case e.KeysEntry():
                self._keys(entry)
            case e.ClearEntry():
                self._call(entry, entry.kind, 0, entry.failure, result=entry.result)
            case e.DrainEntry():
                self._drain(entry)

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
        record = self._book.record(entry.plan, entry.waiting_before, entry.counters)
        add_round(self._tables, self._round, sequence, entry.time_ns, record)
        causes, round_ = self._causes, self._round
        for batch in record.batches:
            if batch.decode_kind == "decode":
                causes.planned(round_, entry.time_ns, batch.submissions)
            else:
                causes.planned_remote(round_, batch.submissions)
        for transfer in record.plan.transfers:
            for op_id in transfer.op_ids:
                causes.planned_operation(round_, op_id)

    def _submit(self, entry: e.SubmitEntry) -> None:
        sequence = self._call(entry, e.SUBMIT, len(entry.specs), entry.failure)
        accepted = entry.failure is None
        for spec in entry.specs:
            submission = self._submissions
            self._submissions += 1
            prompt = self._pages.prompt(spec.tokens)
            if self._full:
                for number, tokens in prompt.new:
                    self._tables["prefix_pages"].add(round=self._round + 1, page=number, tokens=tokens)
            if accepted:
                self._book.submit(spec.request, submission)
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

    def _advance(self, entry: e.AdvanceEntry) -> None:
        sequence = self._call(entry, e.ADVANCE, len(entry.events), entry.failure)
        reader = self._event_reader
        table = self._tables["events"].columns
        round_ = self._round + 1
        full = self._full
        for item, raw in enumerate(entry.events):
            event: e.Event = raw if type(raw) is e.Event else reader[type(raw)](raw)
            kind, request = event.kind, event.request
            submission = -1 if request is None else self._book.submission(request)
            cause = self._cause(event, submission)
            began = None if cause is None else self._causes.start_ns(cause)
            table["kind"].add_text(kind)
            table["request"].add_text(request)
            table["submission"].add(submission)
            table["item"].add(item)
            table["op_id"].add(event.op_id)
            table["value"].add(
                event.value if full or event.value is None or kind != e.REMOTE_PREFILL_DONE else min(event.value, 0)
            )
            table["token_count"].add(len(event.tokens))
            table["tokens"].add(event.tokens if full else None)
            table["candidate_count"].add(len(event.candidates))
            table["candidates"].add(event.candidates if full else None)
            table["cause_round"].add(cause)
            table["delay_ns"].add(None if began is None else entry.time_ns - began)
            if not full and submission >= 0:
                self._grow(event, submission, entry)
            if kind in (e.FINISH, e.ABORT, e.FAILED, e.SUCCEEDED) and entry.failure is None:
                self._causes.ended(submission)
                self._pages.forget(submission)
            elif kind == e.RETRACT and request is not None:
                self._book.retract(request)
        table["call_seq"].repeat(sequence, len(entry.events))
        table["round"].repeat(round_, len(entry.events))

    def _cause(self, event: e.Event, submission: int) -> int | None:
        if event.kind == e.EXTEND_RESULT:
            return self._causes.result(submission)
        if event.op_id is not None:
            return self._causes.operation(event.op_id)
        if event.kind in (e.REMOTE_PREFILL_DONE, e.SUCCEEDED, e.FAILED):
            return self._causes.remote(submission)
        return None

    def _grow(self, event: e.Event, submission: int, entry: e.AdvanceEntry) -> None:
        """Follow a request's tokens so that pages it fills later are known by identity."""
        tokens: Sequence[int] = event.tokens
        if event.kind == e.REMOTE_PREFILL_DONE:
            tokens = (event.value,) if event.value is not None and event.value >= 0 else ()
        if not tokens:
            return
        if entry.failure is not None:
            # The call stopped half-way: land only what the scheduler says it holds.
            held = (entry.held or {}).get(event.request or "")
            have = self._pages.held_tokens(submission)
            if held is None or have is None or have + len(tokens) > held:
                return
        for index, page in self._pages.grow(submission, tokens):
            self._tables["grown_pages"].add(round=self._round + 1, submission=submission, index=index, page=page)
            if self._chains is not None:
                self._chains.grown(submission, page, self._pages)

    def _keys(self, entry: e.KeysEntry) -> None:
        sequence = self._call(entry, entry.kind, len(entry.groups), entry.failure)
        for item, (group, content_hash, offset) in enumerate(
            zip(entry.groups, entry.hashes, entry.offsets, strict=False)
        ):
            chain = None if self._chains is None else self._chains.chain(content_hash)
            self._tables["storage_keys"].add(
                call_seq=sequence,
                round=self._round + 1,
                item=item,
                group_index=group,
                content_hash=content_hash if self._full else None,
                chain=chain,
                page_offset=offset,
            )

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
