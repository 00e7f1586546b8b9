"""Nothing from outside is used before it is validated in full (architecture.md, section 7)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from .columns import Table
from .errors import Damaged

Mapping = list[int | None]
"""Per column of the table its position in the file; None for a nullable column that an older MINOR did not have."""


def checked_schema(path: Path, table: Table, found: pa.Schema) -> Mapping:
    """Return where the table's columns stand in a file. Unknown columns are ignored; a wrong or missing one raises."""
    mapping: Mapping = []
    for column in table.columns:
        positions = found.get_all_field_indices(column.name)
        if not positions and column.nullable:
            mapping.append(None)
            continue
        if len(positions) != 1:
            raise Damaged(path, f"column {column.name}", "one column", f"{len(positions)}")
        kind = found.field(positions[0]).type
        if kind != column.type:
            raise Damaged(path, f"column {column.name}", str(column.type), str(kind)[:80])
        mapping.append(positions[0])
    return mapping


def checked_batch(path: Path, place: str, table: Table, mapping: Mapping, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the table's columns of a batch, validated in full. Raises `Damaged`."""
    columns = []
    for column, position in zip(table.columns, mapping, strict=True):
        if position is None:
            columns.append(pa.nulls(batch.num_rows, column.type))
            continue
        values = batch.column(position)
        try:
            values.validate(full=True)
            if pa.types.is_dictionary(values.type):
                values.dictionary.validate(full=True)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise Damaged(path, f"{place} {column.name}", "valid values", str(error).splitlines()[0][:200]) from None
        if values.null_count and not column.nullable:
            raise Damaged(path, f"{place} {column.name}", "no nulls", f"{values.null_count} nulls")
        columns.append(values)
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)
