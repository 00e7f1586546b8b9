"""Look-ups by round in a large table: the rows of a scan, without one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Locked
from tsviz.query.lookups import LookupDataset, lookups
from tsviz.query.problem import QueryError

from .fakes import FakeBundle, FakePart, table

ROUNDS, ROWS, GROUP = 900, 8, 1200


def rows() -> pa.Table:
    """Operations of 900 rounds, 8 a round but none in rounds that 50 divides, in row groups of 1,200 rows."""
    numbers = [n for n in range(1, ROUNDS + 1) if n % 50]
    return table(
        "operations",
        [
            {
                "round": n, "row": row, "kind": "prefill" if row == 0 else "decode", "request": f"r{(n + row) % 30}",
                "submission": (n + row) % 30, "slot": row + 1, "begin_tokens": n if row == 0 else None,
                "input_tokens": 1, "prefill_tokens": 8,
            }
            for n in numbers
            for row in range(ROWS)
        ],
    )  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table as a Parquet file with page checksums."""
    path = tmp_path_factory.mktemp("cold") / "operations.parquet"
    pq.write_table(rows(), path, row_group_size=GROUP, write_page_checksum=True)
    return path


def dataset(path: Path) -> ds.Dataset:
    """Open the file as the reader of a trace does."""
    scan = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    read = ds.ParquetReadOptions(dictionary_columns=["kind", "request"])
    return ds.dataset([str(path)], format=ds.ParquetFileFormat(read_options=read, default_fragment_scan_options=scan))


def opened(data: object) -> Locked:
    """Put operations into a catalog of one part."""
    return Locked(Catalog([FakeBundle("t", [FakePart({"operations": data})])]))


def flipped(file: Path, group: int, column: int) -> bytes:
    """Return the bytes of the file with one changed in the last page of a column of a row group."""
    data = bytearray(file.read_bytes())
    chunk = pq.ParquetFile(file).metadata.row_group(group).column(column)
    data[(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 3] ^= 0x40
    return bytes(data)


CONDITIONS = (
    "round = 7",
    "round = 50",
    "round = 901",
    "round = 150 OR round = 151",
    "round IN (7, 8, 870)",
    "round BETWEEN 148 AND 153 AND kind = 'decode'",
    "round > 899",
    "round >= 3 AND round < 5",
    "round = 7 OR request = 'r3'",
    "round = 7 AND request IS NOT NULL",
    "round = 7 AND begin_tokens IS NULL",
    "round = 7 AND begin_tokens = 7",
    "round = 7 AND request <> '(round == 9)'",
    "request = '(round == 9)' OR round > 898",
    "NOT round = 7 AND round < 9",
    "round <> 7 AND round < 10",
    "round + 1 = 8",
    "round = 2147483647",
    "round = -1",
    "round IS NULL",
    "round = 7 AND rank = 0",
    "round = 7 AND rank = 1",
    "round = 7 AND round = 8",
    "round = 7 AND slot IN (1, 2) AND submission > 8",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_look_up_gives_the_rows_of_a_scan(condition: str, file: Path) -> None:
    """Whatever the condition, the rows are those of the table in memory: at first, and when pages were checked."""
    quick, whole = opened(dataset(file)), opened(rows())
    for columns in ("*", "request, kind", "count(*)", "row, begin_tokens"):
        sql = f"SELECT {columns} FROM operations WHERE {condition}"
        sql += "" if columns == "count(*)" else " ORDER BY round, row"
        expected = whole.query(sql)[0]
        for _ in range(2):
            assert quick.query(sql)[0].to_pylist() == expected.to_pylist()
    quick.close()
    whole.close()


def test_few_rounds_are_looked_up_and_many_are_scanned(file: Path) -> None:
    """A condition that holds a row to one or two row groups is answered with rows, another one with a scan."""
    found = lookups(dataset(file))
    assert isinstance(found, LookupDataset)
    key = ds.field("round")
    assert isinstance(found.scanner(columns=["row"], filter=key == 7), pa.Table)
    assert isinstance(found.scanner(columns=["row"], filter=(key >= 140) & (key <= 160)), pa.Table)
    assert not isinstance(found.scanner(columns=["row"], filter=key > 7), pa.Table)
    assert not isinstance(found.scanner(columns=["row"], filter=(key == 7) | (ds.field("request") == "r1")), pa.Table)
    assert not isinstance(found.scanner(columns=["row"]), pa.Table)


def test_types_stay(file: Path) -> None:
    """The rows of a look-up have the types of the table, dictionaries too, at first and later."""
    found = lookups(dataset(file))
    for _ in range(2):
        assert found.scanner(columns=["request", "row"], filter=ds.field("round") == 7).schema == pa.schema(
            [found.schema.field("request"), found.schema.field("row")]
        )


def test_a_damaged_page_is_an_error(file: Path, tmp_path: Path) -> None:
    """A flipped byte in the pages of a round's row group is an error for that round, and others stay readable."""
    damaged = tmp_path / "operations.parquet"
    damaged.write_bytes(flipped(file, 3, 3))
    locked = opened(dataset(damaged))
    number = rows()["round"][3 * GROUP + 5].as_py()
    for _ in range(2):
        with pytest.raises(QueryError):
            locked.query(f"SELECT request FROM operations WHERE round = {number}")
    assert locked.query("SELECT request FROM operations WHERE round = 7")[0].num_rows == ROWS
    locked.close()


def test_a_file_that_was_replaced_is_checked_again(file: Path, tmp_path: Path) -> None:
    """When another file stands in the place of the one whose pages were checked, its pages are checked too."""
    path = tmp_path / "operations.parquet"
    path.write_bytes(file.read_bytes())
    found = lookups(dataset(path))
    key = ds.field("round") == 7
    assert len(found.scanner(columns=["slot"], filter=key)) == ROWS
    path.rename(tmp_path / "before.parquet")
    path.write_bytes(flipped(file, 0, 5))
    with pytest.raises((OSError, pa.ArrowException)):
        found.scanner(columns=["slot"], filter=key)


def test_what_has_no_rounds_stays_as_it_is(tmp_path: Path) -> None:
    """A dataset without rounds, or of several files, is scanned as before."""
    for name in ("a", "b"):
        pq.write_table(pa.table({"round": np.arange(5), "x": np.arange(5)}), tmp_path / f"{name}.parquet")
    several = ds.dataset([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")], format="parquet")
    assert lookups(several) is several
    pq.write_table(pa.table({"page": np.arange(5)}), tmp_path / "c.parquet")
    without = ds.dataset(tmp_path / "c.parquet", format="parquet")
    assert lookups(without) is without


def test_a_join_holds_the_smaller_side(file: Path) -> None:
    """Whichever side a small table of a join with a large one stands on, the small one is what is held in memory."""
    locked = opened(lookups(dataset(file)))
    few = "(VALUES (1), (2)) AS few(submission)"
    for joined in (f"{few} JOIN operations", f"operations JOIN {few}", f"operations SEMI JOIN {few}"):
        (row,) = locked.query(f"EXPLAIN (FORMAT JSON) SELECT count(*) FROM {joined} USING (submission)")[0].to_pylist()
        join = json.loads(row["explain_value"])[0]
        while join["name"].strip() != "HASH_JOIN":
            (join,) = join["children"]
        streamed, held = (json.dumps(side) for side in join["children"])
        assert "ARROW_SCAN" in streamed and "ARROW_SCAN" not in held
