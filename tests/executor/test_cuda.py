"""The CUDA back end against a fake library: which stream waits for which event (`executor-rules.md` section 2)."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from bench.e3_gpu import figures
from tests.executor import on_gpu
from tests.executor.fake_cuda import FakeCuda, FakeEvent
from tests.executor.rig import Life, drawn, live
from tests.executor.test_equality import PRESSED
from tsviz.executor.cuda import CudaStreams
from tsviz.executor.shape import BadModel
from tsviz.executor.sizing import PoolOptions
from tsviz.trace.order.ops import Kind, Op, Stream

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def run():
    """A pressed run on the fake device: the library's log and the operations."""
    library = FakeCuda()
    pool = PoolOptions(mixed=True, overlap_schedule_depth=1)
    life = Life(PRESSED, "tiny", pool, 12, host_parents=60, streams=lambda now_ns: CudaStreams(now_ns, library))
    return library, live(life, twin)


def test_the_run_is_right(run) -> None:
    """On the fake device, which runs what it is given at once, every logit is equal and nothing races."""
    _, lived = run
    assert lived.equality.is_exact
    assert lived.races == []


def test_every_wait_of_an_operation_is_a_wait_of_its_stream(run) -> None:
    """An operation's stream waits for the event of everything it waits for that has not happened, and for nothing else.

    What the device is past by then need not be waited for; most of it is not.
    """
    library, lived = run
    names = {stream: i for i, stream in enumerate(s for s in Stream if s is not Stream.HOST)}
    ended: dict[int, FakeEvent] = {}
    past, waits = 0, 0
    calls = iter([c for c in library.calls if c[0] in ("wait", "record", "past")][1:])
    for op in (op for op in lived.ops if op.stream is not Stream.HOST):
        waited, began = set(), None
        while (call := next(calls))[0] != "record" or began is None:
            if call[0] == "past":
                past = call[2]
            elif call[0] == "wait":
                assert (call[1], began) == (names[op.stream], None)
                waited.add(call[2])
            else:
                began = call[2]
                assert call[1] == names[op.stream]
                assert waited <= {ended[n] for n in op.waits}
                assert {ended[n] for n in op.waits if ended[n].at > past} <= waited
        assert call[1] == names[op.stream]
        ended[op.number] = call[2]
        waits += len(waited)
    assert waits > len(lived.ops) // 4


def _waited(ops: list[Op]) -> Counter[tuple[Kind, Kind]]:
    """Hold every operation's waits to the table; count the pairs that it says."""
    waited: Counter[tuple[Kind, Kind]] = Counter()
    forward: list[Op] = []
    for _, of_round in groupby(ops, lambda op: op.round):
        of: dict[Kind, list[Op]] = defaultdict(list)
        for op in of_round:
            loads = [load for load in of[Kind.LOAD] if load.layer in (None, op.layer)]
            expected = {
                Kind.STORE_ORDERED: forward, Kind.STORE_PINNED: forward, Kind.ZERO: forward + of[Kind.STORE_ORDERED],
                Kind.LOAD: forward + of[Kind.ZERO] + of[Kind.STORE_ORDERED], Kind.PROLOGUE: of[Kind.ZERO],
                Kind.LAYER: loads,
            }.get(op.kind, [])  # fmt: skip
            assert {other.number for other in expected} <= set(op.waits)
            waited.update((other.kind, op.kind) for other in expected)
            of[op.kind].append(op)
            forward = [op] if op.stream is Stream.EXEC else forward
    return waited


def test_operations_wait_for_what_the_ordering_table_says(run, tmp_path) -> None:
    """Section 2, row by row: the last forward before a store, a zeroing and a load; ordered stores before zeroing and
    loads; zeroing before loads and the forward; a layer's loads before the layer.

    The second lifetime is drawn, one of few in which a plan stores in order and loads.
    """
    _, lived = run
    drawn_life = replace(drawn(91), aborts=(), streams=lambda now_ns: CudaStreams(now_ns, FakeCuda()))
    waited = _waited(lived.ops) + _waited(live(drawn_life, twin, tmp_path).ops)
    rows = {(Kind.RESULT, Kind.STORE_PINNED), (Kind.RESULT, Kind.STORE_ORDERED), (Kind.RESULT, Kind.ZERO),
            (Kind.STORE_ORDERED, Kind.ZERO), (Kind.RESULT, Kind.LOAD), (Kind.ZERO, Kind.LOAD),
            (Kind.STORE_ORDERED, Kind.LOAD), (Kind.ZERO, Kind.PROLOGUE), (Kind.LOAD, Kind.LAYER)}  # fmt: skip
    assert rows <= set(waited)


