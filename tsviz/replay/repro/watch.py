"""A scheduler of the public API and what its plans show: pasted into scripts, run by `bisect` as it is.

Nothing here imports the project: `repro` puts the text of these functions and classes into a script that needs the real
package alone (debugger.md, section 5). `api` is the package or anything of its shape.
"""

from __future__ import annotations

from typing import Any


def build_config(api: Any, settings: dict[str, Any]) -> tuple[Any, list[str]]:
    """Return a SchedulerConfig, and the settings that this version of the package does not know."""
    config = api.SchedulerConfig()
    unknown: list[str] = []
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


class Watch:
    """A scheduler, what it holds as far as its plans say, and what happened in each round."""

    def __init__(self, api: Any, settings: dict[str, Any]) -> None:
        self.api = api
        config, self.unknown = build_config(api, settings)
        self.scheduler = api.Scheduler(config)
        self.computed: dict[str, int] = {}
        self.owner: dict[tuple[str, int], str] = {}
        self.plan: Any = None
        self.round = 0

    def decide(self, arrived: list[str]) -> dict[str, Any]:
        """Ask for a plan and return what it says: rows, page takings, counters."""
        self.round += 1
        before = self.scheduler.waiting_size()
        self.plan = self.scheduler.next_execution_plan()
        rows, taken = self.rows(self.plan)
        seen: dict[str, Any] = {"round": self.round, "rows": rows, "taken": taken, "arrived": arrived, "ended": []}
        for name in ("waiting_size", "prefilling_size", "decoding_size", "available_lcm_blocks"):
            count = getattr(self.scheduler, name, None)
            seen[name] = -1 if count is None else count()
        seen["retracted"] = max(0, seen["waiting_size"] - before + sum(self.starts(row) for row in rows))
        return seen

    def submit(self, requests: list[dict[str, Any]]) -> None:
        """Submit requests in one call."""
        specs = []
        for request in requests:
            spec = self.api.RequestSpec()
            spec.request_id, spec.tokens = request["id"], expand(request["prompt"])
            spec.max_new_tokens = request["max_new_tokens"]
            self.computed.pop(request["id"], None)
            specs.append(spec)
        self.scheduler.submit_requests(specs)

    def advance(self, events: list[Any]) -> None:
        """Apply events in one call."""
        event = self.api.ExecutionEvent()
        for one in events:
            event.add_event(one)
        if events:
            self.scheduler.advance(event)

    def forward_event(self, kind: str, name: str) -> Any:
        """Return a forward event about one request."""
        event = getattr(self.api.ForwardEvent, kind)()
        event.request_id = name
        return event

    def acknowledged(self, copy: str, op: int, success: bool = True) -> Any:
        """Return the acknowledgement of a copy: WriteBack, LoadBack, or what later versions call theirs."""
        event = getattr(self.api.Cache, f"{copy}DoneEvent")
        try:
            return event(op, success)
        except TypeError:
            made = event()
            made.op_id = op
            return made

    def copies(self) -> list[tuple[str, int]]:
        """Return the copies of the last plan, by kind and operation."""
        return [(type(op).__name__.removesuffix("Op"), number) for op in self.plan.cache for number in op.op_ids]

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
                    if (group, page) in fresh and loser is not None and loser != name:
                        taken[name, loser] = taken.get((name, loser), 0) + 1
                    if page > 0:
                        self.owner[group, page] = name
        return rows, taken

    def starts(self, row: list[Any]) -> bool:
        """Tell whether a prefill row is the first one behind an admission: it does not go on where the last ended."""
        name, kind, begin, count, prompt = row
        if kind == "decode":
            return False
        first = bool(self.computed.get(name) != begin)
        self.computed[name] = begin + count if begin + count < prompt else -1
        return first

    def gone(self, name: str) -> None:
        """Forget which pages a request held that ended."""
        self.owner = {page: owner for page, owner in self.owner.items() if owner != name}
