"""The Parquet dataset: what plain readers make of it, and that nothing is lost on the way."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tsviz.query.export import export_parquet, exported_tables, partition
from tsviz.trace.catalogue import TABLES

from .decided import decided, decided_part
from .fakes import FakeBundle, FakePart, table
from .tiny import tiny


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Two parts of the tiny trace, one with decisions, as a dataset."""
    bundle = FakeBundle("tiny", [decided_part(4), FakePart(tiny(), "N", 1)])
    export_parquet([bundle], tmp_path / "out")
    return tmp_path / "out"


def _duckdb(dataset: Path, name: str, columns: str = "*", more: str = "") -> list[tuple[Any, ...]]:
    files = f"read_parquet('{dataset / name}/**/*.parquet', hive_partitioning = true)"
    return duckdb.connect().sql(f"SELECT {columns} FROM {files} {more}").fetchall()


def test_plain_duckdb_reads_every_table(dataset: Path) -> None:
    """Every table has a folder that DuckDB reads as it is, with the partitions as columns."""
    assert sorted(p.name for p in dataset.iterdir()) == sorted(exported_tables())
    for name in TABLES:
        expected = 2 * len(tiny()[name]) if name in tiny() else len(decided_part().data.get(name, ()))
        assert _duckdb(dataset, name, "count(*)") == [(expected,)], name
    places = _duckdb(dataset, "rounds", "DISTINCT trace, node, rank", "ORDER BY node")
    assert places == [("tiny", "F", 0), ("tiny", "N", 1)]


def test_pyarrow_reads_the_values(dataset: Path) -> None:
    """pyarrow.dataset gives back every value of a table, lists and nulls too; digests with the same bits."""
    for name in ("operations", "table_changes", "submissions", "verdicts", "attempts"):
        found = ds.dataset(dataset / name, format="parquet", partitioning="hive")
        rows = found.to_table(columns=list(TABLES[name].names), filter=ds.field("node") == "F").to_pylist()
        assert rows == decided_part().data[name].to_pylist(), name
    rounds = ds.dataset(dataset / "rounds", format="parquet", partitioning="hive").to_table(
        filter=ds.field("rank") == 1
    )
    # 2^64 - n is -n as a signed number.
    assert rounds["digest_structural"].to_pylist() == [-1, -2, -3, -4, -5, -6]


def test_no_file_needs_arrow(dataset: Path) -> None:
    """No column is a dictionary or unsigned, none is required, and no Arrow schema rides along."""
    for file in dataset.rglob("*.parquet"):
        read = pq.ParquetFile(file)
        assert not read.metadata.metadata
        for index, field in enumerate(read.schema_arrow):
            kind = field.type.value_type if pa.types.is_list(field.type) else field.type
            assert kind in (pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.binary()), (file, field)
            assert field.nullable
            assert read.schema_arrow.names.index(field.name) == index


def test_the_parts_say_how_far_decisions_reach(dataset: Path, tmp_path: Path) -> None:
    """The exported parts say the same as the relation: derived up to a round, recorded to the last, or none."""
    columns = "node, decisions, decided_round, last_round, budget_tokens"
    assert _duckdb(dataset, "parts", columns, "ORDER BY node") == [
        ("F", "derived", 4, 6, 8),
        ("N", "none", None, 6, None),
    ]
    export_parquet([FakeBundle("r", [FakePart(dict(decided_part().data))])], tmp_path / "recorded")
    assert _duckdb(tmp_path / "recorded", "parts", "decisions, decided_round") == [("recorded", 6)]


