"""The CUDA back end on a pretended device: nothing of it lies on the wrong side, and nothing makes the host wait.

Beside streams, events and graphs (`test_cuda`) this is all of a GPU that can be had without one: `executor-rules.md`
section 1, *Never block*, and section 2.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from bench import e3_gpu
from tests.executor import on_gpu
from tests.executor.conftest import tsviz
from tests.executor.pairs import REQUESTS, Pair, run_pair
from tests.executor.pretend import NAME, MixedDevices, OnDevice, Pretend
from tests.executor.rig import Life, Lived, drawn, live
from tests.executor.test_decode import LIVES
from tests.executor.test_equality import PRESSED
from tsviz.engine.summary import EndReason
from tsviz.executor.cuda import CudaStreams
from tsviz.executor.forward_thread import ForwardThread
from tsviz.executor.graphs import DecodeGraphs
from tsviz.executor.shape import PRESETS, ModelShape
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.upload import download, upload

torch.set_num_threads(1)
ONCE = {
    "weights.to", "weights.<genexpr>", "weights.<dictcomp>",  # the weights, before there is anything to wait for
    "model._frequencies_on",  # the frequencies of RoPE, once a shape
    "arena.null_parent_is_zero",  # the guard page, which the rig looks at when all is over
}  # fmt: skip
"""What waits before the first round or behind the last."""
EXACT = {
    "host tier": Life(PRESSED, "tiny", PoolOptions(mixed=True, overlap_schedule_depth=1), 12, host_parents=60),
    # In room enough for any timing: threads launch, and a pressed pool may come to a dead end by another order.
    "states": replace(drawn(1), parents=40), "speculation": replace(drawn(2), parents=40),
    "narrowed": replace(LIVES[3], fast=False),
}  # fmt: skip


@pytest.fixture
def pretend():
    """The device; what is made while it is entered may lie on it."""
    with Pretend() as device:
        yield device


def lived_on(pretend: Pretend, life: Life, tmp_path) -> Lived:
    """What became of a lifetime on the pretended device, by the clock on the wall, since threads launch."""
    library = pretend.library
    graphs = DecodeGraphs(library) if life.fast else None
    streams = lambda now_ns: ForwardThread(CudaStreams(now_ns, library))  # noqa: E731
    lived = live(replace(life, on=NAME, streams=streams, graphs=graphs, real_time=True), twin, tmp_path)
    assert lived.summary.reason is EndReason.DRAINED
    return lived


@pytest.mark.parametrize("life", EXACT.values(), ids=EXACT)
def test_exact_mode_on_the_device_has_equal_bits_and_never_waits(pretend, life, tmp_path) -> None:
    """Every logit is the reference's, nothing races, and nothing but what happens once makes the host wait."""
    lived = lived_on(pretend, life, tmp_path)
    assert lived.equality.is_exact
    assert lived.races == []
    assert {wait.partition(": ")[0] for wait in pretend.waits} <= ONCE


@pytest.mark.parametrize("life", [*LIVES[:2], LIVES[6], LIVES[8]], ids=["overlap", "wide", "wide-state", "draft-state"])
def test_replayed_graphs_on_the_device_say_the_right_tokens_and_never_wait(pretend, life, tmp_path) -> None:
    """In float64 every token is the reference's, graphs are captured and replayed, and the host waits for nothing."""
    lived = lived_on(pretend, life, tmp_path)
    assert (lived.equality.wrong, lived.races) == (0, [])
    assert {"capture", "replay"} <= {call[0] for call in pretend.library.calls}
    assert {wait.partition(": ")[0] for wait in pretend.waits} <= ONCE


@pytest.mark.parametrize("layerwise", [False, True], ids=["whole", "layerwise"])
def test_a_pair_on_the_device_has_equal_bits_and_waits_on_the_peer_thread_alone(pretend, layerwise) -> None:
    """Pages go from one node's device to the other's: logits are the reference's; no other thread waits for them."""
    streams = lambda now_ns: ForwardThread(CudaStreams(now_ns, pretend.library))  # noqa: E731
    paired = run_pair(Pair(requests=REQUESTS[:3], layerwise=layerwise, streams=streams, on=NAME))
    assert paired.equality.is_exact
    assert paired.races == set()
    assert {wait.partition(": ")[0] for wait in pretend.waits} <= ONCE


def test_tensors_of_both_sides_do_not_go_together(pretend) -> None:
    """The device refuses what a GPU refuses: an operation on one tensor of the host and one of its own."""
    ours = torch.ones(3, device=NAME)
    with pytest.raises(MixedDevices, match=r"aten\.add\.Tensor"):
        ours + torch.ones(3)
    with pytest.raises(MixedDevices, match=r"aten\.index\.Tensor"):
        ours[torch.tensor([0, 2])]


