"""A minimal closed loop on the public scheduler API, and what it sees: pasted into scripts, run by `bisect` as it is.

Nothing here imports the project: `repro` puts the text of this module into a script that needs the real package alone
(debugger.md, section 5). `api` is the package or anything of its shape.
"""

from __future__ import annotations

from collections import deque
from typing import Any


def build_config(api: Any, settings: dict[str, Any]) -> tuple[Any, list[str]]:
    """Return a SchedulerConfig, and the settings that this version of the package does not know."""
    config, unknown = api.SchedulerConfig(), []
    for name, value in settings.items():
        if name == "cache_groups":
            value = [build_group(api, group, unknown) for group in value]
        elif name == "role":
            value = getattr(api.SchedulerConfig.Role, value)
        if hasattr(config, name):
            setattr(config, name, value)
        else:
            unknown.append(name)
    return config, unknown


def build_group(api: Any, settings: dict[str, Any], unknown: list[str]) -> Any:
    """Return a CacheGroupConfig."""
    group = api.CacheGroupConfig()
    enums = {"retention": "CacheRetention", "family": "CacheGroupFamily", "transfer_policy": "CacheTransferPolicy"}
    for name, value in settings.items():
        if not hasattr(group, name) or (name in enums and not hasattr(api, enums[name])):
            unknown.append(f"cache_groups.{name}")
        else:
            setattr(group, name, getattr(getattr(api, enums[name]), value) if name in enums else value)
    return group


def expand(parts: list[list[int]]) -> list[int]:
    """Return tokens: a part [t, n] is token t, n times. Requests share a prefix if and only if it is equal."""
    return [token for token, count in parts for _ in range(count)]


class Driver:
    """Submits requests in their rounds, plans, and lands results and acknowledgements one round later."""

    def __init__(self, api: Any, settings: dict[str, Any], requests: list[dict[str, Any]], lost: list[int]) -> None:
        """`lost`: copies that are never acknowledged."""
        self.api = api
        config, self.unknown = build_config(api, settings)
        self.scheduler = api.Scheduler(config)
        self.depth = settings.get("overlap_schedule_depth", 0)
        self.drains = settings.get("enable_kv_cache_events", False)
        self.waiting = sorted(requests, key=lambda request: request["round"])
        self.lost = set(lost)
        self.live: dict[str, dict[str, Any]] = {}
        self.said: dict[str, int] = {}
        self.flying: deque[list[tuple[str, dict[str, Any], bool]]] = deque()
        self.copies: list[tuple[bool, int]] = []
        self.computed: dict[str, int] = {}
        self.owner: dict[tuple[str, int], str] = {}
        self.round = 0

    def step(self) -> dict[str, Any]:
        """Run one round and return what happened in it."""
        self.round += 1
        arrived = [r for r in self.waiting if r["round"] <= self.round]
        if arrived:
            self.waiting = self.waiting[len(arrived) :]
            self.scheduler.submit_requests([self.spec(request) for request in arrived])
        if self.copies:
            self.advance([self.acknowledged(store, op) for store, op in self.copies if op not in self.lost])
        before = self.scheduler.waiting_size()
        plan = self.scheduler.next_execution_plan()
        self.copies = [(hasattr(op, "source_pinned"), number) for op in plan.cache for number in op.op_ids]
        rows, taken = self.rows(plan)
        seen = {
            "round": self.round, "rows": rows, "taken": taken, "arrived": [r["id"] for r in arrived], "ended": [],
            "waiting": self.scheduler.waiting_size(), "prefilling": self.scheduler.prefilling_size(),
            "decoding": self.scheduler.decoding_size(), "free": self.scheduler.available_lcm_blocks(),
        }  # fmt: skip
        seen["retracted"] = max(0, seen["waiting"] - before + sum(self.starts(row) for row in rows))
        if rows:
            flight = [(row[0], self.live[row[0]], row[1] == "decode" or row[2] + row[3] >= row[4]) for row in rows]
            self.flying.append(flight)
        while len(self.flying) > (self.depth if rows else 0):
            seen["ended"] += self.land(self.flying.popleft())
        for name in [n for n, r in self.live.items() if r.get("abort_round", 0) == self.round]:
            event = self.api.ForwardEvent.Abort()
            event.request_id = name
            del self.live[name]
            self.advance([event])
            seen["ended"].append(name)
        if self.drains:
            self.scheduler.drain_kv_events()
        return seen

    def spec(self, request: dict[str, Any]) -> Any:
        spec = self.api.RequestSpec()
        spec.request_id, spec.tokens = request["id"], expand(request["prompt"])
        spec.max_new_tokens = request["max_new_tokens"]
        self.live[request["id"]], self.said[request["id"]] = request, 0
        self.computed.pop(request["id"], None)
        return spec

    def advance(self, events: list[Any]) -> None:
        event = self.api.ExecutionEvent()
        for one in events:
            event.add_event(one)
        if events:
            self.scheduler.advance(event)

    def acknowledged(self, store: bool, op: int) -> Any:
        if not store:
            return self.api.Cache.LoadBackDoneEvent(op, True)
        event = self.api.Cache.WriteBackDoneEvent()
        event.op_id = op
        return event

    def rows(self, plan: Any) -> tuple[list[list[Any]], dict[tuple[str, str], int]]:
        """Return rows [id, kind, first token, tokens, prompt] and how many pages each took from whom."""
        batches = plan.forward
        rows: list[list[Any]] = []
        taken: dict[tuple[str, str], int] = {}
        if not batches:
            return rows, taken
        batch = batches[0]
        begins, tokens, prompts = batch.extend_prefix_lens, batch.input_lengths, batch.prefill_lengths
        tables = batch.block_tables_arrays()
        fresh = {(group, int(page)) for group, pages in plan.pages_to_zero_arrays().items() for page in pages}
        for i, name in enumerate(batch.request_ids):
            prefill = i < len(begins)
            rows.append([name, "prefill" if prefill else "decode", begins[i] if prefill else -1, tokens[i], prompts[i]])
            for group, table in tables.items():
                for page in table[i].tolist():
                    loser = self.owner.get((group, page))
                    if (group, page) in fresh and loser not in (None, name) and loser in self.live:
                        taken[name, loser] = taken.get((name, loser), 0) + 1
                    if page > 0:
                        self.owner[group, page] = name
        return rows, taken

    def starts(self, row: list[Any]) -> bool:
        """Tell whether a prefill row is the first one behind an admission: it does not go on where the last ended."""
        name, kind, begin, count, prompt = row
        if kind == "decode":
            return False
        first = self.computed.get(name) != begin
        self.computed[name] = begin + count if begin + count < prompt else -1
        return first

    def land(self, flight: list[tuple[str, dict[str, Any], bool]]) -> list[str]:
        events, ended = [], []
        for name, request, speaks in flight:
            if self.live.get(name) is not request:
                continue
            result = self.api.ForwardEvent.ExtendResult()
            result.request_id = name
            if speaks:
                result.tokens = [self.token(request)]
                self.said[name] += 1
            events.append(result)
            if self.said[name] >= sum(count for _, count in request["output"]):
                finish = self.api.ForwardEvent.Finish()
                finish.request_id = name
                events.append(finish)
                del self.live[name]
                ended.append(name)
        self.advance(events)
        return ended

    def token(self, request: dict[str, Any]) -> int:
        left = self.said[request["id"]]
        for token, count in request["output"]:
            if left < count:
                return int(token)
            left -= count
        return 0
