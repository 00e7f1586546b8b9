"""A pane whose cells are places: it tells where the pointer is and where it was pressed."""

from __future__ import annotations

from textual import events
from textual.message import Message

from tsviz.tui.widgets.pane import Pane


class GridPane(Pane):
    """A pane that answers with the cell (column, line of the document) under the pointer."""

    class Touched(Message):
        """The pointer is over a cell (`pressed` is false) or was pressed on it; x is None where it left the pane."""

        def __init__(self, x: int | None, y: int, pressed: bool) -> None:
            super().__init__()
            self.x, self.y, self.pressed = x, y, pressed

    def on_click(self, event: events.Click) -> None:
        """Tell what was pressed."""
        where = event.get_content_offset(self)
        if where is not None:
            event.prevent_default()
            self.post_message(self.Touched(where.x, where.y + self.scroll_offset.y, True))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Tell what is under the pointer."""
        where = event.get_content_offset(self)
        if where is not None:
            self.post_message(self.Touched(where.x, where.y + self.scroll_offset.y, False))

    def on_leave(self) -> None:
        """Tell that nothing is."""
        self.post_message(self.Touched(None, 0, False))
