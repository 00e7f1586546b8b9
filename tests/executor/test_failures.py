"""The failure catalogue: each mistake is made once, and the query of docs/failures.md finds it and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import Life, live, record, with_device
from tests.executor.test_equality import PRESSED, SHARED
from tsviz.api import open_trace
from tsviz.engine.faults import AckFaults
from tsviz.executor.options import Edge, Fault
from tsviz.executor.pending import DummyPage
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.virtual import Policy, VirtualStreams

torch.set_num_threads(1)
CATALOGUE = (Path(__file__).resolve().parents[2] / "docs" / "failures.md").read_text()
ENTRIES = {int(n): re.findall(r"```sql\n(.*?)```", text, re.S)
           for n, text in re.findall(r"^### (\d+)\.(.*?)(?=^##|\Z)", CATALOGUE, re.M | re.S)}  # fmt: skip
QUERIES = {n: q for n, entry in ENTRIES.items() for q in entry if "page_c" not in q}
"""What finds an entry in any trace."""
CRC_QUERIES = {n: q for n, entry in ENTRIES.items() for q in entry if "page_c" in q}
"""What finds it in a trace with page checksums."""


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
    (5, TINY, {"omitted": frozenset({Edge.EXEC_STORE})}),
    (6, TINY, {"omitted": frozenset({Edge.EXEC_ZERO})}),
    (7, life(SHARED, "tiny-sliding", 20), {"faults": frozenset({Fault.ZERO_PARENT})}),
    (8, TINY, {"omitted": frozenset({Edge.LOAD_FORWARD})}),
    (10, REPLAY, {"faults": frozenset({Fault.REPLAY_WRITES})}),
    (13, life(SHARED, "tiny-state", 40), {"faults": frozenset({Fault.CHECKPOINT_GRAIN})}),
    (15, WIDE, {"faults": frozenset({Fault.DROPPED_TOKEN})}),
    (23, TINY, {"acks": AckFaults(lost_ops=frozenset({1}))}),
    (24, TINY, {"faults": frozenset({Fault.EARLY_ACK})}),
    (24, STORING, {"faults": frozenset({Fault.EARLY_ACK})}),
]
"""Number in the catalogue, lifetime, what its device does wrong."""


def found(number: int, bundle: Path, queries=QUERIES) -> int:
    """How many rows the query of an entry gives on a trace."""
    return open_trace(bundle).sql(queries[number]).num_rows


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """Traces of the lifetimes without a mistake, made when first asked for."""
    made: dict[int, Path] = {}

    def of(number: int, lifetime: Life) -> Path:
        key = id(lifetime)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("clean") / "run"
            assert record(lifetime, twin, made[key], tmp_path_factory.mktemp("files")).equality.is_exact
        return made[key]

    return of


@pytest.mark.parametrize(
    ("number", "lifetime", "changes"), MADE, ids=[f"{m[0]}{' with storage' * m[1].pool.storage}" for m in MADE]
)
def test_the_query_of_an_entry_finds_it_and_nothing_else(number, lifetime, changes, clean, tmp_path) -> None:
    """With the mistake the query has rows; without it none."""
    record(with_device(lifetime, **changes), twin, tmp_path / "run", tmp_path / "files")
    assert found(number, tmp_path / "run") > 0
    assert found(number, clean(number, lifetime)) == 0


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
def test_a_live_row_on_the_dummy_page_ends_the_run(lifetime, writes, tmp_path) -> None:
    """A hole in the table of the first decode is told by round and writes, and the trace has what came before."""
    spoilt = with_device(lifetime, faults=frozenset({Fault.TABLE_HOLE}))
    with pytest.raises(DummyPage, match=f"^round 2: {writes} writes of live rows on the dummy page; expected none$"):
        record(spoilt, twin, tmp_path / "run")
    assert open_trace(tmp_path / "run").sql("FROM operations WHERE kind = 'decode' AND round = 2").num_rows == 1


@pytest.mark.parametrize(
    ("fault", "lifetime"),
    [
        (Fault.STATE_IN_PLACE, life(SHARED, "tiny-state", 40)),
        (Fault.REJECTED_STATE, life(SHARED, "tiny-state", 40, width=3)),
        (Fault.SHARED_STAGING, life(SHARED, "tiny", 40)),
        (Fault.HOST_VALID, WIDE),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
def test_a_mistake_without_a_mark_is_found_by_tokens(fault, lifetime) -> None:
    """The comparison with the dense reference finds what leaves no structural mark."""
    assert not live(with_device(lifetime, faults=frozenset({fault})), twin).equality.is_exact
