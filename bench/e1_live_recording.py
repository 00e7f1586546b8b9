"""E1: what recording costs a live run of the executor: a run with a recorder and without, interleaved.

On a CPU the loop thread's CPU time, of a run and of its slower rounds, of a seeded model whose rounds take under two
milliseconds and of SmolLM2's shape; where there is a GPU also the time of a run of that. By the wall too, which says
something where little else runs, and what the writer's thread takes a round, which does so anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from .measure import Line, interleave_each
from .runs import scratch

_TINY_PAIRS, _PAIRS = 15, 9
_TINY_REQUESTS = 60
"""So many that a run is longer than a flush, and what waits at its end is a small share."""
_MANY_TOKENS = 64
"""From so many on there are rounds enough for a share of them."""


class _Run(NamedTuple):
    """Seconds of a run, by the wall too; milliseconds that one round in twenty takes longer than; CPU microseconds a
    round of all other threads.
    """

    seconds: float
    wall_seconds: float
    p95_ms: float
    others_us: float


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
    yield from _lines("tiny", tiny, _TINY_REQUESTS, 64, _TINY_PAIRS)
    smollm2 = LARGER["smollm2-shape"]
    yield from _lines("SmolLM2's shape", random_model(smollm2, torch.float32, "cpu"), 8, 12, _PAIRS)
    if torch.cuda.is_available():
        yield from _lines("SmolLM2's shape, GPU", random_model(smollm2, torch.bfloat16, "cuda"), 12, 64, _TINY_PAIRS)


def _lines(name: str, model: Any, requests: int, tokens: int, pairs: int) -> Iterator[Line]:
    _run(model, requests, tokens, recorded=True)
    seconds, wall, p95, others = interleave_each(
        lambda: _run(model, requests, tokens, recorded=False), lambda: _run(model, requests, tokens, recorded=True),
        pairs, (
            lambda run: run.seconds, lambda run: run.wall_seconds, lambda run: run.p95_ms, lambda run: run.others_us,
        ),
    )  # fmt: skip
    what = "seconds" if model.weights.embed.is_cuda else "loop thread's CPU"
    case = f"{name}, fast, {requests} requests of {tokens}"
    yield Line("E1", case, seconds.ratio, "recorded / plain", 1.01, note=f"{what}; {seconds.spread}")
    if what != "seconds":
        yield Line("E1", f"{case}, by the wall", wall.ratio, "recorded / plain", 1.01, note=wall.spread)
    yield Line("E1", f"{case}, the writer's thread", others.difference, "CPU us a round")
    if tokens < _MANY_TOKENS:
        return
    yield Line("E1", f"{case}, p95 of a round", p95.difference, "ms more", 0.5, note=f"plain {p95.base_median:.2f} ms")


def _run(model: Any, count: int, tokens: int, *, recorded: bool) -> _Run:
    """Run once; on a CPU times are the loop thread's CPU."""
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
    rounds: list[float] = []

    def stop() -> bool:
        rounds.append(timer())
        return False

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
        options = EngineOptions(device=DeviceOptions(poison=False, tracked=recorded), stop=stop)
        engine = Engine(
            module, model, sized, Arrivals(requests), clock, options, watcher=sink if recorded else None,
            streams=streams, graphs=decode_graphs() if embed.is_cuda else None,
        )  # fmt: skip
        began = timer(), time.perf_counter(), time.process_time() - time.thread_time()
        engine.run()
        ended = timer(), time.perf_counter(), time.process_time() - time.thread_time()
        if writer is not None:
            writer.close({})
    seconds, wall, others = (after - before for before, after in zip(began, ended, strict=True))
    took = sorted(after - before for before, after in pairwise(rounds))
    return _Run(seconds, wall, took[len(took) * 95 // 100] * 1e3, others / len(rounds) * 1e6)
