"""Where the panes of the main screen stand: side by side or as tabs, which is in focus, and the line of the filter."""

from __future__ import annotations

from dataclasses import replace

from textual import events
from textual.widget import Widget
from textual.widgets import Input

from tsviz.tui.clean import clean
from tsviz.tui.panes.states import LEAST_COLUMNS, LEAST_ROWS
from tsviz.tui.scene import PANES
from tsviz.tui.screens.stepping import SteppingScreen
from tsviz.tui.widgets.pane import Pane

_COLUMNS_FOR_PANES = 118
_ROWS_FOR_TIMELINE = 20
_TIMELINE_ROWS = ((55, 18), (46, 14), (36, 10), (28, 5), (0, 3))
"""Rows of the timeline by the rows of the terminal."""


class Layout(SteppingScreen):
    """Chooses the layout for the size, moves the focus, and opens and closes the filter."""

    _zoomed = False
    """Whether the pane in focus has the whole screen."""

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout for the size."""
        self.lay_out(event.size.width, event.size.height)

    def lay_out(self, width: int, height: int) -> None:
        """Place the panes in a terminal of this size."""
        small = width < LEAST_COLUMNS or height < LEAST_ROWS
        as_tabs = width < _COLUMNS_FOR_PANES or self._zoomed
        classes = {"-small": small, "-tabs": as_tabs, "-flat": height < _ROWS_FOR_TIMELINE}
        classes |= {f"-on-{pane}": as_tabs and self.scene.focus == pane for pane in PANES}
        if any(self.has_class(name) != wanted for name, wanted in classes.items()):
            for name, wanted in classes.items():
                self.set_class(wanted, name, update=False)
            self.update_node_styles()
        lanes = self.query_one("#timeline", Pane)
        full = as_tabs and self.scene.focus == "timeline"
        lanes.styles.height = "1fr" if full else next(most for least, most in _TIMELINE_ROWS if height >= least)
        self.query_one("#panes").display = not full and not small
        self.put(tabs=as_tabs)
        self.seek_strip()

    def action_pane(self, step: int) -> None:
        """Focus the next or previous pane."""
        self.action_focus_pane(PANES[(PANES.index(self.scene.focus) + step) % len(PANES)])

    def action_focus_pane(self, pane: str) -> None:
        """Focus a pane; as tabs, open it."""
        self._open(pane)
        self.query_one(f"#{pane}", Widget).focus(scroll_visible=False)

    def _open(self, pane: str) -> None:
        if pane != self.scene.focus:
            self.scene = replace(self.scene, focus=pane)
            self.lay_out(self.size.width, self.size.height)

    @property
    def focused_pane(self) -> Pane:
        """The pane in focus."""
        return self.query_one(f"#{self.scene.focus}", Pane)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The pane with the focus is the open tab."""
        if event.widget.id in PANES:
            self._open(event.widget.id)

    def action_zoom(self) -> None:
        """Give the screen to the focused pane, or take it back."""
        self._zoomed = not self._zoomed
        self.lay_out(self.size.width, self.size.height)

    def action_filter(self) -> None:
        """Open the line in which requests are filtered."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        if event.input.id == "filter":
            self.list_requests(filter_=clean(event.value))

    def on_input_submitted(self) -> None:
        """Keep the filter and go back to the list."""
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one("#filter").display = False
        self.action_focus_pane("requests")

    def action_order(self) -> None:
        """Order the requests in the next way."""
        self.next_order()

    def action_up(self) -> None:
        """Forget the keys that wait, clear and leave the filter, or take the zoom back."""
        box = self.query_one("#filter", Input)
        if self.scene.kept:
            self.app.forget()  # type: ignore[attr-defined]
        elif box.display or box.value:
            box.value = ""
            self._close_filter()
        elif self._zoomed:
            self.action_zoom()
