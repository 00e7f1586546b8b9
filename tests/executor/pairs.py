"""A prefill and a decode node in this process, with a real byte transfer between them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import tsviz.scheduler.compat as twin
from tests.executor.rig import Meddle, draft_of, meddle_with, request
from tsviz.adapters.tokenspeed import engine_of, recording_module
from tsviz.engine.arrivals import Arrivals
from tsviz.engine.configs import Role
from tsviz.engine.drive import drive
from tsviz.engine.faults import ClientAbort
from tsviz.engine.port import SchedulerPort
from tsviz.engine.summary import RunSummary
from tsviz.engine.workloads.model import Workload, WorkRequest
from tsviz.executor.clock import MonotonicClock
from tsviz.executor.engine import Engine, EngineOptions, fit_vocabulary
from tsviz.executor.equality import Equality, compare
from tsviz.executor.greeting import common_gate
from tsviz.executor.landing import Landing
from tsviz.executor.messages import Page
from tsviz.executor.model import Model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.patience import PeerTimeouts
from tsviz.executor.peer import PeerSide
from tsviz.executor.rooms import Room
from tsviz.executor.shape import PRESETS, ModelShape
from tsviz.executor.sizing import PoolOptions, SizedPool, size_pool, with_role
from tsviz.executor.store import PageStore, StoreFaults
from tsviz.executor.streams import InlineStreams, Streams
from tsviz.executor.telling import TraceSink
from tsviz.executor.weights import seeded_weights
from tsviz.executor.wire import Frame, wire_pair
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.writer import BundleWriter

REQUESTS = tuple(request(f"r{i}", (100 + i % 2, 20), (200 + i, 3 + 4 * i), says=8, at_ms=3 * i) for i in range(5))


@dataclass(frozen=True)
class Pair:
    """Everything that a pair's run depends on; `on_d` and `on_p` are the nodes' device options.

    `hears` makes of a frame that a node's peer sent those that the node hears; `delayed` are a node's own requests,
    the same ones at another time. The nodes of `stores` have a host tier, and pages in that folder: the same one, or
    one each.
    """

    model: str = "tiny"
    requests: tuple[WorkRequest, ...] = REQUESTS
    pool: PoolOptions = field(default_factory=PoolOptions)
    parents: int = 60
    host_parents: int = 0
    stores: dict[Role, Path] = field(default_factory=dict)
    store_faults: StoreFaults | None = None
    layerwise: bool = False
    draft_layers: int = 0
    aborts: tuple[ClientAbort, ...] = ()
    on_d: DeviceOptions = field(default_factory=DeviceOptions)
    on_p: DeviceOptions = field(default_factory=DeviceOptions)
    streams: Callable[[Callable[[], int]], Streams] = InlineStreams
    meddle: dict[Role, Meddle] | None = None
    hears: dict[Role, Callable[[Frame], list[Frame]]] | None = None
    timeouts: PeerTimeouts | None = None
    delayed: dict[Role, tuple[WorkRequest, ...]] = field(default_factory=dict)
    on: str = "cpu"
    scheduler: Any = twin


@dataclass(frozen=True)
class Paired:
    """What became of it; the decode node comes first."""

    model: Model
    requests: tuple[WorkRequest, ...]
    d: Engine
    p: Engine
    on_d: RunSummary
    on_p: RunSummary

    @property
    def equality(self) -> Equality:
        """The decode node's tokens against the dense reference."""
        return compare(self.model, self.requests, self.d.device.said)

    @property
    def counts(self) -> Counter[str]:
        """Which ways both nodes went."""
        return self.d.device.counts + self.p.device.counts

    @property
    def failures(self) -> dict[str, int]:
        """How many requests failed on the decode node, by reason."""
        return dict(self.d.loop._remote.failures.counts)  # type: ignore[union-attr]

    @property
    def is_freed(self) -> bool:
        """Whether nothing is left on either node, and no guard page was written."""
        return all(e.port.sizes()[:4] == (0, 0, 0, 0) and e.arena.null_parent_is_zero() for e in (self.d, self.p))

    @property
    def races(self) -> set[str]:
        """The edges that are missing on either node."""
        return {race.edge for engine in (self.d, self.p) for race in engine.device.checker.races}


def drawn_pair(seed: int, scheduler: Any = twin) -> Pair:
    """Draw a pair's run: two prompts, then eight that begin with 16 tokens of one of them and come when it ended."""
    draw = random.Random(seed)
    model = draw.choice(("tiny", "tiny-sliding", "tiny-state", "tiny-replay", "tiny-narrow"))
    least = max(
        3, PRESETS[model].declared_replay - 1
    )  # at least the replay window less one: see A3 in docs/failures.md
    tail = draw.choice((0, 24))  # with one, what a sliding group keeps is not what the prompts share
    first = [[(100 + i, 16), (300 + i, tail)] if tail else [(100 + i, 16)] for i in range(2)]
    requests = [request(f"r{i}", *first[i], says=draw.randint(2, 8), at_ms=i) for i in range(2)]
    for i in range(8):
        follower = request(f"f{i}", (100 + i % 2, 16), (200 + i, draw.randint(least, 20)), says=draw.randint(1, 10))
        requests.append(replace(follower, arrival_ns=None, after=f"r{i % 2}", think_ns=draw.choice((0, 1_000_000))))
    width, depth, chunk = draw.choice((1, 2, 3)), draw.randint(0, 1), draw.choice((16, 24))
    pool = PoolOptions(decode_input_tokens=width, overlap_schedule_depth=depth, max_scheduled_tokens=chunk)
    layers = draw.choice((0, 1)) if width > 1 else 0
    layerwise = draw.random() < 0.5
    return Pair(model, tuple(requests), pool, layerwise=layerwise, draft_layers=layers, scheduler=scheduler)


