"""E1: what recording costs a live run of the executor: seconds of a run with a recorder and without, interleaved."""

from __future__ import annotations

import time
from collections.abc import Iterator

from .measure import Line, interleave
from .runs import scratch

_REQUESTS, _REPEATS = 12, 5


def figures() -> Iterator[Line]:
    """Yield the ratio of throughputs on a seeded model; a machine without torch yields that it has none."""
    try:
        from tsviz.executor.models import load_model, use_threads
    except ImportError:
        yield Line("E1", "torch is not installed", float("nan"), "")
        return
    use_threads(1)
    model = load_model("tiny", seed=0, dtype="float32", fast=True).model
    _run(model, recorded=True)
    runs = interleave(lambda: _run(model, recorded=False), lambda: _run(model, recorded=True), _REPEATS)
    yield Line(
        "E1", "tiny, fast, 12 requests of 64 tokens", runs.ratio, "recorded / plain CPU", 1.01,
        note=f"loop thread; {runs.spread}",
    )  # fmt: skip


def _run(model: object, *, recorded: bool) -> float:
    """Return the CPU seconds of the loop thread in one run."""
    import tsviz.scheduler.compat as twin
    from tsviz.adapters.tokenspeed import engine_of, recording_module
    from tsviz.engine.arrivals import Arrivals
    from tsviz.engine.clock import VirtualClock
    from tsviz.engine.workloads.model import Span, WorkRequest, given_tokens
    from tsviz.executor.engine import Engine, EngineOptions
    from tsviz.executor.options import DeviceOptions
    from tsviz.executor.sizing import PoolOptions, size_pool
    from tsviz.executor.telling import TraceSink
    from tsviz.trace.api_events import event_reader
    from tsviz.trace.config import describe_config
    from tsviz.trace.writer import BundleWriter

    requests = [
        WorkRequest(f"r{i}", (given_tokens(range(i, i + 32)),), (Span(0, 0, 64),), 64, arrival_ns=0)
        for i in range(_REQUESTS)
    ]
    sized = size_pool(model.shape, PoolOptions(max_batch_size=8), parents=120, host_parents=0, element_bytes=4)  # type: ignore[attr-defined]
    clock, sink = VirtualClock(), TraceSink()
    with scratch() as directory:
        writer = BundleWriter(directory / "run", meta={}) if recorded else None

        def open_recorder(config: object) -> object:
            assert writer is not None
            sink.recorder = writer.recorder(
                node="F", rank=0, config=describe_config(config), engine=engine_of(twin),
                event_reader=event_reader(twin), now_ns=clock.now_ns, clock="virtual", rule_set="0.1.24",
            )  # fmt: skip
            return sink.recorder

        module = recording_module(twin, open_recorder, observed=False) if recorded else twin
        engine = Engine(
            module, model, sized, Arrivals(requests), clock,  # type: ignore[arg-type]
            EngineOptions(device=DeviceOptions(poison=False, tracked=recorded)), watcher=sink if recorded else None,
        )  # fmt: skip
        began = time.thread_time()
        engine.run()
        seconds = time.thread_time() - began
        if writer is not None:
            writer.close({})
    return seconds
