"""What comes back from the runtime: results, ends, acknowledgements (`scheduler-rules.md` 4.2 and 10.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tsviz.scheduler import events as ev
from tsviz.scheduler.cache.coordinator import Cache
from tsviz.scheduler.cache.index import ENDPOINT
from tsviz.scheduler.cache.publication import Progress
from tsviz.scheduler.cache.transfers import StoreOp
from tsviz.scheduler.config import Config, Role
from tsviz.scheduler.errors import SchedulerAbort
from tsviz.scheduler.planning.admission import Admission
from tsviz.scheduler.planning.retraction import Retraction
from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.request import Request
from tsviz.scheduler.states import (
    BOOTSTRAPPING,
    DECODING,
    FINISHED,
    PREFILL_AWAITING_RESULT,
    PREFILL_DONE,
    PREFILLING,
    REMOTE_PREFILLING,
    RETRACTED,
    STATE_NAMES,
    SUBMITTED,
    holds_pages,
    illegal,
)


class Feedback:
    """Applies events to the requests of one scheduler."""

    __slots__ = ("admission", "cache", "config", "finish_stores", "retraction", "roster")

    def __init__(
        self, config: Config, cache: Cache, roster: Roster, admission: Admission, retraction: Retraction
    ) -> None:
        """No event yet."""
        self.config = config
        self.cache = cache
        self.roster = roster
        self.admission = admission
        self.retraction = retraction
        self.finish_stores: list[StoreOp] = []
        """Store operations that finishes started since the last plan."""

    def handlers(self) -> dict[type, Callable[[Any], None]]:
        """By event class, what applies it."""
        return {
            ev.ExtendResult: self._on_result,
            ev.Finish: self._on_finish,
            ev.Abort: self._on_abort,
            ev.Failed: self._on_abort,
            ev.Retract: self._on_retract,
            ev.UpdateReserve: self._on_update_reserve,
            ev.WriteBackDone: lambda e: self.cache.transfers.complete_store(e.op_id),
            ev.LoadBackDone: lambda e: self.cache.transfers.complete_load(e.op_id, e.success),
            ev.Bootstrapped: self._on_bootstrapped,
            ev.Succeeded: self._on_succeeded,
            ev.RemotePrefillDone: self._on_remote_prefill_done,
        }

    def _live(self, request_id: str) -> Request | None:
        request = self.roster.by_id.get(request_id)
        return None if request is None or request.state == FINISHED else request

    def _on_result(self, event: ev.ExtendResult) -> None:
        request = self.roster.by_id.get(event.request_id)
        if request is None:
            return
        state = request.state
        if state == FINISHED:
            return
        if not holds_pages(state):
            raise illegal("ExtendResultEvent", state)
        if not request.in_flight:
            raise SchedulerAbort(f"result for '{event.request_id}' without a forward in flight")
        request.in_flight -= 1
        tokens = event.tokens
        if tokens:
            if state == PREFILLING:
                raise RuntimeError("ExtendResultEvent: an intermediate prefill chunk produces no tokens")
            request.tokens.extend(tokens)
            if state == PREFILL_AWAITING_RESULT:
                self.roster.move(request, PREFILL_DONE)
        if event.spec_candidate_ids:
            request.spec_candidates = tuple(event.spec_candidate_ids)

    def _on_finish(self, event: ev.Finish) -> None:
        request = self._live(event.request_id)
        if request is None:
            return
        if self.pinned(request):
            raise RuntimeError("PD Finish received while transfer pages are pinned")
        if request.state == RETRACTED:
            self.roster.move(request, FINISHED)
            return
        if request.state not in (PREFILL_DONE, DECODING):
            raise illegal("FinishEvent", request.state)
        self._publish_finished(request)
        self.admission.release(request, FINISHED)

    def _publish_finished(self, request: Request) -> None:
        """Publish the pages completed since the last admission, and store what the host lacks."""
        cache, page_tokens = self.cache, self.cache.page_tokens
        pages, known = (len(request.tokens) - 1) // page_tokens, request.hashed_pages
        if pages < known:
            raise RuntimeError("cache progress exceeds completed request pages")
        chain = request.digests(pages)
        if pages > known:
            if cache.kv is not None:
                cache.kv.describe(chain, request.tokens, known, pages)
            progress = Progress(known, pages, ENDPOINT, ENDPOINT, tuple(request.state_boundaries), False)
            for group, table in zip(cache.groups, request.tables, strict=True):
                cache.publisher.publish(group, table, chain, progress, request.access_epoch, request.request_id)
        if not self.admission.streams:
            return
        cache.transfers.queue_history(chain[:pages])
        cache.transfers.queue_latest_state(chain[: min(pages, request.prefill_size // page_tokens)])
        op = cache.transfers.start_stores(source_pinned=True)
        if op is not None:
            self.finish_stores.append(op)

    def _on_abort(self, event: ev.Abort | ev.Failed) -> None:
        request = self._live(event.request_id)
        if request is not None:
            self._drop(request)

    def _drop(self, request: Request) -> None:
        if holds_pages(request.state):
            self.admission.release(request, FINISHED)
        else:
            self.roster.move(request, FINISHED)

    def _on_retract(self, event: ev.Retract) -> None:
        request = self._live(event.request_id)
        if request is None or request.state == RETRACTED:
            return
        if not holds_pages(request.state):
            raise illegal("RetractEvent", request.state)
        self.retraction.demote(request, recoverable=False)

    def _on_update_reserve(self, event: ev.UpdateReserve) -> None:
        request = self._live(event.request_id)
        if request is None:
            return
        if request.state != DECODING:
            raise illegal("UpdateReserveNumTokensEvent", request.state)
        request.next_reserve_tokens = event.reserve_tokens

    def _on_bootstrapped(self, event: ev.Bootstrapped) -> None:
        request = self._live(event.request_id)
        if request is not None and request.state == BOOTSTRAPPING:
            self.roster.move(request, SUBMITTED)

    def _on_succeeded(self, event: ev.Succeeded) -> None:
        request = self._live(event.request_id)
        if request is None:
            return
        if request.state not in (PREFILL_DONE, DECODING):
            raise RuntimeError(f"PD SucceededEvent received in state {STATE_NAMES[request.state]}")
        self._drop(request)

    def _on_remote_prefill_done(self, event: ev.RemotePrefillDone) -> None:
        request = self._live(event.request_id)
        if request is None or request.state in (PREFILL_DONE, DECODING):
            return
        if request.state != REMOTE_PREFILLING:
            name = STATE_NAMES[request.state]
            raise RuntimeError(f"PD RemotePrefillDoneEvent received before destination admission; state={name}")
        if event.bootstrap_token < 0:
            raise ValueError("PD RemotePrefillDoneEvent requires a non-negative bootstrap token")
        request.tokens.append(event.bootstrap_token)
        self.roster.move(request, PREFILL_DONE)

    def pinned(self, request: Request) -> bool:
        """Whether a PD transfer reads or writes the request's pages."""
        role = self.config.role
        if role is Role.P:
            return holds_pages(request.state)
        return role is Role.D and request.state == REMOTE_PREFILLING
