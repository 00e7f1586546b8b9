"""Level `calls`: what is not recorded is said to be missing, and made again from the calls and proven."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tsviz as library
from tests.cli.conftest import Tsviz
from tests.trace.lives import record
from tsviz.cli.level import not_recorded
from tsviz.cli.main import main
from tsviz.replay.identity import identity
from tsviz.replay.reexecution.filled import fill, filled
from tsviz.replay.view import open_view
from tsviz.scheduler import compat
from tsviz.trace.catalogue import PLAN_TABLES
from tsviz.trace.reader import open_bundle
from tsviz.trace.whole import WholePart, last_call, write_whole
from tsviz.tui.panes.states import being_indexed

RUN = ("record", "--workload", "poisson:requests=12,rate=60,prompt_tokens=60,output_tokens=20", "--pages", "33",
       "--host-pages", "33", "--max-new", "undeclared", "--scheduler", "twin")  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run, recorded with its calls and with its plans."""
    folder = tmp_path_factory.mktemp("runs")
    for level in ("calls", "plans"):
        with pytest.raises(SystemExit) as ended:
            main([*RUN, "--level", level, "--out", str(folder / level)])
        assert not ended.value.code
    return folder


@pytest.fixture
def pair(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both recordings, of which nothing was made again yet."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    return runs


def test_what_only_calls_were_recorded_of_says_what_is_missing(tsviz: Tsviz, pair: Path) -> None:
    """SQL finds no row and says why, the screen says it, and `verify` compares every digest all the same."""
    asked = tsviz("sql", pair / "calls", "SELECT count(*) AS n FROM operations", "--format", "csv")
    assert asked.out.split() == ["n", "0"]
    assert "not recorded at level calls: operations, table_changes, zeroed, transfers" in asked.err
    told, whole = (tsviz("info", "--json", pair / level).json()["parts"][0] for level in ("calls", "plans"))
    assert told["level"] == "calls"
    assert told["rows"] == whole["rows"] > 0
    snapshot = open_view(open_bundle(pair / "calls")).snapshot(3)
    assert snapshot.preparing is not None and not snapshot.requests
    said = being_indexed(snapshot.preparing, 200)
    assert "Not recorded at this level (calls)" in said.line(1).text
    (row,) = tsviz("verify", pair / "calls", "--with", "twin", "--format", "json").json()
    assert row["outcome"] == "equal" and row["verified_rounds"] == row["recorded_rounds"] > 50


def test_plans_made_again_are_the_plans_that_were_made(tsviz: Tsviz, pair: Path) -> None:
    """Behind `index` every plan table of the run that recorded its calls has the rows of the one with its plans."""
    assert tsviz("index", pair / "calls").code == 0
    made, recorded = (library.open(pair / level) for level in ("calls", "plans"))
    for name in PLAN_TABLES:
        left, right = (trace.bundles[0].parts[0].table(name).to_pylist() for trace in (made, recorded))
        assert left == right
    assert made.bundles[0].parts[0].rows("operations") > 0
    for trace, level in ((made, "calls"), (recorded, "plans")):
        assert trace.parts["level"].to_pylist() == [level]
    assert made.parts["decisions"].to_pylist() == ["derived"]
    assert not_recorded([str(pair / "calls")]) == []
    assert open_bundle(pair / "calls").parts[0].rows("operations") == 0


def test_it_is_the_same_trace_once_its_plans_were_made(pair: Path) -> None:
    """Questions asked from an open screen find it, before and behind; the run recorded with its plans is another."""
    recorded = open_bundle(pair / "calls")
    made, _ = fill(recorded)
    assert made.parts[0].level == "plans"
    assert identity(made, made.parts[0]) == identity(recorded, recorded.parts[0])
    other = open_bundle(pair / "plans")
    assert identity(other, other.parts[0]) != identity(recorded, recorded.parts[0])


def test_a_command_that_needs_plans_makes_them(tsviz: Tsviz, pair: Path, tmp_path: Path) -> None:
    """`why` and `slice` of a trace of calls answer as of one with plans."""
    answers = [tsviz("blame", pair / level, "--format", "csv") for level in ("calls", "plans")]
    assert [each.code for each in answers] == [0, 0]
    kept = [[line.split(",")[:3] for line in each.out.splitlines()] for each in answers]
    assert kept[0] == kept[1] and len(kept[0]) > 1
    assert tsviz("slice", pair / "calls", "5:9", "--out", tmp_path / "slice").code == 0
    assert tsviz("verify", tmp_path / "slice", "--format", "json").json()[0]["verified_rounds"] == 5


def test_nothing_is_made_behind_a_round_that_is_not_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a digest of round 6 was changed, five rounds are there, and the trace with its plans ends with them."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    record(compat, tmp_path / "a", 7)
    part = open_bundle(tmp_path / "a").parts[0]
    tables = {name: part.table(name) for name in part.tables()} | {
        name: part.table(name).slice(0, 0) for name in PLAN_TABLES
    }
    rounds, column = tables["rounds"], tables["rounds"].schema.get_field_index("digest_structural")
    digests = [0 if row["round"] == 6 else row["digest_structural"] for row in rounds.to_pylist()]
    tables["rounds"] = rounds.set_column(column, rounds.schema.field(column), pa.array(digests, pa.uint64()))
    description = open_bundle(tmp_path / "a").description
    meta = {**part.meta, "level": "calls"}
    whole = WholePart(meta, tables, part.last_round, last_call(tables["calls"]))
    write_whole(tmp_path / "b", description, [whole], {"error": None})
    made, (index,) = fill(open_bundle(tmp_path / "b"))
    assert index.divergence is not None and (index.divergence.round, index.last_round) == (6, 5)
    assert made.parts[0].last_round == 5
    assert filled(open_bundle(tmp_path / "b")).parts[0].rows("rounds") == 5
