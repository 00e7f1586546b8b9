"""One engine lifetime, drawn from a seed or put together by hand, and its comparison with the dense reference."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import torch

from tsviz.adapters.tokenspeed import engine_of, recording_module
from tsviz.engine.arrivals import Arrivals
from tsviz.engine.clock import Clock, VirtualClock
from tsviz.engine.cost import DeviceCost
from tsviz.engine.events import Event
from tsviz.engine.faults import AckFaults, ClientAbort
from tsviz.engine.summary import RunSummary
from tsviz.engine.workloads.model import Span, Workload, WorkRequest
from tsviz.executor.clock import MonotonicClock
from tsviz.executor.drafting import first_layers
from tsviz.executor.engine import Engine, EngineOptions, fit_vocabulary
from tsviz.executor.equality import Equality, compare
from tsviz.executor.fast import fast_model
from tsviz.executor.graphs import DecodeGraphs
from tsviz.executor.model import Model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.shape import PRESETS
from tsviz.executor.sizing import PoolOptions, single_request_tokens, size_pool
from tsviz.executor.slots import Drafter
from tsviz.executor.store import PageStore, StoreFaults
from tsviz.executor.streams import InlineStreams, Streams
from tsviz.executor.telling import TraceSink
from tsviz.executor.threads import Delays, ThreadStreams
from tsviz.executor.virtual import Policy, VirtualStreams
from tsviz.executor.weights import seeded_weights
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.order.checker import Race
from tsviz.trace.order.ops import Op
from tsviz.trace.writer import BundleWriter

PACE = DeviceCost(round_ns=1_000_000, token_ns=20_000)
MS = 1_000_000
MOST_ROUNDS = 300
"""A small lifetime has a few dozens; one that comes to this goes in circles."""
Meddle = Callable[[list[Event]], list[Event]]
"""Makes other events of those that the loop tells in one call: a mistake of an event loop."""


def request(name: str, *spans: tuple[int, int], says: int = 8, at_ms: int = 0, declared: int = 0) -> WorkRequest:
    """A request whose prompt is (source, tokens) spans; equal sources share their tokens."""
    prompt = tuple(Span(source, 0, length) for source, length in spans)
    return WorkRequest(name, prompt, (Span(1, 0, says),), declared, arrival_ns=at_ms * MS)


@dataclass(frozen=True)
class Life:
    """Everything that one lifetime depends on; `fast` is in float64, with `graphs` where they are given.

    With `real_time` it runs by the clock on the wall: workers of their own do not follow a virtual one.
    """

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
    real_time: bool = False


@dataclass(frozen=True)
class Lived:
    """What became of it; `said` are the tokens that every request got; the pool holds requests of `bound_tokens`."""

    summary: RunSummary
    bound_tokens: int
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
    clock: Clock | None = None,
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
    clock = clock or (MonotonicClock() if life.real_time else VirtualClock())
    store = None
    if life.pool.storage and store_root is not None:
        store = PageStore(store_root, f"{life.model}:{life.seed}", sized.layout.signature, life.faults)
    ops, most_rounds = _Ops(), MOST_ROUNDS * (50 if life.real_time else 1)
    engine = Engine(
        scheduler, runs, sized, Arrivals(workload.requests), clock,
        EngineOptions(device=life.device, drafter=life.drafter, aborts=life.aborts, max_rounds=most_rounds),
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
        summary, engine.port.max_single_request_tokens(), said, equality, device.counts, device.checker.races,
        engine.arena.null_parent_is_zero(), ops.told,
    )  # fmt: skip


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
    chunk, most = draw.choice((16, 24, 40)), draw.choice((3, 4) if presses else (2, 3, 4))
    depth, mixed = draw.randint(0, 1), (presses and not host) or draw.random() < 0.6
    least = shape.declared_replay + max(shape.declared_replay, 8)
    pool = PoolOptions(
        prefix_granularity=8, max_scheduled_tokens=max(least + width * mixed, chunk), max_batch_size=most,
        decode_input_tokens=width, overlap_schedule_depth=depth, mixed=mixed,
        storage=host > 0 and draw.random() < 0.75,
    )  # fmt: skip
    requests = (_pressing if presses else _arriving)(draw)
    streams: Callable[[Callable[[], int]], Streams] = InlineStreams
    kind = draw.random()
    real_time = 0.7 <= kind < 0.75
    if kind < 0.7:
        policy, chooser = draw.choice(list(Policy)), draw.randint(0, 1 << 30)
        streams = lambda now_ns: VirtualStreams(now_ns, chooser, policy)  # noqa: E731
    elif real_time:
        streams = lambda now_ns: ThreadStreams(now_ns, Delays({}))  # noqa: E731
    aborts = tuple(ClientAbort(r.request_id, draw.randint(1, 30) * MS) for r in requests if draw.random() < 0.2)
    device = DeviceOptions(
        keep_logits=True, pace=PACE, layerwise=draw.random() < 0.7,
        acks=AckFaults(seed=seed, failed_load_rate=draw.choice((0.0, 0.0, 0.2))),
    )  # fmt: skip
    parents = PRESSED_PARENTS[model] if presses else ROOMY_PARENTS[model] + draw.randint(0, 5)
    vanishing, cut = draw.choice((0.0, 0.7)), draw.choice((0.0, 0.1))
    drafter = draw.choice((Drafter.NGRAM, Drafter.BAD, Drafter.NONE))
    draft_layers = draw.choice((0, 1, 2 if model == "tiny" else 1)) if width > 1 else 0
    unreadable, full = draw.choice((0.0, 0.0, 0.1)), draw.choice((0.0, 0.2))
    faults = StoreFaults(seed, vanishing, cut, raise_rate=unreadable, failed_put_rate=full)
    life = Life(
        tuple(requests), model, pool, parents, host, drafter, draft_layers, device, streams, aborts, faults, seed,
        real_time=real_time,
    )  # fmt: skip
    return replace(life, parents=_enough_parents(life))


def _enough_parents(life: Life) -> int:
    """At least as many as a lifetime has, and in which its longest request fits to its end: else it may stand still."""
    ends = (r.prompt_tokens + max(r.output_tokens, r.max_new_tokens) for r in life.requests)
    longest = max(ends) + life.pool.decode_input_tokens
    shape = PRESETS[life.model]
    draft = replace(shape, pattern=shape.pattern[: life.draft_layers], narrow=False) if life.draft_layers else None

    def holds(parents: int) -> bool:
        sized = size_pool(shape, life.pool, parents=parents, host_parents=0, element_bytes=4, draft=draft)
        return single_request_tokens(sized) >= longest

    return next(filter(holds, count(life.parents)))


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
