"""Random lifetimes of the twin: a seed makes a config and does everything that a runtime may do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tsviz.scheduler import events as ev
from tsviz.scheduler.config import (
    CacheGroupFamily,
    CacheRetention,
    CacheTransferPolicy,
    Config,
    GroupConfig,
    Role,
)
from tsviz.scheduler.plan import Batch, Plan, visible_pages
from tsviz.scheduler.scheduler import Scheduler, Submission
from tsviz.scheduler.states import DECODING, FINISHED, PREFILL_DONE, holds_pages


def random_config(rng: Random) -> Config:
    """A valid config: any role, any legal mix of groups, small pools."""
    while True:
        config = _draw(rng)
        try:
            scheduler = Scheduler(config)
        except ValueError:
            continue
        if scheduler.max_single_request_tokens() >= 6:
            return config


def _draw(rng: Random) -> Config:
    page = rng.choice((1, 2, 4, 4, 8))
    role = rng.choice((Role.Fused, Role.Fused, Role.Fused, Role.P, Role.D))
    replays = rng.random() < 0.2
    groups = tuple(_group(rng, index, page, role, replays) for index in range(rng.choice((1, 1, 2, 2, 3))))
    host = rng.choice((0, 0, 3, 6, 12, 30))
    return Config(
        prefix_granularity=page,
        max_scheduled_tokens=max(rng.choice((4, 6, 8, 12, 16, 32, 64)), page, 16 if replays else 0),
        max_batch_size=rng.choice((1, 2, 3, 4, 6, 8)),
        decode_input_tokens=rng.choice((1, 1, 1, 2, 3)),
        overlap_schedule_depth=rng.choice((0, 0, 1)),
        role=role,
        num_device_pages=rng.choice((6, 8, 10, 13, 17, 24, 33)),
        num_host_pages=host,
        cache_groups=groups,
        enable_l3_storage=host > 1 and rng.random() < 0.3,
        enable_kv_cache_events=rng.random() < 0.3,
        enable_mixed_prefill_decode=rng.random() < 0.5,
        disable_prefix_cache=rng.random() < 0.1,
        prefix_replay_tokens=rng.choice((0, 0, 0, 3)),
    )


def _group(rng: Random, index: int, page: int, role: Role, replays: bool) -> GroupConfig:
    kind = rng.choice(("full", "full", "sliding", "replayable" if replays else "state"))
    packing = rng.choice((1, 1, 1, 2, 4, 6))
    policy = CacheTransferPolicy.Unspecified
    if role is not Role.Fused:
        policy = CacheTransferPolicy.LatestSnapshot if kind == "state" else CacheTransferPolicy.FullSuffix
    slides = kind in ("sliding", "replayable")
    return GroupConfig(
        group_id=f"g{rng.choice('abcxyz')}{index}",
        block_granularity=rng.choice([g for g in (1, 2, 4, 8) if page % g == 0]),
        total_pages=99,
        retention=CacheRetention.SlidingWindow if slides else CacheRetention.FullHistory,
        sliding_window_tokens=rng.choice((1, 2, 3, 4, 5, 8)) if slides else None,
        family=CacheGroupFamily.State if kind == "state" else CacheGroupFamily.History,
        cache_blocks_per_lcm_block=packing,
        transfer_policy=policy,
        shard_count=rng.choice([s for s in (1, 1, 2, 3) if packing % s == 0]),
        replayable=kind == "replayable",
    )


def plain(plan: Plan) -> Any:
    """A plan as nested tuples of numbers and strings."""

    def batch(b: Batch | None) -> Any:
        if b is None:
            return None
        rows = [
            (*row[:4], *row[5:7], tuple(visible_pages(view) for view in row.views), row[8], row[9]) for row in b.rows
        ]
        inputs = [(row.input_ids(), row.shifted_input_ids()) for row in b.extends]
        return rows, inputs, b.num_extends

    return (
        batch(plan.batch),
        batch(plan.remote_decode),
        batch(plan.remote_prefill),
        plan.stores,
        plan.loads,
        plan.pages_to_zero(),
    )


class Life:
    """One lifetime. `step` runs a round; `scheduler` may be replaced by an equal one between two calls."""

    def __init__(self, seed: int, change: Callable[[Config], Config] = lambda config: config, **options: Any) -> None:
        """Draw the config of `seed`, and `change` it; `options` go to the scheduler."""
        self.rng = Random(seed)
        self.config = change(random_config(self.rng))
        self.scheduler = Scheduler(self.config, **options)
        self.between: Callable[[Life], None] = lambda _: None
        """Called between any two calls."""
        self.made = 0
        self.live: dict[str, int] = {}
        """Generated tokens of each live request."""
        self.prompts = [[self.rng.randrange(5) for _ in range(200)] for _ in range(2)]
        self.out: list[tuple[int, str, bool]] = []
        """Results to come: round, request, whether tokens come with it."""
        self.ops: list[tuple[int, ev.Event, list[str]]] = []
        self.delay = self.rng.choice((0, 0, 1, 2))
        self.ack_delay = self.rng.choice((0, 1, 4, 1000))
        self.stuck = False
        """A plan raised: the reference would raise on every later plan too."""

    def step(self, number: int) -> Plan | None:
        """Submissions, a plan, and what comes back; None when the plan raised."""
        self._submit()
        self.between(self)
        try:
            plan = self.scheduler.next_plan()
        except RuntimeError:
            self.stuck = True
            return None
        self._collect(number, plan)
        for event in self._events(number):
            self.between(self)
            self._advance(event)
        if self.rng.random() < 0.03:
            self.scheduler.clear(device_only=self.rng.random() < 0.5)
        if self.rng.random() < 0.5:
            self.scheduler.drain_kv_events()
        return plan

    def _submit(self) -> None:
        rng, page = self.rng, self.config.prefix_granularity
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            if len(self.live) > 8:
                return
            size = min(rng.choice((1, 3, page, 2 * page + 1, 3 * page, rng.randint(1, 40))), 190)
            same = rng.randint(0, size)
            tokens = rng.choice(self.prompts)[:same] + [rng.randrange(1000) for _ in range(size - same)]
            self.made += 1
            name = f"{rng.choice('rqz')}{self.made}"
            budget = rng.choice((0, 0, 2, 8, 4000, 9000))
            try:
                self.scheduler.submit([Submission(name, tokens, budget)])
            except ValueError:
                continue
            self.live[name] = 0
            if self.config.role is not Role.Fused:
                self.ops.append((self.scheduler.rounds - rng.randint(0, 1), ev.Bootstrapped(name), []))
        if self.config.enable_l3_storage and rng.random() < 0.3:
            self._storage()

    def _storage(self) -> None:
        chain: list[bytes] = []
        request = next(self.scheduler.roster.live(), None)
        if request is not None:
            chain = request.digests(request.candidate_pages)[: self.rng.randint(0, 8)]
        groups = self.scheduler.cache.groups
        keys = [(g.index, digest, offset) for g in groups for digest in chain for offset in range(g.per_page)]
        if self.rng.random() < 0.8:
            self.scheduler.register_storage_keys(keys)
        else:
            self.scheduler.unregister_storage_keys(keys)

    def _collect(self, number: int, plan: Plan) -> None:
        for row in plan.batch.extends:
            self.out.append((number, row.request_id, row.prefix_tokens + row.input_length == row.prefill_length))
        self.out += [(number, row.request_id, True) for row in plan.batch.decodes]
        for op in plan.stores:
            self.ops.append((number, ev.WriteBackDone(op.op_id), []))
        for load in plan.loads:
            failed = any(pair.prefetch for pair in load.pairs) and self.rng.random() < 0.3
            retracted = [row.request_id for row in plan.batch.extends] if failed else []
            self.ops.append((number, ev.LoadBackDone(load.op_id, not failed), retracted))
        if plan.remote_prefill is not None and self.rng.random() < 0.8:
            name = plan.remote_prefill.rows[0].request_id
            self.ops.append((number, ev.RemotePrefillDone(name, self.rng.randrange(100)), []))
        if plan.remote_decode is not None:
            for row in plan.remote_decode.rows:
                self.ops.append((number, ev.Succeeded(row.request_id), []))

    def _events(self, number: int) -> list[ev.Event]:
        rng = self.rng
        events: list[ev.Event] = []
        due = [item for item in self.out if item[0] <= number - self.delay]
        self.out = [item for item in self.out if item[0] > number - self.delay]
        for _, name, with_tokens in due:
            width = rng.randint(1, self.config.decode_input_tokens) if with_tokens else 0
            events.append(ev.ExtendResult(name, tuple(rng.randrange(1000) for _ in range(width))))
            if width and self.config.decode_input_tokens > 1:
                events.append(ev.UpdateReserve(name, width))
            self.live[name] = self.live.get(name, 0) + width
        for item in list(self.ops):
            wait = self.ack_delay if isinstance(item[1], ev.WriteBackDone) else min(self.ack_delay, 2)
            if item[0] <= number - wait:
                self.ops.remove(item)
                events += [ev.Retract(name) for name in item[2]]
                events.append(item[1])
        for name in list(self.live):
            chance = rng.random()
            if self.live[name] > 3 and chance < 0.15:
                events.append(ev.Finish(name))
            elif chance < 0.02:
                events.append(ev.Abort(name))
            elif chance < 0.03:
                events.append(ev.Retract(name))
        return events

    def _advance(self, event: ev.Event) -> None:
        """Apply an event when a careful runtime would send it."""
        name = getattr(event, "request_id", None)
        request = self.scheduler.roster.by_id.get(name) if name is not None else None
        if name is not None:
            if request is None or request.state == FINISHED:
                self.live.pop(name, None)
                return
            if isinstance(event, ev.ExtendResult) and not (holds_pages(request.state) and request.in_flight):
                return
            if isinstance(event, ev.UpdateReserve) and request.state != DECODING:
                return
            if isinstance(event, ev.Retract) and not holds_pages(request.state):
                return
            if isinstance(event, (ev.Finish, ev.Succeeded)) and request.state not in (PREFILL_DONE, DECODING):
                return
        try:
            self.scheduler.advance([event])
        except RuntimeError:
            return
        if isinstance(event, (ev.Finish, ev.Abort, ev.Succeeded)) and name is not None:
            self.live.pop(name, None)
