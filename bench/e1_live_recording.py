"""E1: what recording costs a live run of the executor: seconds of a run with a recorder and without, interleaved.

On a CPU the loop thread's CPU time, of a seeded model; where there is a GPU also the time of a run of SmolLM2's shape.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

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
    import torch

    from .e3_gpu import SMOLLM2, random_model

    use_threads(1)
    models = {"tiny": load_model("tiny", seed=0, dtype="float32", fast=True).model}
    if torch.cuda.is_available():
        models["SmolLM2's shape, GPU"] = random_model(SMOLLM2, torch.bfloat16, "cuda")
    for name, model in models.items():
        _run(model, recorded=True)
        runs = interleave(lambda m=model: _run(m, recorded=False), lambda m=model: _run(m, recorded=True), _REPEATS)  # type: ignore[misc]
        what = "loop thread's CPU" if name == "tiny" else "seconds"
        yield Line(
            "E1", f"{name}, fast, 12 requests of 64 tokens", runs.ratio, "recorded / plain", 1.01,
            note=f"{what}; {runs.spread}",
        )  # fmt: skip


def _run(model: Any, *, recorded: bool) -> float:
    """Return the CPU seconds of the loop thread in one run; on a GPU the seconds of it."""
    import tsviz.scheduler.compat as twin
    from tsviz.adapters.tokenspeed import engine_of, recording_module
    from tsviz.engine.arrivals import Arrivals
    from tsviz.engine.clock import VirtualClock
    from tsviz.engine.workloads.model import Span, WorkRequest, given_tokens
    from tsviz.executor.cuda import cuda_streams, decode_graphs
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
    embed = model.weights.embed
    pool = PoolOptions(max_batch_size=8)
    sized = size_pool(model.shape, pool, parents=120, host_parents=0, element_bytes=embed.element_size())
    clock, sink = VirtualClock(), TraceSink()
    streams = cuda_streams(time.monotonic_ns) if embed.is_cuda else None
    timer = time.perf_counter if embed.is_cuda else time.thread_time
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
            module, model, sized, Arrivals(requests), clock,
            EngineOptions(device=DeviceOptions(poison=False, tracked=recorded)), watcher=sink if recorded else None,
            streams=streams, graphs=decode_graphs() if embed.is_cuda else None,
        )  # fmt: skip
        began = timer()
        engine.run()
        seconds = timer() - began
        if writer is not None:
            writer.close({})
    return seconds
