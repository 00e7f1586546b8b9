"""Mistakes of an event loop in the failure catalogue: the scheduler is told something else, and a query finds it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import Life, record, request, with_device
from tests.executor.test_equality import PRESSED, SHARED
from tests.executor.test_failures import MADE as OF_DEVICE
from tests.executor.test_failures import QUERIES, found
from tsviz.engine.events import Extended, Reserved, Retracted
from tsviz.engine.summary import EndReason
from tsviz.executor.options import Fault
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.slots import Drafter
from tsviz.executor.store import StoreFaults
from tsviz.executor.virtual import Policy, VirtualStreams

torch.set_num_threads(1)
WIDE = Life(SHARED, "tiny", PoolOptions(mixed=True, overlap_schedule_depth=1, decode_input_tokens=3), 40)
CHUNKED = Life(PRESSED, "tiny", PoolOptions(mixed=True, overlap_schedule_depth=1, max_scheduled_tokens=8), 12)
OF_PAIRS = {27, 28, 29, 31}
"""Entries that `test_pair_mistakes.py` makes."""
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
    """With the mistake the query has rows and the run ends as the catalogue says; without it none."""
    clean = record(life, twin, tmp_path / "clean", tmp_path / "store")
    assert clean.equality.is_exact
    assert clean.summary.reason is EndReason.DRAINED
    assert found(number, tmp_path / "clean") == 0
    lived = record(life, twin, tmp_path / "run", tmp_path / "store", meddle=meddle)
    assert lived.summary.reason is ending
    assert found(number, tmp_path / "run") > 0


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
    assert found(9, tmp_path / "clean") == 0
    stale = with_device(life, faults=frozenset({Fault.STALE_TABLE}))
    lived = record(stale, twin, tmp_path / "run")
    assert lived.equality.wrong > 0
    assert found(9, tmp_path / "run") > 0


def test_every_query_of_the_catalogue_is_asked() -> None:
    """No entry has a query that nothing tries."""
    assert set(QUERIES) == {number for number, *_ in MADE + OF_DEVICE} | {9} | OF_PAIRS
