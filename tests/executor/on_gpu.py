"""The CUDA checks, for a machine with a GPU: `python -m tests.executor.on_gpu`. Unverified until one has run it.

Exact mode in float64 on CUDA streams: every token of a pressed run must be the dense reference's, worked out on the
CPU; a wrong one whose two largest logits are further apart than `MARGIN` is a fault, not rounding.
"""

from __future__ import annotations

import sys

import torch

import tsviz.scheduler.compat as twin
from tests.executor.test_equality import PRESSED
from tsviz.engine.arrivals import Arrivals
from tsviz.engine.workloads.model import Workload
from tsviz.executor.clock import MonotonicClock
from tsviz.executor.cuda import cuda_streams, require_gpu
from tsviz.executor.engine import Engine, EngineOptions, fit_vocabulary
from tsviz.executor.equality import compare
from tsviz.executor.models import load_model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.shape import PRESETS, BadModel
from tsviz.executor.sizing import PoolOptions, size_pool

MARGIN = 1e-9


def check(name: str) -> str | None:
    """Run one seeded model; return what is wrong, None when nothing is."""
    on_gpu, on_cpu = (load_model(name, seed=1, dtype="float64", fast=False, device=d).model for d in ("cuda", "cpu"))
    shape, clock = PRESETS[name], MonotonicClock()
    pool = PoolOptions(mixed=True, overlap_schedule_depth=1, decode_input_tokens=2)
    sized = size_pool(shape, pool, parents=14, host_parents=60, element_bytes=8)
    workload = fit_vocabulary(Workload(PRESSED, {}), shape.vocabulary)
    options = EngineOptions(device=DeviceOptions(keep_logits=True))
    engine = Engine(
        twin, on_gpu, sized, Arrivals(workload.requests), clock, options, streams=cuda_streams(clock.now_ns)
    )
    engine.run()
    equality = compare(on_cpu, workload.requests, engine.device.said)
    print(f"{name}: {equality}, {len(engine.device.checker.races)} races")
    if engine.device.checker.races:
        return f"{name}: {engine.device.checker.races[0]}"
    if equality.wrong and equality.least_margin > MARGIN:
        return f"{name}: {equality.wrong} wrong tokens, margin {equality.least_margin:g}"
    return None


def main() -> int:
    """Check every exact preset; 2 without a GPU."""
    try:
        require_gpu()
    except BadModel as error:
        print(f"make gpu needs an NVIDIA GPU that torch can use: {error}", file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    wrong = [told for name in PRESETS if not PRESETS[name].short_replay and (told := check(name)) is not None]
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
