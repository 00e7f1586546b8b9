"""Rows on standard output: a table for people, or a format that loses nothing (debugger.md, section 7).

Every command with `--format` ends here. People get strings without control and bidirectional characters, never read
as markup; machines get every value: `tsviz.query.writing`. The types one by one: docs/formats.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import BinaryIO

import click

from tsviz.query.writing import Form, write_rows
from tsviz.query.writing import Held as Held
from tsviz.query.writing import Rows as Rows
from tsviz.query.writing import plain as plain


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

_CLEAN = {
    **{code: 0x2400 + code for code in range(32)},
    127: 0x2421,
    **dict.fromkeys(range(128, 160), 65533),
    **dict.fromkeys((1564, 8206, 8207, *range(8232, 8239), *range(8294, 8298)), 65533),
}


def clean(text: str) -> str:
    """Return the text without characters that a terminal obeys: pictures stand for controls, U+FFFD for the others."""
    return text.translate(_CLEAN)


def tell(text: str) -> None:
    """Say a line on standard error, cleaned: it names paths and quotes traces."""
    click.echo(clean(text), err=True)


def write(
    rows: Rows, form: Format, out: BinaryIO, *, width: int | None = None, prose: str = ""
) -> tuple[str, ...]:  # fmt: skip
    """Write all rows; return what a person should be told on standard error.

    `width` is that of the terminal in cells, None where there is none: a table is cut to it, and CSV to a terminal is
    cleaned. `prose` names a column of sentences, which a table does not cut, and shows as its last. Raises
    `pa.ArrowException` if a format cannot hold a type.
    """
    if form is Format.TABLE:
        from .table import write_table

        return write_table(rows, out, width, prose)
    write_rows(rows, Form(form.value), out, shown=str if width is None else clean)
    return ()


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """End the command quietly with 0 when whoever reads standard output has gone (`| head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
