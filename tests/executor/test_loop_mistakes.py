"""Mistakes of an event loop in the failure catalogue: the scheduler is told something else, and a query finds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.catalogue import QUERIES, reveals
from tests.executor.rig import Life, live, record, request, with_device
from tests.executor.test_equality import PRESSED, SHARED
from tsviz.engine.events import Event, Extended, Reserved, Retracted
from tsviz.engine.loop import EventLoop
from tsviz.engine.summary import EndReason
from tsviz.executor.device import ExecutorDevice
from tsviz.executor.options import Fault
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.slots import Drafter
from tsviz.executor.store import StoreFaults
from tsviz.executor.virtual import Policy, VirtualStreams

torch.set_num_threads(1)
WIDE = Life(SHARED, "tiny", PoolOptions(mixed=True, overlap_schedule_depth=1, decode_input_tokens=3), 40)
CHUNKED = Life(PRESSED, "tiny", PoolOptions(mixed=True, overlap_schedule_depth=1, max_scheduled_tokens=8), 12)
ANEW = Life(
    (
        request("r0", (100, 16), (200, 8), says=4), request("r1", (101, 16), (202, 4), says=5, at_ms=8),
        request("r2", (101, 16), (200, 7), says=4, at_ms=16), request("r3", (100, 16), (200, 2), says=3, at_ms=120),
        request("r4", (102, 16), (203, 4), says=3, at_ms=160),
    ),
    "tiny", PoolOptions(8, 40, 2, 1, 1, mixed=True, storage=True), 5, 5, faults=StoreFaults(323, 0.5),
)  # fmt: skip
"""A lifetime, on its store again, in which a page is gone, is put anew, and is fetched later."""
MISSING = Life(
    (
        request("r0", (101, 16), says=12, declared=14), request("r1", (101, 16), (203, 2), says=11, at_ms=12),
        request("r2", (101, 16), (200, 3), says=11, at_ms=24), request("r3", (100, 20), (203, 7), says=10, at_ms=27),
    ),
    "tiny", PoolOptions(8, 16, 3, 3, 1, mixed=True, storage=True), 12, 16, Drafter.BAD, 1,
    faults=StoreFaults(1017, 0.5, 0.1), streams=lambda now_ns: VirtualStreams(now_ns, 665796413, Policy.ROUND_ROBIN),
)  # fmt: skip
"""A lifetime, the second one on its store, in which a page is gone while an older result of the same request is out."""


def without_reserves(events):
    """The loop forgets to say how many tokens the next decode may take."""
    return [event for event in events if not isinstance(event, Reserved)]


def without_empty_results(events):
    """The loop forgets chunks that gave no token."""
    return [event for event in events if not isinstance(event, Extended) or event.tokens]


def twice(events):
    """The loop tells the results of one request twice."""
    return [e for event in events for e in [event] * (1 + (isinstance(event, Extended) and event.request_id == "r2"))]


def retracts_first(events):
    """The loop tells retractions before the results that are older."""
    return sorted(events, key=lambda event: not isinstance(event, Retracted))


MADE = [
    (16, WIDE, without_reserves, EndReason.DRAINED),
    (17, CHUNKED, without_empty_results, EndReason.STALLED),
    (18, WIDE, twice, EndReason.SCHEDULER_RAISED),
    (19, MISSING, retracts_first, EndReason.SCHEDULER_RAISED),
]
"""Number in the catalogue, lifetime, what the loop does to its events, how the run ends of it."""


@pytest.mark.parametrize(("number", "life", "meddle", "ending"), MADE, ids=[str(m[0]) for m in MADE])
def test_the_query_of_a_loops_mistake_finds_it_and_nothing_else(number, life, meddle, ending, tmp_path) -> None:
    """With the mistake the run ends as the catalogue says and the query has rows, the same beside a run without it."""
    clean = record(life, twin, tmp_path / "clean", tmp_path / "store")
    assert clean.equality.is_exact
    assert clean.summary.reason is EndReason.DRAINED
    lived = record(life, twin, tmp_path / "spoilt", tmp_path / "store", meddle=meddle)
    assert lived.summary.reason is ending
    assert reveals(QUERIES[number], tmp_path / "spoilt", tmp_path / "clean")


def test_a_table_of_the_round_before_reads_pages_of_others(tmp_path) -> None:
    """A request whose pages were swapped for the cached ones goes on reading the old ones, which others are granted."""
    requests = (
        request("r0", (100, 20), says=9), request("r1", (100, 16), says=9, declared=14),
        request("r2", (101, 8), (200, 8), says=7, declared=14), request("r3", (100, 16), says=14, at_ms=3),
        request("r4", (101, 20), (203, 6), says=12, at_ms=6), request("r5", (100, 16), (202, 9), says=9, at_ms=6),
        request("r6", (100, 8), (203, 1), says=4, at_ms=18),
    )  # fmt: skip
    life = Life(requests, "tiny", PoolOptions(8, 40, 4, 3, 1, mixed=True), 12, 60)
    assert record(life, twin, tmp_path / "clean").equality.is_exact
    stale = with_device(life, faults=frozenset({Fault.STALE_TABLE}))
    assert record(stale, twin, tmp_path / "spoilt").equality.wrong > 0
    assert reveals(QUERIES[9], tmp_path / "spoilt", tmp_path / "clean")


def test_answers_of_storage_that_outlive_their_round_are_found(tmp_path, monkeypatch) -> None:
    """A page that was missing once is never there again for such a loop: its request is retracted without end."""
    prefetch = ExecutorDevice.prefetch_storage

    def remembers(self, keys):
        fetched, known = prefetch(self, keys), answers.setdefault(self, {})
        for key in keys:
            known.setdefault(key, key not in fetched.missing)
        return replace(fetched, missing=frozenset(key for key in keys if not known[key]))

    live(ANEW, twin, tmp_path / "store")
    clean = record(ANEW, twin, tmp_path / "clean", tmp_path / "store")
    assert (clean.equality.is_exact, clean.summary.reason) == (True, EndReason.DRAINED)
    answers = {}
    monkeypatch.setattr(ExecutorDevice, "prefetch_storage", remembers)
    spoilt = record(ANEW, twin, tmp_path / "spoilt", tmp_path / "store")
    assert spoilt.summary.reason is EndReason.MAX_ROUNDS
    assert reveals(QUERIES[25], tmp_path / "spoilt", tmp_path / "clean")


class CommitsFirst(EventLoop):
    """A loop that commits before it looks up the requests of its batch."""

    _early: Sequence[Event] = ()

    def _prefetch(self, planned):
        fetched = yield from super()._prefetch(planned)
        self._early = []
        yield from super()._commit_down_to(0, self._early)
        return fetched

    def _commit_down_to(self, depth, tail):
        tail += self._early
        return super()._commit_down_to(depth, tail)


def test_a_commit_before_the_batch_was_looked_up_is_found(tmp_path, monkeypatch) -> None:
    """With a result in flight the first request to end is in the batch that was planned meanwhile: it is not found."""
    assert record(WIDE, twin, tmp_path / "clean").equality.is_exact
    monkeypatch.setattr("tsviz.executor.engine.EventLoop", CommitsFirst)
    with pytest.raises(KeyError, match=r"^'r0'$"):
        record(WIDE, twin, tmp_path / "spoilt")
    assert reveals(QUERIES[32], tmp_path / "spoilt", tmp_path / "clean")
