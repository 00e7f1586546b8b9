"""Pieces of HTML: tables, buttons that copy, sections. All text is escaped here."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from .chart import Table
from .text import clean, escape


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the trace, `trace@node/rank:round.stop`, that goes into any command."""

    trace: str
    part: str
    round: int
    stop: int | None = None

    @property
    def short(self) -> str:
        """The place inside the trace."""
        return f"{self.part}:{self.round}" + ("" if self.stop is None else f".{self.stop}")

    @property
    def argument(self) -> str:
        """The place as a shell takes it."""
        return shlex.quote(f"{self.trace}@{self.short}")


def copied(text: str, label: str, title: str) -> str:
    """Return a button that shows `label` and copies `text`."""
    return (
        f'<button type="button" class="copy" data-copy="{escape(text)}" title="{escape(title)}">'
        f'<code>{escape(label)}</code><span class="what" aria-hidden="true">copy</span></button>'
    )


def place(position: Position) -> str:
    """Return a button that copies a position."""
    return copied(position.argument, position.short, f"copy {position.argument}")


def command(text: str) -> str:
    """Return a button that copies a command."""
    return copied(text, text, "copy the command")


def why_command(position: Position, request: str) -> str:
    """Return the command that says why a request has no row there."""
    where = f"{position.trace}@{position.part}:{position.round}"
    return f"tsviz why {shlex.quote(where)} {shlex.quote(clean(request))}"


def table(what: Table) -> str:
    """Return a table; one without rows says so."""
    head = "".join(f'<th scope="col"{_aligned(what, i)}>{escape(h)}</th>' for i, h in enumerate(what.headings))
    body = "".join(
        "<tr>" + "".join(f"<td{_aligned(what, i)}>{escape(cell)}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in what.rows
    )
    if not body:
        body = f'<tr><td colspan="{len(what.headings)}">none</td></tr>'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(what.caption)}">'
        f"<table><caption>{escape(what.caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _aligned(what: Table, column: int) -> str:
    return ' class="number"' if column in what.numeric else ""


def folded(title: str, inside: str, opened: bool = False) -> str:
    """Return a part that opens on demand, by key or by mouse."""
    return f"<details{' open' if opened else ''}><summary>{escape(title)}</summary>{inside}</details>"
