"""Checksums of pages in a trace: what the catalogue says that they reveal, they reveal, and nothing in a clean run."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.catalogue import CRC_QUERIES, OF_STORAGE, ON_THE_WAY, reveals
from tests.executor.conftest import tsviz
from tests.executor.pairs import Pair, a_page_of_a_comes_broken, run_pair
from tests.executor.rig import Life, record, request, with_device
from tests.executor.test_equality import SHARED
from tests.executor.test_failures import TINY, life
from tsviz.api import open_trace
from tsviz.executor.arena import Arena
from tsviz.executor.options import DeviceOptions, Edge, Fault
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.store import PageStore
from tsviz.executor.virtual import Policy, VirtualStreams

torch.set_num_threads(1)


def in_turn(now_ns):
    """Streams that run whatever may run, one after the other."""
    return VirtualStreams(now_ns, 1, Policy.ROUND_ROBIN)


FEW = SHARED[:3]
WIDE_STATE = life(FEW, "tiny-state", 40, width=3)
EAGER = Life(TINY.requests, "tiny", TINY.pool, TINY.parents, host_parents=60, streams=in_turn)
MADE = [
    (2, TINY, {"omitted": frozenset({Edge.STORE_LOAD, Edge.ZERO_LOAD})}),
    (5, EAGER, {"omitted": frozenset({Edge.EXEC_STORE})}),
    (7, life(FEW, "tiny-sliding", 20), {"faults": frozenset({Fault.ZERO_PARENT})}),
    (12, life(SHARED, "tiny-state", 40), {"faults": frozenset({Fault.STATE_IN_PLACE})}),
    (14, WIDE_STATE, {"faults": frozenset({Fault.REJECTED_STATE})}),
    (21, life(SHARED, "tiny", 40, width=3), {"faults": frozenset({Fault.SLOT_KEPT})}),
    (22, life(FEW, "tiny", 40), {"faults": frozenset({Fault.SHARED_STAGING})}),
]
"""Number in the catalogue, lifetime, what its device does wrong."""


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """Traces with checksums of two lifetimes without a mistake, and what became of them."""
    made = {}
    for name, lifetime in (("retractions", EAGER), ("states", WIDE_STATE)):
        made[name] = tmp_path_factory.mktemp("runs") / name
        lived = record(with_device(lifetime, page_crcs=True), twin, made[name])
        assert (lived.equality.is_exact, lived.races) == (True, [])
    return made


@pytest.mark.parametrize(("number", "lifetime", "changes"), MADE, ids=[str(m[0]) for m in MADE])
def test_checksums_reveal_an_entry(number, lifetime, changes, clean, tmp_path) -> None:
    """The query of the entry on checksums has rows for the mistake, the same beside a run without one."""
    record(with_device(lifetime, page_crcs=True, **changes), twin, tmp_path / "spoilt")
    assert reveals(CRC_QUERIES[number], tmp_path / "spoilt", clean["retractions"])


@pytest.mark.parametrize("name", ["retractions", "states"])
def test_no_block_of_a_clean_run_is_found_otherwise_than_it_was_left(name, clean) -> None:
    """Without a mistake no query on checksums has rows; layers have found blocks and left some, and all is right."""
    trace = open_trace(clean[name])
    assert [number for number, query in CRC_QUERIES.items() if trace.sql(query).num_rows] == []
    assert trace.sql("FROM page_changes").num_rows == 0
    kinds = trace.sql("SELECT DISTINCT kind, writes FROM page_crcs JOIN device_ops USING (op) WHERE page IS NOT NULL")
    assert {("layer", False), ("layer", True), ("zero", True), ("store_pinned", False)} <= {
        (row["kind"], row["writes"]) for row in kinds.to_pylist()
    }


def test_pages_that_the_peer_wrote_into_too_late_are_found(tmp_path, monkeypatch) -> None:
    """Six blocks hold one of two prompts: told of a failure too early, the second one's are written by the first's."""
    requests = (request("a", (1, 27), says=4), request("b", (2, 27), says=4))
    a_page_of_a_comes_broken(monkeypatch)
    for name, faults in (("clean", frozenset()), ("spoilt", frozenset({Fault.EARLY_FAILURE}))):
        streams = lambda now_ns: VirtualStreams(now_ns, 1, Policy.LATEST)  # noqa: E731
        device = DeviceOptions(faults=faults, page_crcs=True)
        run_pair(Pair("tiny", requests, parents=6, on_d=device, streams=streams), tmp_path / name)
    assert reveals(CRC_QUERIES[29], tmp_path / "spoilt", tmp_path / "clean")


@pytest.mark.parametrize("layerwise", [False, True], ids=["whole", "layerwise"])
def test_a_page_that_changes_between_two_nodes_is_found(layerwise, tmp_path, monkeypatch) -> None:
    """Both nodes record what travels: equal in a clean run, and not where the decode node's memory spoils it.

    Both pairs at once give the rows of the one that is spoilt.
    """
    write = Arena.write_block

    def spoilt(self, group, page, packed, layer=None):
        write(self, group, page, packed ^ (page == 3), layer)

    for spoils in (False, True):
        if spoils:
            monkeypatch.setattr(Arena, "write_block", spoilt)
        out, device = tmp_path / str(spoils), DeviceOptions(page_crcs=True)
        run_pair(Pair("tiny-state", layerwise=layerwise, on_d=device, on_p=device), out)
        both = open_trace(out / "P", out / "D")
        assert both.sql("FROM page_crcs WHERE space = 'wire' AND node = 'D'").num_rows > 0
        assert bool(both.sql(ON_THE_WAY).num_rows) is spoils
    assert reveals(ON_THE_WAY, tmp_path / "True", tmp_path / "False")


def test_a_stored_page_that_comes_back_otherwise_is_found(tmp_path, monkeypatch) -> None:
    """What a second engine fetches is what the first put; with a store that gives other bytes the query has rows."""
    pool, get = PoolOptions(storage=True), PageStore.batch_get
    lifetime = with_device(Life(FEW[:1], "tiny", pool, 40, host_parents=40), page_crcs=True)
    runs = [tmp_path / name for name in ("first", "second", "spoilt")]
    for run in runs:
        if run.name == "spoilt":
            monkeypatch.setattr(
                PageStore, "batch_get", lambda self, keys: [d and d[:-1] + b"\1" for d in get(self, keys)]
            )
        record(lifetime, twin, run, tmp_path / "files")
    assert open_trace(runs[1]).sql("FROM page_crcs WHERE space = 'storage' AND NOT writes").num_rows > 0
    assert open_trace(*runs[:2]).sql(OF_STORAGE).num_rows == 0
    assert open_trace(*runs).sql(OF_STORAGE).num_rows > 0


def test_record_has_an_option_for_them(tmp_path, capfd) -> None:
    """`record --model --page-crcs` writes the table; with identity tokens it is refused, since it is content."""
    words = ("record", "--model", "tiny", "--scheduler", "twin", "--workload", "poisson:requests=2,rate=100",
             "--scale", "200", "--pages", "40", "--page-crcs")  # fmt: skip
    assert tsviz(*words, "--out", tmp_path / "run") == 0
    assert open_trace(tmp_path / "run").sql("FROM page_crcs").num_rows > 0
    assert tsviz(*words, "--tokens", "identity", "--out", tmp_path / "x") == 2
    assert "--page-crcs needs --tokens full" in capfd.readouterr().err