def test_nothing_but_a_commit_synchronises(run) -> None:
    """The host waits once a forward, for the copy of its result; every other end is asked for."""
    library, lived = run
    results = [op for op in lived.ops if op.kind is Kind.RESULT]
    assert sum(call[0] == "synchronize" for call in library.calls) == len(results) + 1  # and once for the clock's zero


def test_the_first_operation_waits_for_what_was_made_before_it(run) -> None:
    """Weights, pools and slots lie on the library's own stream: all of it is waited for once, before anything else."""
    library, _ = run
    calls = [call[0] for call in library.calls]
    assert calls.count("everything") == 1
    assert calls[: calls.index("everything")] == ["record", "synchronize", "past"]  # the clock's zero


def test_times_are_read_from_an_event_that_is_not_long_ago() -> None:
    """The distance of events is a 32-bit float of milliseconds; over half an hour of operations, a second and a quarter
    each, every time is right to a microsecond all the same."""
    library, at_ms = FakeCuda(), [0.0]
    streams = CudaStreams(lambda: 7, library)
    when: dict[FakeEvent, float] = {streams._anchor: 0.0}
    library.Event = lambda enable_timing=False: _TimedEvent(library, when, at_ms)
    streams._anchor = _TimedEvent(library, when, at_ms)
    streams._anchor.record(library.streams[0])
    for number in range(1440):
        op = Op(number, 1, Stream.EXEC, Kind.LAYER)
        streams.submit(op, lambda: at_ms.__setitem__(0, at_ms[0] + 1250.25))
        streams.wait(op)
        assert abs(op.end_ns - 7 - at_ms[0] * 1e6) < 1000
        assert abs(op.start_ns - 7 - (at_ms[0] - 1250.25) * 1e6) < 1000


class _TimedEvent(FakeEvent):
    """An event that says what a GPU says of how long ago another was: a 32-bit float."""

    def __init__(self, library, when, at_ms) -> None:
        super().__init__(library, enable_timing=True)
        self._when, self._at_ms = when, at_ms

    def record(self, stream) -> None:
        super().record(stream)
        self._when[self] = self._at_ms[0]

    def elapsed_time(self, other) -> float:
        return float(np.float32(self._when[other] - self._when[self]))


def test_loads_have_a_high_priority() -> None:
    """The load stream alone is made with a priority."""
    library = FakeCuda()
    CudaStreams(lambda: 0, library)
    streams = [stream for stream in Stream if stream not in (Stream.HOST, Stream.BACKUP)]
    assert [s.priority for s in library.streams] == [-1 if s is Stream.LOAD else 0 for s in streams]


def test_without_a_gpu_there_is_one_sentence() -> None:
    """A machine without a GPU is told so."""
    library = FakeCuda()
    library.is_available = lambda: False
    with pytest.raises(BadModel, match="no CUDA device"):
        CudaStreams(lambda: 0, library)


@pytest.mark.parametrize(
    ("way", "draft_layers"),
    [(on_gpu.WAYS[0], 0), (on_gpu.WAYS[1], 0), (on_gpu.WAYS[1], 1)],
    ids=["exact", "fast", "drafting"],
)
def test_the_checks_for_a_gpu_pass_on_a_cpu(way, draft_layers, capsys) -> None:
    """What `make gpu` compares first holds here too: five requests say 30 tokens each."""
    assert on_gpu.check("tiny", way, "cpu", draft_layers) is None
    assert f": {5 * 30} tokens" in capsys.readouterr().out


def test_the_figures_of_a_gpu_are_taken_on_a_cpu_too(monkeypatch) -> None:
    """E3 runs with a tiny shape: bandwidth, decode, product, prefill, an engine and launches, none with a budget."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    lines = list(figures())
    assert [line.unit for line in lines] == [
        "GB/s", "x bytes floor", "Tflop/s", "of the product", "tokens/s", "operators a step",
    ]  # fmt: skip
    assert all(line.value > 0 and line.budget is None for line in lines)


def test_the_checks_for_a_gpu_end_in_one_sentence_without_one(monkeypatch, capsys) -> None:
    """`make gpu` begins with them: exit code 2, and what is missing."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert on_gpu.main() == 2
    assert capsys.readouterr().err == "make gpu needs an NVIDIA GPU that torch can use: there is no CUDA device here\n"
