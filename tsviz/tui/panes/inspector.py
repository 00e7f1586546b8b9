"""The inspector: views of the selected request and of the round, one open at a time."""

from __future__ import annotations

from typing import NamedTuple

from tsviz.tui.lines import Document, Line, Lines, Span, clip
from tsviz.tui.panes.admission import admission
from tsviz.tui.panes.device import device
from tsviz.tui.panes.raw import raw
from tsviz.tui.panes.request import request
from tsviz.tui.panes.retraction import retraction
from tsviz.tui.panes.states import without_frame
from tsviz.tui.panes.tables import tables
from tsviz.tui.panes.transfers import transfers
from tsviz.tui.panes.why import why
from tsviz.tui.scene import Build, Scene

_WORDS_FROM_CELLS = 68


class View(NamedTuple):
    """A view: its name on a wide and on a narrow tab line, and its pure function."""

    title: str
    short: str
    build: Build


VIEWS = {
    "why": View("Why", "Why", why),
    "request": View("Request", "Req", request),
    "tables": View("Tables", "Tab", tables),
    "retraction": View("Retraction", "Retr", retraction),
    "admission": View("Admission", "Adm", admission),
    "transfers": View("Transfers", "Xfer", transfers),
    "device": View("Device", "Dev", device),
    "raw": View("Raw row", "Raw", raw),
}
"""Views by name, in the order of their tabs."""


def view_tabs(scene: Scene, width: int, _height: int) -> Document:
    """Return the tab line; the open view stands in brackets."""
    wide = width >= _WORDS_FROM_CELLS
    spans: list[Span] = []
    for name, view in VIEWS.items():
        here = name == scene.view
        title = view.title if wide else view.short
        text = f"[{title}]" if here else f" {title} "
        if not wide and not here:
            text = text.rstrip() if spans and spans[-1].text.endswith("]") else f" {title}"
        spans.append(Span(text, "tab-active" if here else "tab", ("view", name)))
    return Lines((clip(Line(tuple(spans)), width),))


def inspector(scene: Scene, width: int, height: int) -> Document:
    """Return the open view, or what stands there without a frame."""
    instead = without_frame(scene, width, height)
    return instead if instead is not None else VIEWS[scene.view].build(scene, width, height)
