"""The relations over parts: their columns, constants, types and what reaches the data."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tsviz.query.catalog import PLACE, Catalog, distinct, sql_type
from tsviz.query.locked import Locked
from tsviz.trace.tables import RECORDED

from .fakes import FakeBundle, FakePart, table
from .tiny import tiny


@pytest.mark.parametrize("name", RECORDED)
def test_a_relation_has_the_place_and_the_recorded_columns(name: str, locked: Locked) -> None:
    """Every recorded table is a relation with trace, node, rank in front, dictionaries as their values."""
    rows = locked.query(f'DESCRIBE FROM "{name}"')[0].to_pylist()
    assert [r["column_name"] for r in rows] == [*PLACE, *RECORDED[name].names]
    types = ["VARCHAR", "VARCHAR", "INTEGER", *(sql_type(c.type) for c in RECORDED[name].columns)]
    assert [r["column_type"] for r in rows] == types


def _bundle(name: str, *parts: tuple[str, int]) -> FakeBundle:
    return FakeBundle(name, [FakePart(tiny(), node, rank) for node, rank in parts])


def test_parts_of_all_bundles_are_one_relation() -> None:
    """Rows of every part of every bundle stand in one relation, told apart by its constants."""
    locked = Locked(Catalog([_bundle("x", ("P", 0), ("D", 0)), _bundle("y", ("F", 1))]))
    sql = "SELECT trace, node, rank, count(*) AS n FROM rounds GROUP BY ALL ORDER BY ALL"
    assert [tuple(r.values()) for r in locked.query(sql)[0].to_pylist()] == [
        ("x", "D", 0, 6),
        ("x", "P", 0, 6),
        ("y", "F", 1, 6),
    ]
    assert locked.query("FROM parts")[0].num_rows == 3


def test_traces_of_one_name_stay_apart() -> None:
    """Bundles that share a name get ~2, ~3 behind it, and never a name that is taken."""
    assert distinct(["a", "a", "b", "a"]) == ["a", "a~2", "b", "a~3"]
    assert distinct(["a~2", "a", "a"]) == ["a~2", "a", "a~3"]


@pytest.mark.parametrize("name", ["it's", "a' AS trace, 1; DROP VIEW rounds --", 'q"uote', "nul\0byte", "❤️\n"])
def test_a_name_is_a_value_and_never_sql(name: str) -> None:
    """Names of traces and nodes come back as they are, whatever they say; only NUL becomes its picture."""
    locked = Locked(Catalog([_bundle(name, (name, 0))]))
    expected = name.replace("\0", "␀")
    assert locked.query("SELECT DISTINCT trace, node FROM rounds")[0].to_pylist() == [
        {"trace": expected, "node": expected}
    ]


def test_a_name_that_the_locale_could_not_read_is_utf_8() -> None:
    """Bytes of a name that came in as surrogates are read as UTF-8; what is none becomes U+FFFD or a question mark."""
    for name, shown in (("sp\udcc3\udcbcr", "spür"), ("\udcff", "\ufffd"), ("\ud800", "?")):
        locked = Locked(Catalog([_bundle(name, (name, 0))]))
        assert locked.query("SELECT trace, node FROM parts")[0].to_pylist() == [{"trace": shown, "node": shown}]


def test_a_missing_table_is_empty_and_a_missing_column_null() -> None:
    """A part of an older MINOR lacks tables and columns: they are empty and null; unknown ones are left out."""
    rounds = tiny()["rounds"].drop_columns(["empty_pages"]).append_column("novel", pa.array([1] * 6))
    locked = Locked(Catalog([FakeBundle("old", [FakePart({"rounds": rounds, "inventions": rounds})])]))
    assert locked.query("SELECT DISTINCT empty_pages FROM rounds")[0].to_pylist() == [{"empty_pages": None}]
    assert locked.query("DESCRIBE FROM rounds")[0].num_rows == 3 + len(RECORDED["rounds"].columns)
    assert locked.query("FROM operations")[0].num_rows == 0


def test_all_64_bits_of_a_digest_come_out(locked: Locked) -> None:
    """Unsigned 64-bit numbers are exact: the digest of round 1 is 2^64 - 1."""
    result = locked.query("SELECT digest_structural FROM rounds WHERE round = 1")[0]
    assert result.schema.field(0).type == pa.uint64()
    assert result.to_pylist() == [{"digest_structural": 2**64 - 1}]


def test_dictionaries_that_differ_by_chunk() -> None:
    """Chunks and parts whose dictionaries number the same strings differently give the same strings."""
    first = table("zeroed", [{"round": 1, "group": "full"}, {"round": 1, "group": "state"}])
    second = table("zeroed", [{"round": 2, "group": "state"}, {"round": 2, "group": "full"}])
    many = pa.concat_tables([first, second] * 40)  # 80 chunks of 2 rows: few enough rows to be joined into one
    locked = Locked(Catalog([FakeBundle("t", [FakePart({"zeroed": many})])]))
    sql = 'SELECT round, "group", count(*) AS n FROM zeroed GROUP BY ALL ORDER BY ALL'
    assert [tuple(r.values()) for r in locked.query(sql)[0].to_pylist()] == [
        (1, "full", 40),
        (1, "state", 40),
        (2, "full", 40),
        (2, "state", 40),
    ]


def _mixed(folder: Path) -> Locked:
    """A finished part over Parquet and one in memory."""
    pq.write_table(tiny()["operations"], folder / "operations.parquet", row_group_size=2)
    finished = FakePart({"operations": ds.dataset(folder / "operations.parquet", format="parquet")}, "P")
    return Locked(Catalog([FakeBundle("t", [finished, FakePart(tiny(), "D")])]))


def test_finished_and_hot_parts_are_read_alike(tmp_path: Path) -> None:
    """A table over Parquet gives the rows that it gives in memory."""
    locked = _mixed(tmp_path)
    finished, hot = (
        locked.query(f"SELECT * EXCLUDE (node) FROM operations WHERE node = '{node}'")[0] for node in ("P", "D")
    )
    assert finished.num_rows == 10
    assert finished.equals(hot)


def test_filters_and_columns_reach_the_data(tmp_path: Path) -> None:
    """The plan of a query on one round reads two columns of a dataset and filters while reading."""
    plan = _mixed(tmp_path).query("EXPLAIN SELECT kind FROM operations WHERE round = 3 AND node = 'P'")[0]
    text = " ".join(plan.column("explain_value").to_pylist()[0].split())
    assert 'Filters: "round" = 3' in text
    assert "Projections: kind" in text


def test_a_filter_on_the_place_skips_parts(tmp_path: Path) -> None:
    """The plan of a query on one node scans the data of that node only; P's are a dataset, with what says its size."""
    locked = _mixed(tmp_path)
    plans = {
        where: locked.query(f"EXPLAIN SELECT kind FROM operations {where}")[0].column("explain_value").to_pylist()[0]
        for where in ("", "WHERE node = 'P'", "WHERE node = 'D'")
    }
    scans = {where: plan.count("Function: PYTHON_ARROW_SCAN") for where, plan in plans.items()}
    assert scans == {"": 3, "WHERE node = 'P'": 2, "WHERE node = 'D'": 1}
