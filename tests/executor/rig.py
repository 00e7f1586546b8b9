"""One engine lifetime, drawn from a seed or put together by hand, and its comparison with the dense reference."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from tsviz.adapters.tokenspeed import engine_of, recording_module
from tsviz.engine.arrivals import Arrivals
from tsviz.engine.clock import VirtualClock
from tsviz.engine.cost import DeviceCost
from tsviz.engine.events import Event
from tsviz.engine.faults import AckFaults, ClientAbort
from tsviz.engine.summary import RunSummary
from tsviz.engine.workloads.model import Span, Workload, WorkRequest
from tsviz.executor.drafting import first_layers
from tsviz.executor.engine import Engine, EngineOptions, fit_vocabulary
from tsviz.executor.equality import Equality, compare
from tsviz.executor.fast import fast_model
from tsviz.executor.graphs import DecodeGraphs
from tsviz.executor.model import Model
from tsviz.executor.ops import Op
from tsviz.executor.options import DeviceOptions
from tsviz.executor.order import Race
from tsviz.executor.shape import PRESETS
from tsviz.executor.sizing import PoolOptions, size_pool
from tsviz.executor.slots import Drafter
from tsviz.executor.store import PageStore, StoreFaults
from tsviz.executor.streams import InlineStreams, Streams
from tsviz.executor.telling import TraceSink
from tsviz.executor.threads import Delays, ThreadStreams
from tsviz.executor.virtual import Policy, VirtualStreams
from tsviz.executor.weights import seeded_weights
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.writer import BundleWriter

PACE = DeviceCost(round_ns=1_000_000, token_ns=20_000)
MS = 1_000_000
Meddle = Callable[[list[Event]], list[Event]]
"""Makes other events of those that the loop tells in one call: a mistake of an event loop."""


def request(name: str, *spans: tuple[int, int], says: int = 8, at_ms: int = 0, declared: int = 0) -> WorkRequest:
    """A request whose prompt is (source, tokens) spans; equal sources share their tokens."""
    prompt = tuple(Span(source, 0, length) for source, length in spans)
    return WorkRequest(name, prompt, (Span(1, 0, says),), declared, arrival_ns=at_ms * MS)


@dataclass(frozen=True)
class Life:
    """Everything that one lifetime depends on; `fast` is in float64, with `graphs` where they are given."""

    requests: tuple[WorkRequest, ...]
    model: str = "tiny"
    pool: PoolOptions = field(default_factory=PoolOptions)
    parents: int = 40
    host_parents: int = 0
    drafter: Drafter = Drafter.NGRAM
    draft_layers: int = 0
    device: DeviceOptions = field(default_factory=lambda: DeviceOptions(keep_logits=True, pace=PACE))
    streams: Callable[[Callable[[], int]], Streams] = InlineStreams
    aborts: tuple[ClientAbort, ...] = ()
    faults: StoreFaults | None = None
    seed: int = 1
    fast: bool = False
    graphs: DecodeGraphs | None = None
    on: str = "cpu"


@dataclass(frozen=True)
class Lived:
    """What became of it; `said` are the tokens that every request got."""

    summary: RunSummary
    said: dict[str, list[int]]
    equality: Equality
    counts: Counter[str]
    races: list[Race]
    guard_is_zero: bool
    ops: list[Op]


class _Ops:
    """Keeps what the device tells."""

    def __init__(self) -> None:
        self.told: list[Op] = []

    def ops(self, ops: Sequence[Op]) -> None:
        self.told += ops

    def crcs(self, op: Op, crcs: Any) -> None:
        assert op is self.told[-1]

    def forward(self, round_: int, start_ns: int, end_ns: int, rows: Any) -> None:
        assert 0 <= start_ns <= end_ns


def record(
    life: Life, scheduler: Any, out: Path, store_root: Path | None = None, *, meddle: Meddle | None = None
) -> Lived:
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
        module = recording_module(scheduler, open_recorder, observed=False)
        return live(life, module, store_root, watcher=sink, clock=clock, meddle=meddle)
    finally:
        writer.close({"parts": {}, "error": None})


def meddle_with(engine: Engine, meddle: Meddle) -> None:
    """Let an engine's loop tell its scheduler something else."""
    advance = engine.port.advance
    engine.port.advance = lambda events: advance(meddle(list(events)))  # type: ignore[method-assign]


