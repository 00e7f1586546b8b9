"""Results of a few rows, as dictionaries, to standard output in any of the formats."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .output import BINARY, Format, tell, write

if TYPE_CHECKING:
    import pyarrow as pa

F = TypeVar("F", bound=Callable[..., Any])


def format_option(function: F) -> F:
    """Add `--format` to a command; it arrives as `form`, a string."""
    choice = click.Choice([f.value for f in Format])
    return click.option(
        "--format", "form", type=choice, default="table", show_default=True, help="How rows are written."
    )(function)


def table_of(rows: Sequence[dict[str, Any]], counts: str = "") -> pa.Table:
    """Return rows (all with the keys of the first) as a table; the column `counts` holds whole numbers by names."""
    import pyarrow as pa

    if not counts:
        return pa.Table.from_pylist(list(rows))
    told = pa.array([list(row[counts].items()) for row in rows], pa.map_(pa.string(), pa.int64()))
    return pa.table({name: told if name == counts else [row[name] for row in rows] for name in rows[0]})


def print_rows(rows: Sequence[dict[str, Any]], form: str, *, counts: str = "", prose: str = "") -> None:
    """Write rows in a format (`table_of` and `write` say which); notes for people go to standard error."""
    table = table_of(rows, counts)
    kind = Format(form)
    out = sys.stdout.buffer
    people = kind not in BINARY and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if people else None
    sys.stdout.flush()
    for note in write(table.to_reader(), kind, out, width=width, prose=prose):
        tell(note)
