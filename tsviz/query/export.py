"""A trace as a Parquet dataset that any engine reads: one folder a table, partitioned by trace, node and rank.

Made for readers that know Parquet and nothing of Arrow (docs/export.md): dictionaries become strings, unsigned 64-bit
digests the signed numbers with the same bits, every column may be null, and rows are in the order of the recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tsviz.trace.catalogue import TABLES
from tsviz.trace.columns import Table
from tsviz.trace.drafts import draft

from .catalog import STATED, distinct
from .parts import GROUPS, PARTS, RECORDED, Place, groups_table, parts_table
from .source import Bundle, Part

_ROW_GROUP_ROWS = 1_000_000
_FILE = "part.parquet"


@dataclass(frozen=True, slots=True)
class Written:
    """One table of the dataset: its rows and bytes over all partitions."""

    table: str
    rows: int
    bytes: int
    files: int


def exported_tables() -> tuple[str, ...]:
    """Return the tables of a dataset: parts and groups, recorded and decided ones."""
    return (*(table.name for table in STATED), *TABLES)


def export_parquet(bundles: Sequence[Bundle], directory: Path, tables: Sequence[str] | None = None) -> list[Written]:
    """Write a dataset of `tables` (all without any) of these bundles into a directory that is new or empty.

    Nothing is left behind where it fails. Raises FileExistsError, OSError, and what reading the tables raises.
    """
    with new_directory(directory) as draft:
        return _export(bundles, draft, tables or exported_tables())


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """Give a draft that becomes `directory`, which is new or empty, when the block ends; nothing is left of a failure.

    Raises FileExistsError, OSError.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise FileExistsError(f"{directory}: expected a new or an empty directory")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with draft(directory.parent, f".{directory.name}-") as made:
        yield made
        made.chmod(0o755)
        made.replace(directory)


def _export(bundles: Sequence[Bundle], directory: Path, names: Sequence[str]) -> list[Written]:
    found: dict[str, Written] = {name: Written(name, 0, 0, 0) for name in names}
    for trace, bundle in zip(distinct([b.name for b in bundles]), bundles, strict=True):
        for part in bundle.parts:
            place = (trace, part.node, part.rank)
            for table, data in _tables(place, part):
                if table.name not in found:
                    continue
                file = directory / table.name / partition(place) / _FILE
                rows, before = _write(table, data, file), found[table.name]
                size = file.stat().st_size
                found[table.name] = Written(table.name, before.rows + rows, before.bytes + size, before.files + 1)
    return list(found.values())


def partition(place: Place) -> str:
    """Return the folders of a part: `trace=.../node=.../rank=N`, names percent-encoded as every reader decodes them."""
    trace, node, rank = place
    return f"trace={quote(trace, safe='')}/node={quote(node, safe='')}/rank={rank:d}"


def _tables(place: Place, part: Part) -> Iterator[tuple[Table, Any]]:
    recorded: Mapping[str, Any] = part.tables()
    whole = [(place, part, recorded)]
    yield PARTS, _with_rounds(parts_table(whole), recorded.get("rounds"))
    yield GROUPS, groups_table(whole)
    for name, table in TABLES.items():
        yield table, recorded.get(name, table.schema.empty_table())


def _with_rounds(parts: pa.Table, rounds: Any) -> pa.Table:
    """Add to the one row of `parts` what its rounds tell: the last one, to which recorded decisions reach."""
    row = parts.to_pylist()[0]
    numbers = None if rounds is None else rounds.to_table(["round"]) if isinstance(rounds, ds.Dataset) else rounds
    row["last_round"] = None if numbers is None else pc.max(numbers["round"]).as_py()
    if row["decisions"] == RECORDED:
        row["decided_round"] = row["last_round"]
    return pa.Table.from_pylist([row], schema=parts.schema)


def _write(table: Table, data: Any, file: Path) -> int:
    """Write a table or dataset; a dataset is over cold rows, which are sorted already."""
    file.parent.mkdir(parents=True)
    schema = pa.schema([(column.name, _plain(column.type)) for column in table.columns])
    rows = 0
    with pq.ParquetWriter(file, schema, compression="zstd", store_schema=False, write_page_index=True) as writer:
        for piece in _pieces(table, data):
            writer.write_table(_converted(piece, schema), row_group_size=_ROW_GROUP_ROWS)
            rows += piece.num_rows
    return rows


def _pieces(table: Table, data: Any) -> Iterator[pa.Table]:
    if isinstance(data, pa.Table):
        order = [(name, "ascending") for name in (table.key, "stop", "item", "row") if name in data.column_names]
        yield data.sort_by(order) if order else data
        return
    held: list[pa.RecordBatch] = []
    for batch in data.to_batches():
        held.append(batch)
        if sum(b.num_rows for b in held) >= _ROW_GROUP_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.int64() if kind == pa.uint64() else kind


def _converted(data: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        if field.name not in data.column_names:
            columns.append(pa.nulls(data.num_rows, field.type))
            continue
        column = data[field.name]
        if column.type == pa.uint64():
            column = pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks], pa.int64())
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema)
