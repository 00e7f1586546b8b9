"""What a driver knows of each request from the calls it made and the plans it saw, and nothing else.

The reference aborts its process when a result lands with nothing in flight, so the driver must count
in-flight work itself. Where a plan leaves several readings open (which of several quiescent requests was
retracted), the tracker keeps the reading under which fewer results are in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SAFE_TOKENS = 4096


@dataclass(slots=True)
class Tracked:
    """One live request as seen from outside."""

    request_id: str
    tokens: list[int]
    submitted_tokens: int
    max_new_tokens: int
    state: str  # boot, wait, prefill, await, done, decode, remote
    in_flight: list[str] = field(default_factory=list)  # oldest first: chunk, last, decode
    window_end: int = 0
    prefill_size: int = 0
    slot: int = 0
    retractions: int = 0
    runtime_retracted: bool = False
    maybe_retracted: bool = False
    turned_exempt: bool = False
    expected_hit: int | None = None

    @property
    def generated(self) -> int:
        """Tokens beyond the submitted prompt."""
        return len(self.tokens) - self.submitted_tokens

    @property
    def resident(self) -> bool:
        """Whether it holds pages as far as can be told."""
        return self.state in ("prefill", "await", "done", "decode", "remote")

    def covered(self) -> bool:
        """ReserveCoversGeneration: the exemption from retraction (scheduler-rules 3)."""
        size = self.prefill_size or self.submitted_tokens
        remaining = max(0, self.max_new_tokens - (size - self.submitted_tokens))
        return self.max_new_tokens > 0 and SAFE_TOKENS * (1 + self.retractions) >= remaining


@dataclass(slots=True)
class Round:
    """What one plan did, as far as it shows."""

    plan: dict[str, Any]
    retracted: int
    first_chunks: list[Tracked]
    readmitted: list[Tracked]
    granted_new: list[Tracked]


class Tracker:
    """All live requests of one scheduler, and the unacknowledged operations."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.live: dict[str, Tracked] = {}
        self.known: list[str] = []
        self.loads: dict[int, tuple[bool, list[str]]] = {}
        self.stores: dict[int, bool] = {}
        self.finished_texts: list[list[int]] = []
        self.plan_raised = False

    def submitted(self, request_id: str, tokens: list[int], max_new_tokens: int) -> None:
        """A request was accepted."""
        state = "wait" if self.role == "Fused" else "boot"
        self.live[request_id] = Tracked(request_id, list(tokens), len(tokens), max_new_tokens, state)
        if request_id not in self.known:
            self.known.append(request_id)

    def gone(self, request_id: str) -> None:
        """A request finished, failed or was aborted."""
        request = self.live.pop(request_id, None)
        if request:
            self.finished_texts = [*self.finished_texts[-5:], request.tokens]

    def retracted_by_runtime(self, request_id: str) -> None:
        """A runtime Retract was accepted."""
        request = self.live.get(request_id)
        if request and request.resident:
            request.state = "wait"
            request.in_flight = []
            request.prefill_size = len(request.tokens)
            request.runtime_retracted = True

    def texts(self) -> list[list[int]]:
        """Prompts with what was generated behind them, of requests that ended lately or still live."""
        return self.finished_texts + [request.tokens for request in self.live.values()]

    def in_state(self, *states: str) -> list[Tracked]:
        """Live requests in one of the states, in submission order."""
        return [request for request in self.live.values() if request.state in states]

    def planned(self, plan: dict[str, Any], waiting_before: int, waiting_after: int) -> Round:
        """Read one plan: rows, operations, and how many requests were retracted."""
        first: list[Tracked] = []
        readmitted: list[Tracked] = []
        new: list[Tracked] = []
        rows: set[str] = set()
        for batch, remote in (
            (plan["forward"][0], ""),
            *((plan[n], n) for n in ("remote_decode", "remote_prefill")),
        ):
            if batch is None:
                continue
            for index, request_id in enumerate(batch["request_ids"]):
                rows.add(request_id)
                request = self.live[request_id]
                if index >= batch["num_extends"]:
                    self._decoded(request, remote)
                    continue
                kind = self._prefilled(request, batch, index, remote)
                if kind:
                    first.append(request)
                    (readmitted if kind == "again" else new).append(request)
        retracted = waiting_after - (waiting_before - len(first))
        self._suspect(retracted, rows)
        for operation in plan["cache"]:
            for position, op_id in enumerate(operation["op_ids"]):
                if operation["kind"] == "WriteBackOp":
                    self.stores[op_id] = bool(operation["source_pinned"][position])
                else:
                    prefetch = any(operation["prefetch_from_storage"][position])
                    self.loads[op_id] = (prefetch, sorted(rows))
        return Round(plan, retracted, first, readmitted, new)

    def _decoded(self, request: Tracked, remote: str) -> None:
        request.state = "decode"
        if not remote:
            request.in_flight.append("decode")

    def _prefilled(self, request: Tracked, batch: dict[str, Any], index: int, remote: str) -> str:
        """Apply a prefill row; "" for a later chunk, "new" or "again" for a first one."""
        begin = batch["extend_prefix_lens"][index] + batch["extend_replay_lens"][index]
        end = batch["extend_prefix_lens"][index] + batch["input_lengths"][index]
        size, slot = batch["prefill_lengths"][index], batch["request_pool_indices"][index]
        later = request.state == "prefill" and begin == request.window_end and slot == request.slot
        kind = "" if later else "new"
        exempt = request.covered()
        if kind and request.resident:
            request.retractions += 1
            kind = "again"
        elif kind and request.runtime_retracted:
            kind = "again"
        request.maybe_retracted = False
        request.window_end, request.prefill_size, request.slot = end, size, slot
        request.turned_exempt = kind == "again" and not exempt and request.covered()
        if remote and not request.runtime_retracted:
            request.state = "remote"
            return kind
        complete = end >= size
        request.state = ("await" if self.role == "P" else "done") if complete else "prefill"
        if not remote:
            request.in_flight.append("last" if complete else "chunk")
        return kind

    def _suspect(self, retracted: int, rows: set[str]) -> None:
        if retracted <= 0:
            return
        for request in self.in_state("prefill", "done", "decode"):
            if request.request_id not in rows and not request.in_flight:
                request.maybe_retracted = True
