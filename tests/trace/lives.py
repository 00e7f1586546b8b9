"""Random small lifetimes, driven straight on a scheduler namespace: legal calls, illegal ones and everything between.

The one thing that is never done is what aborts the process: a result for a request without one in flight.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tsviz.adapters.tokenspeed import RULE_SET, engine_of, recording_module
from tsviz.trace.api_events import event_reader
from tsviz.trace.catalogue import DECISIONS, PLANS
from tsviz.trace.config import describe_config
from tsviz.trace.ring import RingOptions
from tsviz.trace.writer import BundleWriter

ROLES = ("Fused", "P", "D")
PAGE = 4


def group(module: Any, kind: str, page: int) -> Any:
    """Return a cache group of one of the kinds of scheduler-rules.md, section 0.1; PD policies included."""
    retention, family = module.CacheRetention, module.CacheGroupFamily
    made = module.CacheGroupConfig(kind, page, 64)
    made.transfer_policy = module.CacheTransferPolicy.FullSuffix
    if kind in ("sliding", "replay"):
        made.retention, made.sliding_window_tokens = retention.SlidingWindow, 2 * PAGE
        made.replayable = kind == "replay"
    elif kind == "state":
        made.family, made.transfer_policy = family.State, module.CacheTransferPolicy.LatestSnapshot
    elif kind == "packed":
        made.cache_blocks_per_lcm_block = 2
    return made


GROUPS = (
    ("full",),
    ("full", "sliding"),
    ("full", "state"),
    ("full", "replay"),
    ("packed", "sliding"),
    ("full", "half"),
)


def random_config(module: Any, rng: random.Random, role: str) -> Any:
    """Return a small config under which requests collide, wait and are retracted."""
    config = module.SchedulerConfig()
    kinds = rng.choice(GROUPS)
    config.prefix_granularity = PAGE
    config.max_scheduled_tokens = rng.choice((16, 20, 32) if "replay" in kinds else (6, 8, 16))
    config.max_batch_size = rng.randint(2, 6)
    config.decode_input_tokens = rng.choice((1, 1, 2, 3))
    config.overlap_schedule_depth = rng.randint(0, 1)
    config.num_device_pages = rng.randint(9, 24)
    config.num_host_pages = rng.choice((0, 0, 12, 40))
    config.enable_mixed_prefill_decode = rng.random() < 0.5
    config.disable_prefix_cache = rng.random() < 0.1
    config.prefix_replay_tokens = rng.choice((0, 0, 3))
    config.enable_l3_storage = config.num_host_pages > 1 and rng.random() < 0.5
    config.enable_kv_cache_events = config.num_host_pages == 0 and rng.random() < 0.5
    config.role = getattr(module.SchedulerConfig.Role, role)
    config.cache_groups = [group(module, kind, PAGE // 2 if kind == "half" else PAGE) for kind in kinds]
    return config


@dataclass
class Told:
    """What one plan said while it was recorded."""

    round: int
    tables: dict[tuple[str, int], dict[str, list[int]]] = field(default_factory=dict)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    zeroed: list[tuple[str, int]] = field(default_factory=list)
    transfers: list[tuple[Any, ...]] = field(default_factory=list)


@dataclass
class Life:
    """One driven lifetime; `told` is what its plans said, `raised` how many calls raised, by kind."""

    module: Any
    scheduler: Any
    config: Any
    rng: random.Random
    token: Callable[[int], int]
    role: str
    rounds: int = 0
    told: list[Told] = field(default_factory=list)
    raised: dict[str, int] = field(default_factory=dict)
    live: dict[str, list[int]] = field(default_factory=dict)
    ended: list[list[int]] = field(default_factory=list)
    flight: dict[str, int] = field(default_factory=dict)
    ops: list[tuple[int, bool]] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    names: Any = field(default_factory=itertools.count)
    keys: list[tuple[list[int], list[str], list[int]]] = field(default_factory=list)

    def run(self, steps: int) -> None:
        """Drive `steps` random steps."""
        actions = (
            (self.submit, 5), (self.plan, 12), (self.results, 14), (self.end, 4), (self.acknowledge, 5),
            (self.retract, 1), (self.illegal, 2), (self.storage, 2), (self.clear, 1), (self.handover, 6),
            (self.foreign, 0.3),
        )  # fmt: skip
        chosen = self.rng.choices([a for a, _ in actions], [w for _, w in actions], k=steps)
        for action in chosen:
            action()

    def attempt(self, kind: str, call: Callable[[], Any]) -> Any:
        """Make a call that may raise."""
        try:
            return call()
        except Exception as error:
            self.raised[kind] = self.raised.get(kind, 0) + 1
            return error

    def advance(self, *events: Any) -> Any:
        """Advance by events in order."""
        made = self.module.ExecutionEvent()
        for event in events:
            made.add_event(event)
        return self.attempt("advance", lambda: self.scheduler.advance(made))

    def prompt(self) -> list[int]:
        """Return a prompt that often shares a prefix with earlier prompts, or repeats an answer and goes on."""
        rng = self.rng
        past = [*self.ended, *self.live.values()]
        if past and rng.random() < 0.5:
            base = rng.choice(past)
            return base[: rng.randint(1, len(base))] + [self.token(rng.randint(0, 2)) for _ in range(rng.randint(0, 6))]
        shared = [self.token(3 + i) for i in range(rng.choice((0, PAGE, 2 * PAGE)))]
        return shared + [self.token(rng.randint(0, 2)) for _ in range(rng.randint(1, 14))]

    def spec(self, name: str, tokens: list[int], budget: int) -> Any:
        """Return a request."""
        made = self.module.RequestSpec()
        made.request_id, made.tokens, made.max_new_tokens = name, tokens, budget
        return made

    def submit(self) -> None:
        """Submit some requests; now and then a batch that is refused."""
        rng = self.rng
        specs = []
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            reuse = rng.random() < 0.3
            name = f"r{rng.randint(0, 9)}" if reuse else f"q{next(self.names)}"
            specs.append(self.spec(name, self.prompt(), rng.choice((0, 0, 3, 9))))
        if rng.random() < 0.1:
            specs.append(self.spec("bad", [] if rng.random() < 0.5 else [self.token(0)] * 5000, 0))
        outcome = self.attempt("submit", lambda: self.scheduler.submit_requests(specs))
        if outcome is None:
            for spec in specs:
                self.live[spec.request_id] = list(spec.tokens)
                self.flight[spec.request_id] = 0

    def plan(self) -> None:
        """Ask for a plan and note what it says."""
        self.rounds += 1
        plan = self.attempt("plan", self.scheduler.next_execution_plan)
        told = Told(self.rounds)
        if isinstance(plan, Exception):
            return
        self.told.append(told)
        batches = [(plan.forward[0], "decode", "prefill")]
        remote = ((plan.remote_prefill, "remote_prefill"), (plan.remote_decode, "remote_decode"))
        batches += [(batch, kind, kind) for batch, kind in remote if batch is not None]
        for batch, decode_kind, prefill_kind in batches:
            ids, slots, prefills = batch.request_ids, batch.request_pool_indices, batch.num_extends()
            for row, name in enumerate(ids):
                kind = prefill_kind if row < prefills else decode_kind
                begin = batch.extend_prefix_lens[row] if row < prefills else None
                replay = batch.extend_replay_lens[row] if row < prefills else 0
                told.rows.append(
                    (kind, name, slots[row], begin, batch.input_lengths[row], replay, batch.prefill_lengths[row])
                )
                told.tables[name, slots[row]] = {
                    group: [page for page in rows[row] if page != -1] for group, rows in batch.block_tables.items()
                }
                if kind in ("prefill", "decode"):
                    self.flight[name] = self.flight.get(name, 0) + 1
        told.zeroed = [(group, page) for group, pages in plan.pages_to_zero.items() for page in pages]
        for operation in plan.cache:
            load = hasattr(operation, "prefetch_from_storage")
            for i, op_id in enumerate(operation.op_ids):
                self.ops.append((op_id, load))
                told.transfers += [
                    (op_id, load, g, s, d)
                    for g, s, d in zip(
                        operation.group_ids[i], operation.src_pages[i], operation.dst_pages[i], strict=True
                    )
                ]

    def result(self, name: str, tokens: list[int]) -> Any:
        """Return a result event and note that it is no longer in flight."""
        made = self.module.ForwardEvent.ExtendResult()
        made.request_id, made.tokens = name, tokens
        if self.config.decode_input_tokens > 1 and tokens:
            made.spec_candidate_ids = [self.token(self.rng.randint(0, 2)) for _ in range(self.rng.randint(0, 3))]
        self.flight[name] -= 1
        return made

    def results(self) -> None:
        """Land results of rows that are out, as one call."""
        rng = self.rng
        waiting = [name for name, count in self.flight.items() if count > 0]
        rng.shuffle(waiting)
        if rng.random() < 0.8:
            waiting.sort()
        events = []
        for name in waiting[: rng.randint(1, 6)]:
            width = self.config.decode_input_tokens  # more tokens than were charged make later plans raise
            count = rng.choice((0, *(1,) * 12, *(width,) * 6, width + 2))
            tokens = [self.token(rng.randint(0, 2)) for _ in range(count)]
            events.append(self.result(name, tokens))
            if rng.random() < 0.4:
                reserve = self.module.ForwardEvent.UpdateReserveNumTokens()
                reserve.request_id = name
                reserve.reserve_num_tokens_in_next_schedule_event = len(tokens)
                events.append(reserve)
        self.landed(events, self.advance(*events))

    def landed(self, events: list[Any], outcome: Any) -> None:
        """Ask the scheduler what requests hold now, so that later prompts can repeat answers."""
        for event in events:
            if isinstance(event, self.module.ForwardEvent.ExtendResult) and event.request_id in self.live:
                tokens = self.live[event.request_id]
                if outcome is None or len(tokens) < self.scheduler.request_token_size(event.request_id):
                    tokens += event.tokens

    def named(self, kind: Any, name: str) -> Any:
        """Return an event that has nothing but a request id."""
        if kind.__module__ and kind in (
            self.module.PD.BootstrappedEvent, self.module.PD.FailedEvent, self.module.PD.SucceededEvent
        ):  # fmt: skip
            return kind(name)
        made = kind()
        made.request_id = name
        return made

    def end(self) -> None:
        """End a request in one of the ways there are, sometimes together with its last result."""
        if not self.live:
            return
        rng, forward, pd = self.rng, self.module.ForwardEvent, self.module.PD
        name = rng.choice(sorted(self.live))
        kinds = (
            [forward.Finish] * 4
            + [forward.Abort]
            + ([pd.SucceededEvent, pd.FailedEvent] if self.role != "Fused" else [])
        )
        events = []
        if self.flight.get(name, 0) > 0 and rng.random() < 0.6:
            events.append(self.result(name, [self.token(rng.randint(0, 2))]))
        ended = self.named(rng.choice(kinds), name)
        outcome = self.advance(*events, ended)
        self.landed(events, outcome)
        if outcome is None:
            self.ended.append(self.live.pop(name))
            self.flight.pop(name, None)

    def retract(self) -> None:
        """Retract a request by hand; results that are out for it are lost."""
        if self.live:
            name = self.rng.choice(sorted(self.live))
            if self.advance(self.named(self.module.ForwardEvent.Retract, name)) is None:
                self.flight[name] = 0

    def acknowledge(self) -> None:
        """Acknowledge stores and loads; now and then again, or an operation that never was."""
        rng, cache = self.rng, self.module.Cache
        count = rng.randint(0, len(self.ops))
        chosen, self.ops = self.ops[:count], self.ops[count:]
        if rng.random() < 0.1:
            chosen = [*chosen, (rng.choice((*self.acknowledged, 999_999)), rng.random() < 0.5)]
        events = []
        for op_id, load in chosen:
            if load:
                events.append(cache.LoadBackDoneEvent(op_id, rng.random() < 0.9))
            else:
                events.append(done := cache.WriteBackDoneEvent())
                done.op_id = op_id
            self.acknowledged.append(op_id)
        self.advance(*events)

    def handover(self) -> None:
        """Bootstraps and bootstrap tokens of P and D; a token may come twice, late, or negative."""
        rng, pd = self.rng, self.module.PD
        if self.role == "Fused" or not self.live:
            return
        events: list[Any] = [pd.BootstrappedEvent(name) for name in sorted(self.live) if rng.random() < 0.7]
        before = {}
        if self.role == "D":
            for name in sorted(self.live):
                if rng.random() < 0.4:
                    value = self.token(rng.randint(0, 2)) if rng.random() < 0.9 else -7
                    events.append(pd.RemotePrefillDoneEvent(name, value))
                    before[name] = value
        sizes = {name: self.scheduler.request_token_size(name) for name in before}
        self.advance(*events)
        for name, value in before.items():
            if self.scheduler.request_token_size(name) > sizes[name]:
                self.live[name].append(value)

    def illegal(self) -> None:
        """Several events of which one raises half-way: those before it stay applied."""
        rng, forward = self.rng, self.module.ForwardEvent
        names = [*sorted(self.live), "nobody"]
        events: list[Any] = []
        for _ in range(rng.randint(1, 4)):
            name = rng.choice(names)
            kind = rng.choice((forward.Finish, forward.UpdateReserveNumTokens, forward.ExtendResult))
            if kind is forward.ExtendResult:
                if self.flight.get(name, 0) > 0:
                    events.append(self.result(name, [self.token(1), self.token(2)]))
            elif kind is forward.Finish and rng.random() < 0.5:
                continue
            else:
                events.append(self.named(kind, name))
        outcome = self.advance(*events)
        self.landed(events, outcome)
        if isinstance(outcome, Exception):
            # Who finished before it raised is not asked; all that were named are aborted, or left in doubt.
            ended = sorted({v.request_id for v in events} & set(self.live))
            ended = ended if rng.random() < 0.3 else []
            self.advance(*(self.named(forward.Abort, name) for name in ended))
        else:
            ended = sorted({v.request_id for v in events if isinstance(v, forward.Finish)} & set(self.live))
        for name in ended:
            self.ended.append(self.live.pop(name))
            self.flight.pop(name, None)

    def storage(self) -> None:
        """Register and unregister storage keys: of prompts that are there, that come later, and of nobody."""
        rng, scheduler = self.rng, self.scheduler
        if self.keys and rng.random() < 0.3:
            keys = rng.choice(self.keys)
            self.attempt("storage", lambda: scheduler.unregister_storage_keys(*keys))
            return
        tokens = [*self.prompt(), self.token(0)]
        if rng.random() < 0.5:
            self.ended.append(tokens)
        hashes = scheduler.prefix_hashes_for_tokens(tokens)
        groups, hashes, offsets = (list(column) for column in scheduler.expand_prefix_keys(hashes))
        if rng.random() < 0.2:
            groups, hashes, offsets = [*groups, 0], [*hashes, rng.choice(("", "zz", "AB" * 32))], [*offsets, 0]
        if rng.random() < 0.1:
            groups = [*groups, 0]
        if rng.random() < 0.1:
            groups = [*groups[:-1], 99][: len(groups)]
        self.keys.append((groups, hashes, offsets))
        self.attempt("storage", lambda: scheduler.register_storage_keys(groups, hashes, offsets))

    def clear(self) -> None:
        """Clear a tier, or drain KV events."""
        call = self.rng.choice(
            (self.scheduler.clear_cache, self.scheduler.clear_l1_cache, *[self.scheduler.drain_kv_events] * 4)
        )
        self.attempt("clear", call)

    def foreign(self) -> None:
        """Calls with arguments of the wrong kind: the scheduler never sees them."""
        for call in (
            lambda: self.scheduler.submit_requests([1]),
            lambda: self.scheduler.advance(object()),
            lambda: self.scheduler.register_storage_keys([-1], ["a"], [0]),
        ):
            assert isinstance(self.attempt("foreign", call), TypeError)


def record(
    module: Any,
    path: Path,
    seed: int,
    *,
    role: str = "Fused",
    tokens: str = "full",
    steps: int = 250,
    compacted: bool = True,
    token: Callable[[int], int] = lambda index: index,
    tune: Callable[[Any], None] = lambda _: None,
    ring: RingOptions | None = None,
    level: str = PLANS,
    **options: Any,
) -> Life:
    """Record the lifetime of a seed into a bundle at `path` and return it. `tune` may change its config.

    `options`: what else its recorder is told.
    """
    rng = random.Random(seed)
    clock = itertools.count(1_000, 7)
    writer = BundleWriter(path, meta={"seed": seed}, tokens=tokens, ring=ring)

    def open_recorder(config: Any) -> Any:
        return writer.recorder(
            node="N", rank=0, config=describe_config(config), engine=engine_of(module),
            event_reader=event_reader(module), now_ns=lambda: next(clock), clock="virtual", rule_set=RULE_SET,
            level=level, **options,
        )  # fmt: skip

    recorded = recording_module(module, open_recorder, observed=level == DECISIONS)
    config = random_config(module, rng, role)
    tune(config)
    scheduler = recorded.Scheduler(config)
    life = Life(recorded, scheduler, config, rng, token, role)
    try:
        life.run(steps)
    finally:
        writer.close({"error": None}, compacted=compacted)
    return life
