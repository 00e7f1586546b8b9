"""Rows on standard output: a table for people, or a format that loses nothing (debugger.md, section 7).

Every command with `--format` ends here. People get strings without control and bidirectional characters, never read
as markup; machines get every value: 64-bit unsigned numbers, nulls, lists. JSON has no NaN and no infinity: they come
as the strings "NaN", "Infinity", "-Infinity"; bytes come as hexadecimal; decimals with a fraction, times and intervals
as text; a map as an object. In CSV a null is an empty field, an empty string is "", and what has parts is JSON. The
types one by one: docs/formats.md.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"


BINARY = frozenset((Format.ARROW, Format.PARQUET))
"""Formats that are no text."""
_ROW_GROUP_ROWS = 1_000_000

_CLEAN = {
    **{code: 0x2400 + code for code in range(32)},
    127: 0x2421,
    **dict.fromkeys(range(128, 160), 65533),
    **dict.fromkeys((1564, 8206, 8207, *range(8232, 8239), *range(8294, 8298)), 65533),
}


def clean(text: str) -> str:
    """Return the text without characters that a terminal obeys: pictures stand for controls, U+FFFD for the others."""
    return text.translate(_CLEAN)


class Rows(Protocol):
    """A schema and batches, read once."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


def write(rows: Rows, form: Format, out: BinaryIO, *, width: int | None = None) -> tuple[str, ...]:
    """Write all rows; return what a person should be told on standard error.

    `width` is that of the terminal in cells, None where there is none: a table is cut to it, and CSV to a terminal is
    cleaned. Raises `pa.ArrowException` if a format cannot hold a type.
    """
    if form is Format.TABLE:
        from .table import write_table

        return write_table(rows, out, width)
    if form in BINARY:
        (_write_arrow if form is Format.ARROW else _write_parquet)(rows, out)
    elif form is Format.CSV:
        _write_csv(rows, out, for_people=width is not None)
    else:
        _write_json(rows, out, lines=form is Format.JSONL)
    out.flush()
    return ()


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
    from tsviz.query.catalog import distinct

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


def _write_csv(rows: Rows, out: BinaryIO, *, for_people: bool) -> None:
    from .values import values

    shown = clean if for_people else str
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


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """End the command quietly with 0 when whoever reads standard output has gone (`| head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
