"""One line that is asked for: a file name, a predicate, the text of a note."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from tsviz.tui.clean import clean
from tsviz.tui.lines import Lines, Span, clip, line
from tsviz.tui.scene import Scene
from tsviz.tui.widgets.pane import Pane


class AskLine(ModalScreen[str | None]):
    """Answers the line, cleaned, or None where the user changed their mind."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Never mind", id="ask.leave", tooltip="Leave without an answer")
    ]
    DEFAULT_CSS = """
    AskLine { align: center middle; }
    AskLine > Vertical {
        width: 76; max-width: 94%; height: 5; border: round $border; background: $raised; padding: 0 1;
        border-title-color: $role-title; border-title-style: bold;
    }
    AskLine Input { height: 1; border: none; padding: 0 1; background: $ground; }
    AskLine Input:focus { border: none; }
    AskLine Pane { height: 1; margin-top: 1; background: $raised; }
    """

    def __init__(self, title: str, hint: str, value: str = "") -> None:
        super().__init__()
        self._title, self._hint, self._value = title, hint, value

    def compose(self) -> ComposeResult:
        """Place the box."""
        with Vertical() as box:
            box.border_title = clean(self._title).replace("[", "\\[")
            yield Input(self._value, id="ask-input")
            yield Pane(lambda _s, width, _h: Lines((clip(line(Span(f" {self._hint}", "dim")), width),)), id="ask-hint")

    def on_mount(self) -> None:
        """Show the hint."""
        self.query_one(Pane).show(Scene())
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer."""
        self.dismiss(clean(event.value.strip()))

    def action_leave(self) -> None:
        """Leave."""
        self.dismiss(None)
