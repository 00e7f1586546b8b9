"""One engine lifetime, drawn from a seed or put together by hand, and its comparison with the dense reference."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tsviz.adapters.tokenspeed import engine_of, recording_module
from tsviz.engine.arrivals import Arrivals
from tsviz.engine.clock import VirtualClock
from tsviz.engine.cost import DeviceCost
from tsviz.engine.faults import AckFaults, ClientAbort
from tsviz.engine.summary import RunSummary
from tsviz.engine.workloads.model import Span, Workload, WorkRequest
from tsviz.executor.engine import Engine, EngineOptions, fit_vocabulary
from tsviz.executor.equality import Equality, compare
from tsviz.executor.model import Model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.order import Op, Race
from tsviz.executor.shape import PRESETS
from tsviz.executor.sizing import PoolOptions, size_pool
from tsviz.executor.slots import Drafter
from tsviz.executor.store import PageStore, StoreFaults
from tsviz.executor.streams import Delays, InlineStreams, Policy, Streams, ThreadStreams, VirtualStreams
from tsviz.executor.telling import TraceSink
from tsviz.executor.weights import seeded_weights
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.writer import BundleWriter

PACE = DeviceCost(round_ns=1_000_000, token_ns=20_000)
MS = 1_000_000


def request(name: str, *spans: tuple[int, int], says: int = 8, at_ms: int = 0, declared: int = 0) -> WorkRequest:
    """A request whose prompt is (source, tokens) spans; equal sources share their tokens."""
    prompt = tuple(Span(source, 0, length) for source, length in spans)
    return WorkRequest(name, prompt, (Span(1, 0, says),), declared, arrival_ns=at_ms * MS)


@dataclass(frozen=True)
class Life:
    """Everything that one lifetime depends on."""

    requests: tuple[WorkRequest, ...]
    model: str = "tiny"
    pool: PoolOptions = field(default_factory=PoolOptions)
    parents: int = 40
    host_parents: int = 0
    drafter: Drafter = Drafter.NGRAM
    device: DeviceOptions = field(default_factory=lambda: DeviceOptions(keep_logits=True, pace=PACE))
    streams: Callable[[Callable[[], int]], Streams] = InlineStreams
    aborts: tuple[ClientAbort, ...] = ()
    faults: StoreFaults | None = None
    seed: int = 1


@dataclass(frozen=True)
class Lived:
    """What became of it."""

    summary: RunSummary
    equality: Equality
    counts: Counter[str]
    races: list[Race]
    guard_is_zero: bool
    ops: list[Op]


class _Ops:
    """Keeps what the device tells."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def op(self, op: Op) -> None:
        self.ops.append(op)

    def forward(self, round_: int, start_ns: int, end_ns: int, rows: Any) -> None:
        assert 0 <= start_ns <= end_ns


def record(life: Life, scheduler: Any, out: Path) -> Lived:
    """Run a lifetime and record it, on virtual time."""
    sink = TraceSink()
    writer = BundleWriter(out, meta={"command": ["tsviz"]})
    clock = VirtualClock()

    def open_recorder(config: Any) -> Any:
        sink.recorder = writer.recorder(
            node="F", rank=0, config=describe_config(config), engine=engine_of(scheduler),
            event_reader=event_reader(scheduler), now_ns=clock.now_ns, clock="virtual", rule_set="0.1.24",
        )  # fmt: skip
        return sink.recorder

    try:
        return live(life, recording_module(scheduler, open_recorder, observed=False), watcher=sink, clock=clock)
    finally:
        writer.close({"parts": {}, "error": None})


