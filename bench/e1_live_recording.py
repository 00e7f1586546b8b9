"""E1: what recording costs a live run of the executor: seconds of a run with a recorder and without, interleaved.

On a CPU the loop thread's CPU time, of a seeded model whose rounds take about a millisecond and of SmolLM2's shape;
where there is a GPU also the time of a run of that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from .measure import Line, interleave
from .runs import scratch

_REPEATS = 5


def figures() -> Iterator[Line]:
    """Yield the ratio of throughputs on a seeded model; a machine without torch yields that it has none."""
    try:
        from tsviz.executor.models import load_model, use_threads
    except ImportError:
        yield Line("E1", "torch is not installed", float("nan"), "")
        return
    import torch

    from tsviz.executor.shape import LARGER

    from .e3_steps import random_model

    use_threads(1)
    tiny = load_model("tiny", seed=0, dtype="float32", fast=True).model
    yield _line("tiny", tiny, 12, 64)
    yield _line("SmolLM2's shape", random_model(LARGER["smollm2-shape"], torch.float32, "cpu"), 8, 12)
    if torch.cuda.is_available():
        yield _line("SmolLM2's shape, GPU", random_model(LARGER["smollm2-shape"], torch.bfloat16, "cuda"), 12, 64)


def _line(name: str, model: Any, requests: int, tokens: int) -> Line:
    _run(model, requests, tokens, recorded=True)
    runs = interleave(
        lambda: _run(model, requests, tokens, recorded=False), lambda: _run(model, requests, tokens, recorded=True),
        _REPEATS,
    )  # fmt: skip
    what = "seconds" if model.weights.embed.is_cuda else "loop thread's CPU"
    case = f"{name}, fast, {requests} requests of {tokens}"
    return Line("E1", case, runs.ratio, "recorded / plain", 1.01, note=f"{what}; {runs.spread}")


def _run(model: Any, count: int, tokens: int, *, recorded: bool) -> float:
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
        WorkRequest(f"r{i}", (given_tokens(range(i, i + 32)),), (Span(0, 0, tokens),), tokens, arrival_ns=0)
        for i in range(count)
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