def run_pair(pair: Pair, out: Path | None = None) -> Paired:
    """Run both nodes in this process; `out` is a folder for a trace of each, `P` and `D`."""
    shape, clock = PRESETS[pair.model], MonotonicClock()
    model = Model(shape, seeded_weights(shape, 3))
    placed = model if pair.on == "cpu" else replace(model, weights=model.weights.to(pair.on))
    draft = draft_of(placed, pair.draft_layers)
    requests, on_d, on_p = (
        fit_vocabulary(Workload(given, {}), shape.vocabulary).requests
        for given in (pair.requests, *(pair.delayed.get(role, pair.requests) for role in (Role.D, Role.P)))
    )
    pools = {role: _sized(pair, role, None if draft is None else draft.shape) for role in (Role.D, Role.P)}
    arrivals = {Role.D: Arrivals(on_d), Role.P: Arrivals(on_p, follows_only=True)}
    most = {role: _most_tokens(pair.scheduler, sized) for role, sized in pools.items()}
    engines: list[Engine] = []
    writers: list[BundleWriter] = []
    wires = wire_pair()
    for role, wire in zip((Role.D, Role.P), wires, strict=True):
        device = replace(pair.on_d if role is Role.D else pair.on_p, keep_logits=True)
        module, watcher = pair.scheduler, None
        if out is not None:
            writer, watcher = BundleWriter(out / role.value, meta={"command": ["tsviz"]}), TraceSink()
            module = _recorded(pair.scheduler, writer, watcher, role, clock)
            writers.append(writer)
        sized = pools[role]
        engine = Engine(
            module, placed, sized, arrivals[role], clock,
            EngineOptions(device=device, max_rounds=4000),
            remote=lambda e, role=role, wire=wire: PeerSide(
                role, wire, e.device, e.arena, shape, clock, arrivals[role], pair.timeouts, layerwise=pair.layerwise
            ),
            aborts=pair.aborts if role is Role.D else (), streams=pair.streams(clock.now_ns), draft=draft,
            store=(
                PageStore(pair.stores[role], f"{pair.model}:3", sized.layout.signature, pair.store_faults)
                if role in pair.stores
                else None
            ),
            watcher=watcher,
            gate=common_gate(
                role, most[role], most[Role.P if role is Role.D else Role.D], pair.pool.decode_input_tokens
            ),
        )  # fmt: skip
        if pair.meddle is not None and role in pair.meddle:
            meddle_with(engine, pair.meddle[role])
        if pair.hears is not None and role in pair.hears:
            _let_hear(engine, pair.hears[role])
        engines.append(engine)
    try:
        ending = drive([engine.loop for engine in engines], clock)
        for engine in engines:
            engine.device.shutdown()
    finally:
        for wire in wires:
            wire.close()
        for writer in writers:
            writer.close({"parts": {}, "error": None})
    return Paired(model, requests, *engines, *(engine.loop.summary(*ending) for engine in engines))


def _sized(pair: Pair, role: Role, draft: ModelShape | None) -> SizedPool:
    has_tiers = role in pair.stores or not pair.pool.storage
    pool = pair.pool if has_tiers else replace(pair.pool, storage=False)
    sized = size_pool(
        PRESETS[pair.model], pool, parents=pair.parents, host_parents=pair.host_parents if has_tiers else 0,
        element_bytes=4, draft=draft,
    )  # fmt: skip
    return with_role(sized, role)


def _most_tokens(scheduler: Any, sized: SizedPool) -> int:
    return SchedulerPort(scheduler, sized.scheduler.build(scheduler)).max_single_request_tokens()


def _let_hear(engine: Engine, hears: Callable[[Frame], list[Frame]]) -> None:
    side: Any = engine.loop._remote
    take = side._take
    side._take = lambda frame: [take(heard) for heard in hears(frame)]


def a_page_of_a_comes_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fourth block of request "a" come with other bytes than were sent."""
    land = Landing.land

    def broken(self: Landing, room: Room, page: Page) -> None:
        land(self, room, replace(page, crc=page.crc ^ 1) if (room.request_id, page.index) == ("a", 3) else page)

    monkeypatch.setattr(Landing, "land", broken)


def _recorded(scheduler: Any, writer: BundleWriter, sink: TraceSink, role: Role, clock: MonotonicClock) -> Any:
    def open_recorder(config: Any) -> Any:
        sink.recorder = writer.recorder(
            node=role.value, rank=0, config=describe_config(config), engine=engine_of(scheduler),
            event_reader=event_reader(scheduler), now_ns=clock.now_ns, clock="monotonic", rule_set="0.1.24",
        )  # fmt: skip
        return sink.recorder

    return recording_module(scheduler, open_recorder, observed=False)
