"""The failure catalogue: each mistake is made once, and the query of docs/failures.md finds it and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.catalogue import QUERIES, reveals
from tests.executor.rig import Life, live, record, with_device
from tests.executor.test_equality import PRESSED, SHARED
from tsviz.engine.faults import AckFaults
from tsviz.executor.options import Edge, Fault
from tsviz.executor.pending import DummyPage
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.streams import InlineStreams
from tsviz.executor.virtual import Policy, VirtualStreams

torch.set_num_threads(1)


def late(now_ns):
    """Streams that run everything as late as they may."""
    return VirtualStreams(now_ns, 1, Policy.LATEST)


def life(requests, model: str, parents: int, width: int = 1) -> Life:
    """A lifetime without a mistake."""
    pool = PoolOptions(mixed=True, overlap_schedule_depth=1, decode_input_tokens=width)
    return Life(requests, model, pool, parents, host_parents=60, streams=late)


TINY, STATE, REPLAY = life(PRESSED, "tiny", 10), life(SHARED, "tiny-state", 20), life(SHARED, "tiny-replay", 40)
WIDE = life(SHARED, "tiny", 40, width=3)
STORING = replace(TINY, requests=SHARED, pool=replace(TINY.pool, storage=True))
MADE = [
    (1, TINY, {"omitted": frozenset({Edge.STORE_ZERO})}),
    (2, TINY, {"omitted": frozenset({Edge.STORE_LOAD, Edge.ZERO_LOAD})}),
    (3, TINY, {"faults": frozenset({Fault.FENCE_PINNED})}),
    (4, TINY, {"faults": frozenset({Fault.TAKEN_FOR_PINNED})}),
    (5, TINY, {"omitted": frozenset({Edge.EXEC_STORE})}),
    (6, TINY, {"omitted": frozenset({Edge.EXEC_ZERO})}),
    (7, life(SHARED, "tiny-sliding", 20), {"faults": frozenset({Fault.ZERO_PARENT})}),
    (8, TINY, {"omitted": frozenset({Edge.LOAD_FORWARD})}),
    (10, REPLAY, {"faults": frozenset({Fault.REPLAY_WRITES})}),
    (13, life(SHARED, "tiny-state", 40), {"faults": frozenset({Fault.CHECKPOINT_GRAIN})}),
    (15, WIDE, {"faults": frozenset({Fault.DROPPED_TOKEN})}),
    (20, WIDE, {"faults": frozenset({Fault.HOST_VALID})}),
    (23, TINY, {"acks": AckFaults(lost_ops=frozenset({1}))}),
    (24, TINY, {"faults": frozenset({Fault.EARLY_ACK})}),
    (24, STORING, {"faults": frozenset({Fault.EARLY_ACK})}),
]
"""Number in the catalogue, lifetime, what its device does wrong."""


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """Traces of the lifetimes without a mistake, made when first asked for."""
    made: dict[int, Path] = {}

    def of(lifetime: Life) -> Path:
        key = id(lifetime)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("runs") / "clean"
            assert record(lifetime, twin, made[key], tmp_path_factory.mktemp("files")).equality.is_exact
        return made[key]

    return of


@pytest.mark.parametrize(
    ("number", "lifetime", "changes"), MADE, ids=[f"{m[0]}{' with storage' * m[1].pool.storage}" for m in MADE]
)
def test_the_query_of_an_entry_finds_it_and_nothing_else(number, lifetime, changes, clean, tmp_path) -> None:
    """With the mistake the query has rows, the same beside a run without it, which has none."""
    record(with_device(lifetime, **changes), twin, tmp_path / "spoilt", tmp_path / "files")
    assert reveals(QUERIES[number], tmp_path / "spoilt", clean(lifetime))


@pytest.mark.parametrize(
    ("lifetime", "writes"),
    [
        (TINY, 1 * 2),  # a row at position 10, on its last page, in both layers
        (WIDE, 2 * 2),  # a window at 23, 24 and 25: the last page of 8 holds two of them
        (replace(TINY, fast=True), 1 * 2),
        (life(SHARED, "tiny-sliding", 40), 1 * 2),
        (life(SHARED, "tiny-replay", 40), 1 * 3),
    ],
    ids=["layer by layer", "a window of three", "one step", "a sliding layer", "a replayable layer"],
)
def test_a_live_row_on_the_dummy_page_ends_the_run(lifetime, writes, clean, tmp_path) -> None:
    """A hole in the table of the first decode is told by round and writes; the trace has that forward, and shows it."""
    spoilt = with_device(lifetime, faults=frozenset({Fault.TABLE_HOLE}))
    with pytest.raises(DummyPage, match=f"^round 2: {writes} writes of live rows on the dummy page; expected none$"):
        record(spoilt, twin, tmp_path / "spoilt")
    assert reveals(QUERIES[30], tmp_path / "spoilt", clean(TINY))


def test_an_ordered_store_that_nothing_waits_for_costs_tokens_only_while_copies_are_slow() -> None:
    """Entry 4: run as soon as it is queued it has copied what it should; as late as it may it has not."""
    spoilt = with_device(TINY, faults=frozenset({Fault.TAKEN_FOR_PINNED}))
    assert live(replace(spoilt, streams=InlineStreams), twin).equality.is_exact
    assert live(spoilt, twin).equality.wrong > 0


def test_a_slot_that_is_not_reset_costs_no_token() -> None:
    """Entry 21: a completing chunk writes its slot's inputs anew, and candidates are verified."""
    assert live(with_device(WIDE, faults=frozenset({Fault.SLOT_KEPT})), twin).equality.is_exact


def test_replayed_rows_that_see_too_much_cost_tokens_where_the_window_is_declared_too_short(clean, tmp_path) -> None:
    """Entry 11: declared as its layers need it no token is wrong, and the query finds it; too short, four requests are.

    With two layers of window 6 the replay begins inside a page of 4: what they see below it is poison.
    """
    sees = {"faults": frozenset({Fault.REPLAY_SEES})}
    assert record(with_device(REPLAY, **sees), twin, tmp_path / "spoilt").equality.is_exact
    assert reveals(QUERIES[11], tmp_path / "spoilt", clean(REPLAY))
    short = replace(life(SHARED, "tiny-replay-short", 40), seed=3)
    assert [live(with_device(short, **changes), twin).equality.wrong for changes in ({}, sees)] == [0, 4]


@pytest.mark.parametrize(
    ("fault", "lifetime"),
    [
        (Fault.STATE_IN_PLACE, life(SHARED, "tiny-state", 40)),
        (Fault.REJECTED_STATE, life(SHARED, "tiny-state", 40, width=3)),
        (Fault.SHARED_STAGING, life(SHARED, "tiny", 40)),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
def test_a_mistake_without_a_mark_is_found_by_tokens(fault, lifetime) -> None:
    """The comparison with the dense reference finds what leaves no structural mark."""
    assert not live(with_device(lifetime, faults=frozenset({fault})), twin).equality.is_exact
