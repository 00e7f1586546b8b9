"""Results of a few rows, as dictionaries, to standard output in any of the formats."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from .output import BINARY, Format, write

F = TypeVar("F", bound=Callable[..., Any])


def format_option(function: F) -> F:
    """Add `--format` to a command; it arrives as `form`, a string."""
    choice = click.Choice([f.value for f in Format])
    return click.option(
        "--format", "form", type=choice, default="table", show_default=True, help="How rows are written."
    )(function)


def print_rows(rows: Sequence[dict[str, Any]], form: str) -> None:
    """Write rows (all with the keys of the first) in a format; notes for people go to standard error."""
    import pyarrow as pa

    table = pa.Table.from_pylist(list(rows))
    kind = Format(form)
    out = sys.stdout.buffer
    people = kind not in BINARY and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if people else None
    sys.stdout.flush()
    for note in write(table.to_reader(), kind, out, width=width):
        click.echo(note, err=True)
