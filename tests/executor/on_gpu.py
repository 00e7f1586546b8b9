"""The CUDA checks, for a machine with a GPU: `python -m tests.executor.on_gpu`. Unverified until one has run it.

They settle what `executor-rules.md` section 8 leaves open of CUDA. A pressed run of every seeded model is compared with
the dense reference, worked out on the CPU in the same number format. In float64, in exact mode and in `fast` mode with
graphs, a wrong token whose two largest logits are further apart than `MARGIN` is a fault, not rounding. `fast` mode in
float32 is held to `MARGIN_32`; bfloat16 is told and claims nothing. What makes the host wait is told too.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass

import torch

import tsviz.scheduler.compat as twin
from tests.executor.rig import draft_of
from tests.executor.test_equality import PRESSED
from tsviz.engine.arrivals import Arrivals
from tsviz.engine.workloads.model import Workload
from tsviz.executor.clock import MonotonicClock
from tsviz.executor.cuda import cuda_streams, decode_graphs, require_gpu
from tsviz.executor.engine import Engine, EngineOptions, fit_vocabulary
from tsviz.executor.equality import compare
from tsviz.executor.models import load_model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.shape import PRESETS, BadModel
from tsviz.executor.sizing import PoolOptions, size_pool
from tsviz.executor.weights import DTYPES

MARGIN, MARGIN_32 = 1e-9, 1e-3


@dataclass(frozen=True)
class Way:
    """How a model is run, and the margin from which on a wrong token is a fault; None: it is only told."""

    dtype: str
    fast: bool
    margin: float | None
    paged_kernel: bool = True


FAST_32 = Way("float32", True, MARGIN_32)
WAYS = (Way("float64", False, MARGIN), Way("float64", True, MARGIN), Way("float64", True, MARGIN, paged_kernel=False),
        FAST_32, Way("bfloat16", True, None))  # fmt: skip


def check(name: str, way: Way, device: str = "cuda", draft_layers: int = 0) -> str | None:
    """Run one seeded model, with its first layers as a draft if any; return what is wrong, None when nothing is."""
    runs = load_model(name, seed=1, dtype=way.dtype, fast=way.fast, device=device).model
    reference = load_model(name, seed=1, dtype=way.dtype, fast=False).model
    shape, clock = PRESETS[name], MonotonicClock()
    pool = PoolOptions(mixed=True, overlap_schedule_depth=1, decode_input_tokens=2)
    draft = draft_of(runs, draft_layers)
    sized = size_pool(
        shape, pool, parents=14, host_parents=60, element_bytes=DTYPES[way.dtype].itemsize,
        draft=None if draft is None else draft.shape,
    )  # fmt: skip
    workload = fit_vocabulary(Workload(PRESSED, {}), shape.vocabulary)
    on_gpu = device == "cuda"
    graphs = decode_graphs() if on_gpu else None
    engine = Engine(
        twin, runs, sized, Arrivals(workload.requests), clock,
        EngineOptions(device=DeviceOptions(keep_logits=True, paged_kernel=way.paged_kernel)),
        streams=cuda_streams(clock.now_ns) if on_gpu else None, graphs=graphs, draft=draft,
    )  # fmt: skip
    engine.run()
    equality = compare(reference, workload.requests, engine.device.said)
    races = engine.device.checker.races
    told = f"{name}, {way.dtype}, {'fast' if way.fast else 'exact'}{', drafting' if draft_layers else ''}"
    told += "" if way.paged_kernel else ", pages copied"
    print(
        f"{told}: {equality.tokens} tokens, {equality.bit_equal} with equal bits, {equality.wrong} wrong, by margins of"
        f" up to {equality.worst_margin:g}, {0 if graphs is None else graphs.captured} graphs, {len(races)} races",
        flush=True,
    )
    if races:
        return f"{told}: {races[0]}"
    if way.margin is not None and equality.wrong and equality.worst_margin > way.margin:
        return f"{told}: {equality.wrong} wrong tokens, margin {equality.worst_margin:g}, {equality.first}"
    if on_gpu and way.fast and not (graphs and graphs.captured):
        return f"{told}: no graph was captured"
    return None


def waits() -> list[str]:
    """Return what made the host wait in a run in `fast` mode, as the library tells it; a commit's wait it does not."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check("tiny", FAST_32)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sorted({f"{w.filename}:{w.lineno}: {w.message}" for w in caught if "synchroniz" in str(w.message)})


def main() -> int:
    """Check every exact preset every way; 1 with a fault, 2 without a GPU."""
    try:
        require_gpu()
    except BadModel as error:
        print(f"make gpu needs an NVIDIA GPU that torch can use: {error}", file=sys.stderr)
        return 2
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    wrong = []
    for way in WAYS:
        torch.use_deterministic_algorithms(not way.fast, warn_only=True)
        names = [name for name in PRESETS if not PRESETS[name].short_replay]
        runs = [(name, draft) for name in names for draft in ((0, 1) if way.fast else (0,))]
        wrong += [told for name, draft in runs if (told := check(name, way, draft_layers=draft)) is not None]
    for told in waits():
        print(f"the host waits: {told}")
    print(*wrong, sep="\n")
    print(
        f"section 8, CUDA in float64: {'unsettled, see above' if wrong else f'token equality holds, margin {MARGIN:g}'}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
