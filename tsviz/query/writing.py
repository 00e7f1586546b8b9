"""Rows in formats that lose nothing: 64-bit unsigned numbers, nulls, lists (debugger.md, section 7).

JSON has no NaN and no infinity: they come as the strings "NaN", "Infinity", "-Infinity"; bytes come as hexadecimal;
decimals with a fraction, times and intervals as text; a map as an object. In CSV a null is an empty field, an empty
string is "", and what has parts is JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Form(StrEnum):
    """How rows are written; also the ending of a file."""

    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"


_ROW_GROUP_ROWS = 1_000_000


class Rows(Protocol):
    """A schema and batches, read once."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


def write_rows(rows: Rows, form: Form, out: BinaryIO, *, shown: Callable[[str], str] = str) -> None:
    """Write all rows; CSV fields pass `shown`. Raises `pa.ArrowException` if a format cannot hold a type."""
    match form:
        case Form.ARROW:
            _write_arrow(rows, out)
        case Form.PARQUET:
            _write_parquet(rows, out)
        case Form.CSV:
            _write_csv(rows, out, shown=shown)
        case _:
            _write_json(rows, out, lines=form is Form.JSONL)
    out.flush()


def plain(value: Any) -> Any:
    """Return a value of a row as JSON values."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and value.as_tuple().exponent == 0 else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return str(value)


def _write_json(rows: Rows, out: BinaryIO, *, lines: bool) -> None:
    """Write one object a row. Names of columns that repeat get `~2`, `~3`, ..."""
    from .catalog import distinct
    from .values import values

    names = distinct(rows.schema.names)
    before = b"" if lines else b"[\n"
    for batch in rows:
        for row in values(batch):
            text = json.dumps({n: plain(v) for n, v in zip(names, row, strict=True)}, separators=(",", ":"))
            out.write(before + text.encode())
            before = b"\n" if lines else b",\n"
    if lines:
        out.write(b"\n" if before else b"")
    else:
        out.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def _write_csv(rows: Rows, out: BinaryIO, *, shown: Callable[[str], str]) -> None:
    from .values import values

    out.write((",".join(_field(shown(n)) for n in rows.schema.names) + "\n").encode())
    for batch in rows:
        for row in values(batch):
            out.write((",".join("" if v is None else _field(shown(_word(v))) for v in row) + "\n").encode())


def _word(value: Any) -> str:
    """Return one value as text that is not yet quoted."""
    value = plain(value)
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _field(text: str) -> str:
    if text and not any(c in text for c in ',"\r\n') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def _write_arrow(rows: Rows, out: BinaryIO) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(pa.PythonFile(out, mode="w"), rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


def _write_parquet(rows: Rows, out: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    held: list[pa.RecordBatch] = []
    with pq.ParquetWriter(pa.PythonFile(out, mode="w"), rows.schema, compression="zstd") as writer:
        for batch in rows:
            held.append(batch)
            if sum(b.num_rows for b in held) >= _ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(held))
                held = []
        if held:
            writer.write_table(pa.Table.from_batches(held))


class Held:
    """Rows that are there already, as `Rows`."""

    def __init__(self, table: pa.Table) -> None:
        self.schema = table.schema
        self._batches: Sequence[pa.RecordBatch] = table.to_batches()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._batches)