def test_rows_are_sorted(tmp_path: Path) -> None:
    """Rows of a table in memory are written by round, stop and order inside the round."""
    rows = [{"round": r, "stop": s, "item": i, "request": "a"} for r, s, i in ((2, 1, 0), (1, 2, 5), (1, 1, 2))]
    bundle = FakeBundle("t", [FakePart({"candidates": table("candidates", rows)})])
    export_parquet([bundle], tmp_path / "out", ["candidates"])
    found = pq.ParquetFile(next((tmp_path / "out").rglob("*.parquet"))).read()
    assert list(zip(*(found[c].to_pylist() for c in ("round", "stop", "item")), strict=True)) == [
        (1, 1, 2), (1, 2, 5), (2, 1, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a b", "../../etc", "x=1", "50%", "❤️", "it's", "a/b"])
def test_a_name_is_a_value_and_never_a_path(name: str, tmp_path: Path) -> None:
    """A trace or node may be called anything: its folder stays inside, and both readers give the name back."""
    out = tmp_path / "out"
    export_parquet([FakeBundle(name, [FakePart(tiny(), name)])], out, ["rounds"])
    (file,) = tmp_path.rglob("*.parquet")
    assert file.relative_to(out).parts == ("rounds", *partition((name, name, 0)).split("/"), "part.parquet")
    assert _duckdb(out, "rounds", "DISTINCT trace, node") == [(name, name)]
    read = ds.dataset(out / "rounds", format="parquet", partitioning="hive").to_table(columns=["trace", "node"])
    assert set(read["trace"].to_pylist()) == set(read["node"].to_pylist()) == {name}


def test_traces_of_one_name_stay_apart(tmp_path: Path) -> None:
    """Two bundles of one name are two partitions."""
    export_parquet([decided(), decided()], tmp_path / "out", ["holds"])
    assert sorted(_duckdb(tmp_path / "out", "holds", "trace")) == [("tiny",), ("tiny~2",)]


def test_a_large_table_comes_in_row_groups(tmp_path: Path) -> None:
    """A finished table over Parquet is written through, in its order."""
    many = table("zeroed", [{"round": n, "group": "full", "page": n} for n in range(1000)])
    pq.write_table(many, tmp_path / "cold.parquet", row_group_size=100)
    part = FakePart({"zeroed": ds.dataset(tmp_path / "cold.parquet", format="parquet")})
    (written,) = export_parquet([FakeBundle("t", [part])], tmp_path / "out", ["zeroed"])
    assert (written.rows, written.files) == (1000, 1)
    assert [row[0] for row in _duckdb(tmp_path / "out", "zeroed", "page")] == list(range(1000))


def test_nothing_is_overwritten_and_nothing_left_behind(tmp_path: Path) -> None:
    """A directory with something in it is refused; a failure on the way leaves no directory."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    with pytest.raises(FileExistsError, match="expected a new or an empty directory"):
        export_parquet([decided()], tmp_path / "full")

    class Broken(FakePart):
        def tables(self) -> Any:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        export_parquet([FakeBundle("t", [Broken()])], tmp_path / "new")
    assert [p.name for p in tmp_path.iterdir()] == ["full"]


_DAFT = Path(os.environ.get("TSVIZ_DAFT_PYTHON", Path(__file__).parents[2] / ".venv-daft/bin/python"))
"""Daft wants an older pyarrow than ours, so it has an environment of its own, which `make test` builds."""

_BY_DAFT = """
import json, sys
import daft
rounds = daft.read_parquet(sys.argv[1] + "/rounds/**/*.parquet", hive_partitioning=True)
names = sys.argv[2].split(", ")
found = rounds.where(daft.col("round") > 1).select(*names).to_pydict()
print(json.dumps(list(zip(*(found[name] for name in names)))))
"""


@pytest.mark.skipif(not _DAFT.exists(), reason="no environment with daft: make test builds .venv-daft")
def test_daft_reads_the_dataset_by_the_statement_of_the_documents(dataset: Path) -> None:
    """Rows after a filter are those that plain DuckDB finds, partitions as columns included."""
    columns = "trace, node, rank, round, empty_pages"
    ended = subprocess.run([_DAFT, "-c", _BY_DAFT, dataset, columns], capture_output=True, text=True, check=True)
    expected = _duckdb(dataset, "rounds", columns, "WHERE round > 1")
    assert sorted(tuple(row) for row in json.loads(ended.stdout)) == sorted(expected)
    assert expected
