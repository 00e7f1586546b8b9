"""A table for people: numbers to the right, strings cleaned, as many columns as fit."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tsviz.query.values import values

from .output import Rows, clean, plain

if TYPE_CHECKING:
    import pyarrow as pa

_CELL_WIDTH = 48
_PROSE_WIDTH = 24
"""A column of sentences is at least so wide, where the terminal is narrow."""
_GAP = 2


def write_table(rows: Rows, out: BinaryIO, width: int | None, prose: str = "") -> tuple[str, ...]:
    """Write the rows as a table of `width` cells, unbounded for None. Returns a note if columns were left out.

    `prose`: a column of sentences, the last one that is meant for people. It is not cut: where there is a width it goes
    on below, and where there is none a row is one line.
    """
    names = rows.schema.names
    told = names.index(prose) if prose in names else len(names)
    cells = [None if at == told else width for at in range(len(names))]
    body = [tuple(map(shown, row, cells)) for batch in rows for row in values(batch)]
    heads = [cut(clean(name), width) for name in names]
    widths = [max((cell_len(row[i]) for row in body), default=0) for i in range(len(heads))]
    widths = [max(w, cell_len(head)) for w, head in zip(widths, heads, strict=True)]
    if told < len(widths) and width is not None:
        left = width - sum(each + _GAP for each in widths[:told]) - _GAP
        widths[told] = min(widths[told], max(left, _PROSE_WIDTH))
    count = fitting(widths[: told + 1], width)
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for at, (head, field) in enumerate(zip(heads[:count], rows.schema, strict=False)):
        justify: Literal["left", "right"] = "right" if _is_number(field.type) else "left"
        table.add_column(Text(head), justify=justify, no_wrap=at != told or width is None, overflow="fold")
    for row in body:
        table.add_row(*(Text(cell) for cell in row[:count]))
    render(table, out, width, sum(widths[:count]) + _GAP * count)
    if count < min(told + 1, len(heads)):
        return (f"{count} of {len(heads)} columns shown; select fewer, or use --format json or csv",)
    return ()


def render(table: Table, out: BinaryIO, width: int | None, natural_width: int) -> None:
    """Print a table of rich; colours only where a terminal reads them."""
    text = io.StringIO()
    console = Console(
        file=text,
        width=max(1, min(width or natural_width, natural_width)),
        force_terminal=width is not None,
        emoji=False,
        markup=False,
        highlight=False,
    )
    console.print(table)
    for line in text.getvalue().splitlines():
        out.write(line.rstrip().encode() + b"\n")
    out.flush()


def fitting(widths: Sequence[int], width: int | None) -> int:
    """Return how many leading columns fit in `width` cells; one at least."""
    if width is None:
        return len(widths)
    used, count = 0, 0
    for column in widths:
        used += column + _GAP
        if count and used - _GAP > width:
            break
        count += 1
    return count


def shown(value: Any, width: int | None) -> str:
    """Return a value as a cell."""
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.1f}" if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return cut(clean(_nested(value)), width)


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_nested, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_nested(v)}" for k, v in value.items()) + "}"
    return "null" if value is None else str(value)


def cut(text: str, width: int | None) -> str:
    """Return the text cut to the largest cell that a terminal gets."""
    if width is None or cell_len(text) <= _CELL_WIDTH:
        return text
    return set_cell_size(text, _CELL_WIDTH - 1) + "…"


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))
