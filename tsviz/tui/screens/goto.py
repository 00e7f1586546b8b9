"""The box that asks where to go, and says while one types where that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from tsviz.tui.clean import shorten
from tsviz.tui.destination import Destination, NoDestination, ToFinding, ToMoment, ToPart, ToRequest, ToRound, parse
from tsviz.tui.lines import Document, Lines, Span, clip, line
from tsviz.tui.scene import Scene
from tsviz.tui.widgets.pane import Pane


class GoTo(ModalScreen[Destination | None]):
    """Answers the destination, or None where the user changed their mind."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Stay here", id="goto.leave", tooltip="Stay where you are")
    ]

    def __init__(self, rounds: int, part: str, parts: Sequence[str] = ()) -> None:
        super().__init__()
        self._rounds = rounds
        self._part, self._parts = part, parts
        self._where: Destination = parse("", rounds, part)

    def compose(self) -> ComposeResult:
        """Place the box."""
        with Vertical(id="goto") as box:
            box.border_title = "Go to"
            yield Input(placeholder="1204   1204.3   45%   12.5s   log time   #finding   request", id="goto-input")
            yield Pane(self._answer, id="goto-answer")

    def on_mount(self) -> None:
        """Say what may be typed."""
        self.query_one(Pane).show(Scene())
        self.query_one(Input).focus()

    def _answer(self, _scene: Scene, width: int, _height: int) -> Document:
        match self._where:
            case ToRound(round_, stop):
                words = f"round {round_:,} of {self._rounds:,}" + (f", stop {stop:,}" if stop is not None else "")
                role = "good"
            case ToPart(part, round_, stop):
                words = f"part {part}, round {round_:,}" + (f", stop {stop:,}" if stop is not None else "")
                role = "good"
            case ToRequest(request):
                words, role = f"request {shorten(request, max(width - 12, 4))}", "accent"
            case ToMoment(words=moment):
                words, role = f"the round at {moment}", "accent"
            case ToFinding(number):
                words, role = f"finding {number:,}", "accent"
            case NoDestination(reason):
                words, role = reason, "dim"
        return Lines((clip(line(Span(f" → {words}", role)), width),))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say where the text leads."""
        self._where = parse(event.value, self._rounds, self._part, self._parts)
        self.query_one(Pane).show(Scene())

    def on_input_submitted(self) -> None:
        """Go there."""
        self.dismiss(self._where)

    def action_leave(self) -> None:
        """Stay."""
        self.dismiss(None)