def live(
    life: Life,
    scheduler: Any,
    store_root: Path | None = None,
    *,
    watcher: Any = None,
    clock: VirtualClock | None = None,
    meddle: Meddle | None = None,
) -> Lived:
    """Run a lifetime on a scheduler module and compare all that was said; `meddle` changes what the loop tells it."""
    shape = PRESETS[life.model]
    dtype = torch.float64 if life.fast else torch.float32
    model = Model(shape, seeded_weights(shape, life.seed, dtype))
    placed = model if life.on == "cpu" else replace(model, weights=model.weights.to(life.on))
    runs = fast_model(placed) if life.fast else placed
    draft = draft_of(runs, life.draft_layers)
    sized = size_pool(
        shape, life.pool, parents=life.parents, host_parents=life.host_parents,
        element_bytes=dtype.itemsize,
        draft=None if draft is None else draft.shape,
    )  # fmt: skip
    workload = fit_vocabulary(Workload(life.requests, {}), shape.vocabulary)
    clock = clock or VirtualClock()
    store = None
    if life.pool.storage and store_root is not None:
        store = PageStore(store_root, f"{life.model}:{life.seed}", sized.layout.signature, life.faults)
    ops = _Ops()
    engine = Engine(
        scheduler, runs, sized, Arrivals(workload.requests), clock,
        EngineOptions(device=life.device, drafter=life.drafter, aborts=life.aborts, max_rounds=300),
        streams=life.streams(clock.now_ns), store=store, watcher=watcher or ops, draft=draft,
        graphs=life.graphs,
    )  # fmt: skip
    if meddle is not None:
        meddle_with(engine, meddle)
    summary = engine.run()
    device = engine.device
    device.counts["aborted neighbour"] += summary.aborted
    device.counts[f"depth {life.pool.overlap_schedule_depth}"] += summary.scheduled_rounds
    equality = compare(model, workload.requests, device.said)
    said = {name: [t for part in parts for t in part.tokens] for name, parts in device.said.items() if parts}
    return Lived(
        summary, said, equality, device.counts, device.checker.races, engine.arena.null_parent_is_zero(), ops.told
    )


PRESSED_PARENTS = {
    "tiny": 8, "tiny-sliding": 10, "tiny-state": 12, "tiny-state-2": 8, "tiny-replay": 8, "tiny-replay-2": 12,
    "tiny-narrow": 13,
}  # fmt: skip
"""Parents in which four requests that say twenty tokens each take pages from one another, and all can end."""
ROOMY_PARENTS = {
    "tiny": 9, "tiny-sliding": 10, "tiny-state": 21, "tiny-state-2": 8, "tiny-replay": 12, "tiny-replay-2": 12,
    "tiny-narrow": 12,
}  # fmt: skip
"""Parents in which the small requests of a drawn lifetime fit, with little to spare."""


def draft_of(model: Model, layers: int) -> Model | None:
    """The first layers of a model as its draft; the model itself where that is all of them, None for none."""
    if not layers:
        return None
    return model if layers == len(model.shape.pattern) else first_layers(model, layers)


def drawn(seed: int) -> Life:
    """Draw a lifetime: most of them press requests against one another, so that they are retracted and come back."""
    draw = random.Random(seed)
    model = draw.choice((*ROOMY_PARENTS, "tiny", "tiny-sliding", "tiny-replay"))
    shape = PRESETS[model]
    presses = draw.random() < 0.6
    width, host = draw.choice((1, 1, 2, 3)), draw.choice((0, 16, 40, 60))
    least = shape.declared_replay + max(shape.declared_replay, 8)
    pool = PoolOptions(
        prefix_granularity=8, max_scheduled_tokens=max(least, draw.choice((16, 24, 40))),
        max_batch_size=draw.choice((3, 4) if presses else (2, 3, 4)), decode_input_tokens=width,
        overlap_schedule_depth=draw.randint(0, 1), mixed=(presses and not host) or draw.random() < 0.6,
        storage=host > 0 and draw.random() < 0.75,
    )  # fmt: skip
    requests = (_pressing if presses else _arriving)(draw)
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
    parents = PRESSED_PARENTS[model] if presses else ROOMY_PARENTS[model] + draw.randint(0, 5)
    faults = StoreFaults(seed, vanish_rate=draw.choice((0.0, 0.7)), truncate_rate=draw.choice((0.0, 0.1)))
    return Life(
        tuple(requests),
        model,
        pool,
        parents,
        host,
        draw.choice((Drafter.NGRAM, Drafter.BAD, Drafter.NONE)),
        draw.choice((0, 1, 2 if model == "tiny" else 1)) if width > 1 else 0,
        device,
        streams,
        aborts,
        faults,
        seed,
    )


def _pressing(draw: random.Random) -> list[WorkRequest]:
    """Four requests at once that grow; mostly they share a prefix page, which those that are retracted find again."""
    shared = [(300, 8)] if draw.random() < 0.8 else []
    prompts = [[*shared, (301 + i, draw.randint(4, 12))] for i in range(4)]
    return [request(f"p{i}", *spans, says=draw.randint(12, 20), at_ms=i) for i, spans in enumerate(prompts)]


def _arriving(draw: random.Random) -> list[WorkRequest]:
    """A few requests of two prompt families, one after the other or nearly at once."""
    requests, at = [], 0
    for i in range(draw.randint(4, 7)):
        spans = [(100 + draw.randint(0, 1), draw.choice((8, 16, 20)))]
        if draw.random() < 0.7:
            spans.append((200 + draw.randint(0, 3), draw.randint(1, 14)))
        says, declared = draw.randint(4, 14), draw.choice((0, 0, 0, 14))
        requests.append(request(f"r{i}", *spans, says=says, at_ms=at, declared=declared))
        at += draw.choice((0, 1, 3, 12))
    return requests


def with_device(life: Life, **changes: Any) -> Life:
    """The same lifetime on a device with other options."""
    return replace(life, device=replace(life.device, **changes))