def live(
    life: Life,
    scheduler: Any,
    store_root: Path | None = None,
    *,
    watcher: Any = None,
    clock: VirtualClock | None = None,
) -> Lived:
    """Run a lifetime on a scheduler module and compare all that was said."""
    shape = PRESETS[life.model]
    model = Model(shape, seeded_weights(shape, life.seed))
    sized = size_pool(shape, life.pool, parents=life.parents, host_parents=life.host_parents, element_bytes=4)
    workload = fit_vocabulary(Workload(life.requests, {}), shape.vocabulary)
    clock = clock or VirtualClock()
    store = None
    if life.pool.storage and store_root is not None:
        store = PageStore(store_root, f"{life.model}:{life.seed}", sized.layout.signature, life.faults)
    ops = _Ops()
    engine = Engine(
        scheduler, model, sized, Arrivals(workload.requests), clock,
        EngineOptions(device=life.device, drafter=life.drafter, aborts=life.aborts, max_rounds=300),
        streams=life.streams(clock.now_ns), store=store, watcher=watcher or ops,
    )  # fmt: skip
    summary = engine.run()
    device = engine.device
    device.counts["aborted neighbour"] += summary.aborted
    device.counts[f"depth {life.pool.overlap_schedule_depth}"] += summary.scheduled_rounds
    equality = compare(model, workload.requests, device.said)
    return Lived(summary, equality, device.counts, device.checker.races, engine.arena.null_parent_is_zero(), ops.ops)


def drawn(seed: int) -> Life:
    """Draw a lifetime."""
    draw = random.Random(seed)
    model = draw.choice(("tiny", "tiny-sliding", "tiny-state", "tiny-state-2", "tiny-replay", "tiny-replay-2"))
    shape = PRESETS[model]
    width, host = draw.choice((1, 1, 2, 3)), draw.choice((0, 16, 40, 60))
    least = shape.declared_replay + max(shape.declared_replay, 8)
    pool = PoolOptions(
        prefix_granularity=8, max_scheduled_tokens=max(least, draw.choice((16, 24, 40))),
        max_batch_size=draw.choice((2, 3, 4)), decode_input_tokens=width, overlap_schedule_depth=draw.randint(0, 1),
        mixed=draw.random() < 0.6, storage=host > 0 and draw.random() < 0.5,
    )  # fmt: skip
    requests, at = [], 0
    if presses := draw.random() < 0.4:
        requests = [
            request(f"p{i}", (300 + i, draw.randint(8, 16)), says=draw.randint(16, 28), at_ms=i) for i in range(4)
        ]
    for i in range(draw.randint(1, 2) if presses else draw.randint(4, 7)):
        spans = [(100 + draw.randint(0, 1), draw.choice((8, 16, 20)))]
        if draw.random() < 0.7:
            spans.append((200 + draw.randint(0, 3), draw.randint(1, 14)))
        requests.append(
            request(f"r{i}", *spans, says=draw.randint(4, 14), at_ms=at, declared=draw.choice((0, 0, 0, 14)))
        )
        at += draw.choice((0, 1, 3, 12))
    streams: Callable[[Callable[[], int]], Streams] = InlineStreams
    if (kind := draw.random()) < 0.7:
        policy, chooser = draw.choice(list(Policy)), draw.randint(0, 1 << 30)
        streams = lambda now_ns: VirtualStreams(now_ns, chooser, policy)  # noqa: E731
    elif kind < 0.75:
        streams = lambda now_ns: ThreadStreams(now_ns, Delays({}))  # noqa: E731
    aborts = tuple(ClientAbort(r.request_id, draw.randint(1, 30) * MS) for r in requests if draw.random() < 0.2)
    device = DeviceOptions(
        keep_logits=True, pace=PACE, layerwise=draw.random() < 0.7,
        acks=AckFaults(seed=seed, failed_load_rate=draw.choice((0.0, 0.0, 0.2))),
    )  # fmt: skip
    parents = (
        12
        if presses
        else {"tiny": 9, "tiny-sliding": 10, "tiny-state": 21, "tiny-state-2": 8}.get(model, 12) + draw.randint(0, 5)
    )
    faults = StoreFaults(seed, vanish_rate=draw.choice((0.0, 0.2)), truncate_rate=draw.choice((0.0, 0.1)))
    return Life(
        tuple(requests), model, pool, parents, host, draw.choice(list(Drafter)), device, streams, aborts, faults, seed
    )


def with_device(life: Life, **changes: Any) -> Life:
    """The same lifetime on a device with other options."""
    return replace(life, device=replace(life.device, **changes))
