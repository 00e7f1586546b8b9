"""docs/failures.md as a whole: every entry is there, every query is asked, and healthy traces at once have no rows."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor import test_failures, test_loop_mistakes, test_page_crcs
from tests.executor.catalogue import CRC_QUERIES, ENTRIES, QUERIES, SECTIONS, found
from tests.executor.conftest import tsviz
from tests.executor.pairs import Pair, run_pair
from tests.executor.rig import record, with_device
from tsviz.executor.options import DeviceOptions, Fault
from tsviz.executor.pending import DummyPage
from tsviz.executor.sizing import PoolOptions

ASKED = {number for number, *_ in test_failures.MADE + test_loop_mistakes.MADE} | {
    9,
    11,
    25,
    26,
    27,
    28,
    29,
    30,
    31,
    32,
}
"""Numbers whose query a test asks: those in a table of mistakes, and those with a test of their own."""
ASKED_BY_CHECKSUMS = {n for n, *_ in test_page_crcs.MADE} | {29}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """Traces without a mistake: both nodes of a pair, an engine with all tiers that retracts, one with states."""
    out, crcs = tmp_path_factory.mktemp("healthy"), DeviceOptions(page_crcs=True)
    wide = PoolOptions(decode_input_tokens=3, overlap_schedule_depth=1)
    paired = run_pair(Pair("tiny-replay", pool=wide, on_d=crcs, on_p=crcs), out)
    storing = replace(test_failures.STORING, requests=test_failures.TINY.requests)
    lives = {"tiers": with_device(storing, page_crcs=True), "states": test_page_crcs.WIDE_STATE}
    lived = [record(life, twin, out / name, tmp_path_factory.mktemp("files")) for name, life in lives.items()]
    assert all(run.equality.is_exact for run in (paired, *lived))
    return [out / name for name in ("P", "D", *lives)]


def test_the_catalogue_has_every_entry() -> None:
    """Each of the 32 mistakes of the design has a section with a query on its structure or its checksums."""
    assert set(range(1, 33)) == ENTRIES == set(QUERIES) | set(CRC_QUERIES)


def test_every_query_is_asked_of_the_mistake_that_it_finds() -> None:
    """No entry has a query that no test makes find something."""
    assert (set(QUERIES), set(CRC_QUERIES)) == (ASKED, ASKED_BY_CHECKSUMS)


@pytest.mark.parametrize("title", [title for title, queries in SECTIONS.items() if queries])
def test_healthy_traces_all_at_once_have_no_rows(title, healthy) -> None:
    """Operations, rounds and submissions are numbered anew in each trace and node: no query mixes them."""
    assert [found(query, *healthy) for query in SECTIONS[title]] == [{}] * len(SECTIONS[title])


def test_the_command_says_whose_a_row_is(healthy, tmp_path, capfd) -> None:
    """`tsviz sql` on a spoilt trace among healthy ones prints rows of the spoilt one, which names itself."""
    spoilt = with_device(test_failures.TINY, faults=frozenset({Fault.TABLE_HOLE}))
    with pytest.raises(DummyPage):
        record(spoilt, twin, tmp_path / "spoilt")
    assert tsviz("sql", healthy[0], tmp_path / "spoilt", *healthy[1:], QUERIES[30], "--format", "csv") == 0
    rows = list(csv.DictReader(capfd.readouterr().out.splitlines()))
    assert {(row["trace"], row["node"]) for row in rows} == {("spoilt", "F")}
