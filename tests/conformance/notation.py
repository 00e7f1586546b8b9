"""The notation of the rule books' worked examples: drive a scheduler, and read plans as short text.

Rows read ``a:P[b+n/N]@s`` for a prefill row (extend prefix b, input length n, prefill length N, slot s),
with ``rp k`` behind it for k replayed tokens, and ``a:D[n/N]@s`` for a decode row.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.conformance.calls import build_config, build_spec, perform

Group = dict[str, Any]


def _group(kind: str, granularity: int, name: str | None, packing: int, shards: int, **more: Any) -> Group:
    policy = "LatestSnapshot" if more.get("family") == "State" else "FullSuffix"
    return {
        "group_id": name or kind,
        "block_granularity": granularity,
        "total_pages": 9999,
        "cache_blocks_per_lcm_block": packing,
        "shard_count": shards,
        "transfer_policy": policy,
        **more,
    }


def full(granularity: int, name: str | None = None, packing: int = 1, shards: int = 1) -> Group:
    """A full-history group."""
    return _group("full", granularity, name, packing, shards)


def sliding(
    window: int, granularity: int, name: str | None = None, packing: int = 1, replayable: bool = False
) -> Group:
    """A sliding-window group; replayable ones are regenerated instead of matched."""
    more = {"retention": "SlidingWindow", "sliding_window_tokens": window, "replayable": replayable}
    return _group("rep" if replayable else "swa", granularity, name, packing, 1, **more)


def replay(window: int, granularity: int) -> Group:
    """A replayable sliding group."""
    return sliding(window, granularity, replayable=True)


def state(granularity: int, name: str | None = None, packing: int = 1) -> Group:
    """A snapshot-state group."""
    return _group("st", granularity, name, packing, 1, family="State")


class Shown:
    """One plan, readable in the notation above."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        batch = plan["forward"][0]
        self.rows = _rows(batch)
        self.remote_prefill = _rows(plan["remote_prefill"])
        self.remote_decode = _rows(plan["remote_decode"])
        self.zero: dict[str, list[int]] = dict(plan["pages_to_zero"])
        operations = {operation["kind"]: operation for operation in plan["cache"]}
        self.store: dict[str, Any] | None = operations.get("WriteBackOp")
        self.load: dict[str, Any] | None = operations.get("LoadBackOp")

    def table(self, request_id: str, group: str = "full") -> list[int]:
        """The block-table row of a request in whichever batch holds it, without its padding."""
        for batch in (self.plan["forward"][0], self.plan["remote_prefill"], self.plan["remote_decode"]):
            if batch is not None and request_id in batch["request_ids"]:
                row = dict(batch["block_tables"])[group][batch["request_ids"].index(request_id)]
                return [page for page in row if page != -1]
        raise LookupError(f"no row for {request_id}")

    @property
    def stored(self) -> list[tuple[int, list[int], list[int], list[int], bool]]:
        """Write-back operations as (op id, group ids, sources, destinations, pinned)."""
        return _copies(self.store, "source_pinned")

    @property
    def loaded(self) -> list[tuple[int, list[int], list[int], list[int], Any]]:
        """Load-back operations as (op id, group ids, sources, destinations, prefetch flags)."""
        return _copies(self.load, "prefetch_from_storage")


def _copies(operation: dict[str, Any] | None, flag: str) -> list[Any]:
    names = ("op_ids", "group_ids", "src_pages", "dst_pages", flag)
    return [] if operation is None else list(zip(*(operation[name] for name in names), strict=True))


def _rows(batch: dict[str, Any] | None) -> str:
    if batch is None:
        return ""
    shown = []
    for index, name in enumerate(batch["request_ids"]):
        length, size = batch["input_lengths"][index], batch["prefill_lengths"][index]
        slot = batch["request_pool_indices"][index]
        if index < batch["num_extends"]:
            replayed = batch["extend_replay_lens"][index]
            suffix = f"rp{replayed}" if replayed else ""
            shown.append(f"{name}:P[{batch['extend_prefix_lens'][index]}+{length}/{size}]@{slot}{suffix}")
        else:
            shown.append(f"{name}:D[{length}/{size}]@{slot}")
    return " ".join(shown)


