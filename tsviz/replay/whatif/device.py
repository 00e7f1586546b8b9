"""A device on virtual time that costs what the recording's did and says what it said (debugger.md, section 4)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from tsviz.engine.binding import Plan
from tsviz.engine.clock import Clock
from tsviz.engine.device import CacheResult, Fetched, ForwardResult, Planned
from tsviz.engine.faults import seeded_unit
from tsviz.engine.port import StorageKey
from tsviz.engine.simulated import SimulatedForward
from tsviz.engine.workloads.model import WorkRequest

from .cost import CostModel, Work
from .log import RunLog
from .midway import Conductor
from .source import Source


class RetimedDevice:
    """Implements `DeviceHandle`: one forward at a time, behind the one before it and its pause.

    With `acceptance_rate` the windows of speculative decodes are drawn; without, they end where recorded ones did.
    """

    def __init__(
        self,
        source: Source,
        cost: CostModel,
        clock: Clock,
        log: RunLog,
        *,
        width: int,
        acceptance_rate: float | None,
        conductor: Conductor | None = None,
    ) -> None:
        """`conductor`: while its script lasts, times and acknowledgements are the recorded ones."""
        self._conductor = conductor
        self._source, self._cost, self._clock, self._log = source, cost, clock, log
        self._width, self._acceptance_rate = max(1, width), acceptance_rate
        self._free_ns = clock.now_ns()
        self._said: dict[str, int] = {}
        self._due: list[tuple[int, int, CacheResult]] = []

    def execute(self, plan: Plan, planned: Planned) -> SimulatedForward | None:
        """Start the copies and the batch of a plan."""
        now_ns = self._clock.now_ns()
        self._copy(planned, now_ns)
        if planned.batch is None:
            return None
        work = _work(planned, self._log.operations(plan, planned))
        if (script := self._script) is not None:
            self._free_ns = script.script.forward_end_ns(script.round)
            return SimulatedForward(now_ns, script.script.landed_ns(script.round), self._rows(planned))
        start_ns = max(now_ns, self._free_ns) + self._cost.pause_ns(work)
        self._free_ns = start_ns + self._cost.forward_ns(work)
        return SimulatedForward(start_ns, self._free_ns, self._rows(planned))

    def poll_cache_results(self) -> Sequence[CacheResult]:
        """Return the copies that are acknowledged by now, in order of time, then of op id."""
        results: list[CacheResult] = []
        if self._script is not None:
            return results
        while self._due and self._due[0][0] <= self._clock.now_ns():
            results.append(heapq.heappop(self._due)[2])
        return results

    def probe_storage(self, keys: Sequence[StorageKey]) -> Sequence[bool]:
        """Nothing: there is no storage tier."""
        return [False] * len(keys)

    def prefetch_storage(self, keys: Sequence[StorageKey]) -> Fetched:
        """Find nothing: there is no storage tier."""
        return Fetched(frozenset(keys), None)

    def land_remote(self, request: WorkRequest, token: int, candidates: Sequence[int]) -> None:  # noqa: ARG002
        """Go on behind the first token, which a peer has said."""
        self._said[request.request_id] = 1

    def next_change_ns(self) -> int | None:
        """Return when the next acknowledgement is due."""
        if self._script is not None:
            return self._clock.now_ns()
        return self._due[0][0] if self._due else None

    def release(self, request_id: str) -> None:
        """Forget the request."""
        self._said.pop(request_id, None)

    def shutdown(self) -> None:
        """Nothing is held."""

    @property
    def _script(self) -> Conductor | None:
        conductor = self._conductor
        return None if conductor is None or conductor.turned else conductor

    def _copy(self, planned: Planned, now_ns: int) -> None:
        script = self._script
        for ops, is_store in ((planned.stores, True), (planned.loads, False)):
            for op_id in ops.op_ids if ops is not None else ():
                if script is not None and op_id in script.script.acknowledged:
                    continue
                told = self._source.acknowledgements.of(op_id, is_load=not is_store)
                if told.delay_ns is not None:
                    result = CacheResult(op_id, is_store, is_store or told.success)
                    heapq.heappush(self._due, (now_ns + told.delay_ns, op_id, result))

    def _rows(self, planned: Planned) -> ForwardResult:
        tokens: list[Sequence[int]] = []
        said, source = self._said, self._source
        for row, request_id in enumerate(planned.request_ids):
            request = planned.requests[row]
            submission = request.prompt[0].source
            if row < planned.num_extends:
                if planned.extend_prefix_lens[row] + planned.input_lengths[row] < planned.prefill_lengths[row]:
                    tokens.append(())
                    continue
                # A retracted request's prompt has grown by what it had said before.
                position, count = planned.prefill_lengths[row] - request.prompt_tokens, 1
            else:
                position = said[request_id]
                count = self._accepted(request_id, submission, position)
            said[request_id] = position + count
            tokens.append(source.output(submission, position, count))
        return ForwardResult(tokens)

    def _accepted(self, request_id: str, submission: int, position: int) -> int:
        if self._width == 1:
            return 1
        if self._acceptance_rate is None:
            return self._source.landing(submission, position, self._width)
        count = 1
        while count < self._width and seeded_unit(0, "accept", request_id, position, count) < self._acceptance_rate:
            count += 1
        return count


def _work(planned: Planned, replayed: int) -> Work:
    prefills = planned.num_extends
    fed = sum(planned.input_lengths[:prefills])
    fenced = loaded = 0
    if planned.stores is not None:
        columns = zip(planned.stores.group_ids, planned.stores.source_pinned, strict=True)
        fenced = sum(len(pages) for pages, pinned in columns if not pinned)
    if planned.loads is not None:
        loaded = sum(map(len, planned.loads.group_ids))
    return Work(
        chunk_tokens=fed - replayed,
        decode_tokens=sum(planned.input_lengths[prefills:]),
        replay_tokens=replayed,
        prefill_rows=prefills,
        decode_rows=len(planned.request_ids) - prefills,
        loaded_pages=loaded,
        fenced_store_pages=fenced,
    )
