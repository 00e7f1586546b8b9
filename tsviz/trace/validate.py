"""Nothing from outside is used before it is validated in full (architecture.md, section 7)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from .columns import Table
from .errors import Damaged, first_line

ARROW_FAULTS = (pa.ArrowException, OSError, KeyError, IndexError, TypeError, ValueError, MemoryError)
"""What Arrow raises at bytes that it cannot read."""

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


def wanted(mapping: Mapping) -> tuple[list[int], Mapping]:
    """Return which columns of the file to read at all, in order, and the mapping onto those alone."""
    positions = sorted(position for position in mapping if position is not None)
    return positions, [None if position is None else positions.index(position) for position in mapping]


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
            inner = _inner(values)
            if inner is not None:
                inner.validate(full=True)
        except ARROW_FAULTS as error:
            raise Damaged(path, f"{place} {column.name}", "valid values", first_line(error)) from None
        nulls = (0 if column.nullable else values.null_count) + (0 if inner is None else inner.null_count)
        if nulls:
            raise Damaged(path, f"{place} {column.name}", "no nulls", f"{nulls} nulls")
        columns.append(values)
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _inner(values: pa.Array) -> pa.Array | None:
    """Return what a column refers to: the strings of a dictionary, the numbers of lists."""
    if pa.types.is_dictionary(values.type):
        return values.dictionary
    return values.values if pa.types.is_list(values.type) else None
