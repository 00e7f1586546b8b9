"""A chart as data: what plotly draws, what a person reads beside it, and the same numbers as a table.

Colours are named by role (`@decode`); the page puts in those of its theme. Every role has a pattern or a dash too, so
that nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .text import charted

PATTERNS = {
    "decode": "", "prefill": "/", "queued": ".", "again": "x", "retracted": "x", "replay": "\\", "pool": "",
    "cached": "/", "empty": ".", "row": "",
    "c1": "/", "c2": "\\", "c3": ".", "c4": "x", "c5": "-", "c6": "|", "c7": "+",
}  # fmt: skip
"""Role to the pattern of its area."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows for a person: a caption, headings, and cells as text; numbers are told by `numeric`."""

    caption: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()
    """Columns that are aligned to the right."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. `timed` ones share the axis of rounds; their x values are rounds, or columns where there is no x."""

    name: str
    title: str
    says: str
    """What it shows, with its numbers, in sentences."""
    data: list[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    timed: bool = True
    height: int = 240
    table: Table | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    """What the page itself reads: lanes of requests."""


def area(name: str, role: str, values: list[Any]) -> dict[str, Any]:
    """Return one layer of a stack, a value a column."""
    return {
        "type": "scatter", "mode": "lines", "name": charted(name), "y": values, "stackgroup": "one",
        "line": {"width": 0, "shape": "hv"}, "fillcolor": f"@{role}",
        "fillpattern": {"shape": PATTERNS[role], "size": 7, "solidity": 0.2, "fgcolor": "@ground",
                        "bgcolor": f"@{role}", "fillmode": "replace"},
    }  # fmt: skip


def line(name: str, role: str, values: list[Any], dash: str = "solid", **more: Any) -> dict[str, Any]:
    """Return one line, a value a column."""
    style = {"width": 1.6, "color": f"@{role}", "dash": dash, "shape": "hv"}
    return {"type": "scatter", "mode": "lines", "name": charted(name), "y": values, "line": style, **more}


def bars(name: str, role: str, values: list[Any], **more: Any) -> dict[str, Any]:
    """Return bars, a value a column."""
    return {"type": "bar", "name": charted(name), "y": values, "marker": patterned(role), **more}


def patterned(role: str) -> dict[str, Any]:
    """Return the marker of bars: the colour of a role with its pattern."""
    pattern = {"shape": PATTERNS[role], "solidity": 0.25, "size": 7, "fgcolor": "@ground", "bgcolor": f"@{role}"}
    return {"color": f"@{role}", "pattern": pattern}


def y_axis(title: str, **more: Any) -> dict[str, Any]:
    """Return a layout whose y axis has a title and begins at 0."""
    return {"yaxis": {"title": {"text": charted(title)}, "rangemode": "tozero", **more}}