class Drive:
    """A scheduler under test, its requests, and what is in flight."""

    def __init__(
        self,
        module: ModuleType,
        groups: list[Group],
        *,
        page: int,
        pages: int,
        budget: int = 64,
        slots: int = 8,
        width: int = 1,
        **options: Any,
    ) -> None:
        self.module = module
        self.config: dict[str, Any] = {
            "prefix_granularity": page,
            "num_device_pages": pages,
            "max_scheduled_tokens": budget,
            "max_batch_size": slots,
            "decode_input_tokens": width,
            "cache_groups": groups,
            **options,
        }
        self.scheduler = module.Scheduler(build_config(module, self.config))
        self.in_flight: list[tuple[str, bool]] = []
        self.dead: set[str] = set()
        self._requests = 0
        self._token = 40

    def submit(self, request_id: str, prompt: int | list[int], new: int = 0) -> None:
        """Submit a prompt: a token list, or a length for tokens that no other request has."""
        self._requests += 1
        tokens = prompt if isinstance(prompt, list) else [1000 * self._requests + i for i in range(prompt)]
        self.scheduler.submit_requests([build_spec(self.module, request_id, tokens, new)])
        self.dead.discard(request_id)

    def plan(self) -> Shown:
        """The next plan; its rows are in flight afterwards."""
        shown = Shown(perform(self.module, self.scheduler, ("plan",)))
        batch = shown.plan["forward"][0]
        for index, name in enumerate(batch["request_ids"]):
            end = index < batch["num_extends"] and batch["extend_prefix_lens"][index] + batch["input_lengths"][index]
            chunk = end is not False and end < batch["prefill_lengths"][index]
            self.in_flight.append((name, chunk))
        return shown

    def land(self, *only: str) -> None:
        """Land every result in flight (of these requests): nothing for a chunk, one token otherwise."""
        for name, chunk in list(self.in_flight):
            if only and name not in only:
                continue
            self.in_flight.remove((name, chunk))
            if name not in self.dead:
                self._token += 1
                self.event("ExtendResult", name, [] if chunk else [self._token])

    def round(self) -> Shown:
        """A plan whose results land at once."""
        shown = self.plan()
        self.land()
        return shown

    def rounds(self, count: int) -> list[str]:
        """The rows of several rounds."""
        return [self.round().rows for _ in range(count)]

    def result(self, request_id: str, *tokens: int, candidates: tuple[int, ...] = ()) -> None:
        """Land the oldest result of one request with these tokens."""
        entry = next((entry for entry in self.in_flight if entry[0] == request_id), None)
        if entry:
            self.in_flight.remove(entry)
        self.event("ExtendResult", request_id, list(tokens), list(candidates))

    def event(self, *event: Any) -> None:
        """Advance by one event given as plain data."""
        perform(self.module, self.scheduler, ("advance", [event]))
        if event[0] in ("Finish", "Abort", "Retract", "FailedEvent", "SucceededEvent"):
            self.in_flight = [entry for entry in self.in_flight if entry[0] != event[1]]
            if event[0] != "Retract":
                self.dead.add(event[1])

    def finish(self, request_id: str) -> None:
        """Finish a request."""
        self.event("Finish", request_id)

    def abort(self, request_id: str) -> None:
        """Abort a request."""
        self.event("Abort", request_id)

    def stored(self, *op_ids: int) -> None:
        """Acknowledge write-backs."""
        for op_id in op_ids:
            self.event("WriteBackDoneEvent", op_id)

    def loaded(self, op_id: int, success: bool = True) -> None:
        """Acknowledge a load-back."""
        self.event("LoadBackDoneEvent", op_id, success)

    def serve(self, request_id: str, prompt: int | list[int], new: int = 0) -> None:
        """Run one request alone through its prefill and one decode, and finish it."""
        self.submit(request_id, prompt, new)
        while not self.round().rows.startswith(f"{request_id}:D"):
            pass
        self.finish(request_id)
        self.plan()

    @property
    def counts(self) -> tuple[int, int, int]:
        """(available, empty, active) parents."""
        own = self.scheduler
        return (own.available_lcm_blocks(), own.empty_lcm_blocks(), own.active_lcm_blocks())

    @property
    def waiting(self) -> int:
        """Requests waiting."""
        return int(self.scheduler.waiting_size())
