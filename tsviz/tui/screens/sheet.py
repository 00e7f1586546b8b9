"""A sheet of text over the screen: help, legend."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from tsviz.tui.lines import Line, Lines
from tsviz.tui.scene import Scene
from tsviz.tui.widgets.pane import Pane


class Sheet(ModalScreen[None]):
    """Shows `make(width)` in a frame with a title; scrolls; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,?,l,enter", "dismiss", "Close", id="sheet.close", tooltip="Close this sheet"),
        Binding("down,j", "scroll(1)", "Down", id="sheet.down", tooltip="One line down"),
        Binding("up,k", "scroll(-1)", "Up", id="sheet.up", tooltip="One line up"),
        Binding("pagedown,space", "scroll(10)", "Page down", id="sheet.page.down", tooltip="Ten lines down"),
        Binding("pageup", "scroll(-10)", "Page up", id="sheet.page.up", tooltip="Ten lines up"),
        Binding("home", "scroll(-10000)", "Top", id="sheet.top", tooltip="First line"),
        Binding("end", "scroll(10000)", "Bottom", id="sheet.bottom", tooltip="Last line"),
    ]

    def __init__(self, title: str, make: Callable[[int], list[Line]]) -> None:
        super().__init__()
        self._title = title
        self._make = make

    def compose(self) -> ComposeResult:
        """Place the sheet."""
        pane = Pane(
            lambda _scene, width, _height: Lines(self._make(width)), id="sheet", title=self._title, focusable=True
        )
        pane.border_subtitle = "esc closes, ↑ ↓ scroll"
        yield pane

    def on_mount(self) -> None:
        """Fill the sheet."""
        sheet = self.query_one(Pane)
        sheet.show(Scene())
        sheet.focus()

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one(Pane).scroll_relative(y=lines, animate=False)