@pytest.mark.parametrize(
    "asks",
    [
        lambda t: t.sum().item(),
        lambda t: t.cpu(),
        lambda t: t[t > 0],
        lambda t: t.nonzero(),
        lambda t: torch.zeros(3).to(NAME, non_blocking=True),
        lambda t: torch.zeros(3).copy_(t, non_blocking=True),
        lambda t: torch.zeros(3, pin_memory=True).copy_(t),
        lambda t: bool((t > 0).any()),
        lambda t: t.__setitem__(0, 2.0),
        lambda t: t.__setitem__(torch.zeros(1, dtype=torch.long, device=NAME), 2.0),
    ],
    ids=[
        "item",
        "cpu",
        "mask",
        "nonzero",
        "pageable to",
        "pageable from",
        "blocking",
        "bool",
        "number at",
        "number put",
    ],
)
def test_what_makes_the_host_wait_is_noted(pretend, asks) -> None:
    """Numbers read back, shapes that depend on values, and copies of memory that is not pinned or waited for."""
    ours = torch.ones(3, device=NAME)
    assert pretend.waits == set()
    asks(ours)
    assert len(pretend.waits) == 1


def test_pinned_copies_are_not_waited_for(pretend) -> None:
    """An upload and a download are noted nowhere, and there and back again the numbers are the same."""
    ours = upload([3, 1, 2], torch.device(NAME))
    assert isinstance(ours, OnDevice)
    there = download(ours + 1)
    pretend.arrive()
    assert (there.tolist(), pretend.waits) == ([4, 2, 3], set())


def test_a_result_that_is_read_too_soon_is_garbage(pretend) -> None:
    """A copy to the host arrives with the event behind it: 0xa5 in every byte before."""
    event = pretend.library.Event(enable_timing=True)
    there = download(torch.ones(2, dtype=torch.uint8, device=NAME))
    event.record(pretend.library.Stream())
    assert there.tolist() == [0xA5, 0xA5]
    event.synchronize()
    assert there.tolist() == [1, 1]


def test_the_first_command_of_make_gpu_goes_through(pretend, monkeypatch, capsys) -> None:
    """With the device in the GPU's place it runs, captures graphs, finds the reference's tokens and says so."""
    pretend.library.stand_in(monkeypatch)
    monkeypatch.setattr(on_gpu, "PRESETS", {"tiny": PRESETS["tiny"]})
    monkeypatch.setattr(on_gpu, "WAYS", on_gpu.WAYS[1:2])
    assert on_gpu.main() == 0
    said = capsys.readouterr().out
    assert "tiny, float64, fast: 150 tokens, 0 with equal bits, 0 wrong" in said  # five requests say 30 each
    assert "section 8, CUDA in float64: token equality holds" in said


def test_a_run_is_recorded_and_verified_on_the_device(pretend, monkeypatch, tmp_path, capsys) -> None:
    """The second command of `make gpu`, on fewer requests: recorded with `--streams cuda`, then verified."""
    pretend.library.stand_in(monkeypatch)
    out = tmp_path / "run"
    options = "--mode fast --streams cuda --scheduler twin --scale 8 --max-new undeclared --pages 49 --host-pages 129"
    options += " --workload poisson:requests=3,rate=8 --mixed --overlap 1 --tokens identity"
    assert tsviz("record", "--model", "tiny", *options.split(), "--out", out) == 0
    assert tsviz("verify", "--with", "twin", out) == 0
    assert {wait.partition(": ")[0] for wait in pretend.waits} <= ONCE
    capsys.readouterr()


def test_the_figures_of_a_gpu_are_taken_on_the_device(pretend, monkeypatch) -> None:
    """E3 goes its whole way as on a GPU, graphs included, on a tiny shape; what it measures says nothing."""
    pretend.library.stand_in(monkeypatch)
    tiny = ModelShape("FF", hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=128, vocabulary=512)
    case = e3_gpu.Case("cuda", torch.bfloat16, tiny, 4, 32, 2, 64, 64, 1 << 16, 2, 8, 4)
    monkeypatch.setattr(e3_gpu, "Case", lambda *_: case)
    monkeypatch.setitem(e3_gpu.LARGER, "smollm2-shape", tiny)
    monkeypatch.setattr(e3_gpu, "_launches", lambda *_: ())  # counts kernels with a profiler of its own
    assert [line.unit for line in e3_gpu.figures()] == [
        "GB/s",
        "x bytes floor",
        "Tflop/s",
        "of the product",
        "tokens/s",
    ]
