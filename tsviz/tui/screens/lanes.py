"""The timeline of the main screen: which rounds and which lanes it shows, and what a click on it does."""

from __future__ import annotations

from tsviz.tui.panes.timeline import columns, label_cells, rows
from tsviz.tui.screens.stepping import SteppingScreen
from tsviz.tui.strip import LANE_GROUPS, LANE_ORDERS, ROUNDS, TIME
from tsviz.tui.widgets.pane import Pane


class Lanes(SteppingScreen):
    """Moves the window of the timeline, and orders, groups and pins its lanes."""

    @property
    def strip_size(self) -> tuple[int, int]:
        """Cells of rounds and lanes that the timeline has room for."""
        size = self.query_one("#timeline", Pane).size
        return (columns(size.width), rows(size.height).lanes) if size.width and size.height else (0, 0)

    def on_pane_resized(self) -> None:
        """The timeline fetches for the room that it has."""
        self.seek_strip()

    def round_of_cell(self, cell: int) -> int | None:
        """Return the first round that a cell of the timeline shows; None beside it."""
        strip = self.scene.strip
        cell -= label_cells(self.query_one("#timeline", Pane).size.width)
        return None if strip is None or not 0 <= cell < strip.ask.cells else strip.round_at(cell)

    def go_to_cell(self, cell: int) -> None:
        """Go to the first round that a cell of the timeline shows."""
        round_ = self.round_of_cell(cell)
        if round_ is not None:
            self.go(round_, message="")

    def action_zoom_rounds(self, step: int, at: int | None = None) -> None:
        """Show fewer rounds of the timeline around the cursor, or more."""
        scene = self.scene
        middle = scene.window.first + scene.window.size // 2
        inside = scene.window.first <= scene.round <= scene.window.last
        self.put_window(scene.window.zoomed(step, at or (scene.round if inside else middle), scene.whole))

    def action_zoom_all(self) -> None:
        """Show the whole trace in the timeline."""
        self.put_window(self.scene.whole)

    def action_pan(self, step: int) -> None:
        """Move the window of the timeline by a quarter of it."""
        window = self.scene.window
        self.put_window(window.panned(step * max(window.size // 4, 1), self.scene.whole))

    def action_lane_order(self) -> None:
        """Order the lanes in the next way."""
        names = list(LANE_ORDERS)
        self.put(lane_order=names[(names.index(self.scene.lane_order) + 1) % len(names)])
        self.seek_strip()

    def action_lane_group(self) -> None:
        """Group the lanes in the next way."""
        names = list(LANE_GROUPS)
        self.put(lane_group=names[(names.index(self.scene.lane_group) + 1) % len(names)])
        self.seek_strip()

    def action_pool_group(self) -> None:
        """Show the pool of the next group in the timeline, or of all."""
        groups = self.scene.head.groups if self.scene.head is not None else ()
        if len(groups) < 2:
            return self.say("This trace has one group: the pool is its own.")
        order: list[int | None] = [None, *range(len(groups))]
        self.put(pool_group=order[(order.index(self.scene.pool_group) + 1) % len(order)])
        return self.seek_strip()

    def action_reverse(self) -> None:
        """Turn the order of the requests round; in the timeline that of the lanes."""
        if self.scene.focus == "timeline":
            self.put(lane_reverse=not self.scene.lane_reverse)
            return self.seek_strip()
        return self.list_requests(turn=True)

    def action_axis(self) -> None:
        """Let the columns of the timeline be as many rounds, or as much time."""
        self.put(axis=TIME if self.scene.axis == ROUNDS else ROUNDS)
        self.seek_strip()

    def action_pin(self) -> None:
        """Put the selected request first in every list, or back in its place."""
        selected = self.scene.selected
        if selected is None:
            return self.say("No request is selected.")
        self.put(pinned=self.scene.pinned ^ {selected})
        self.list_requests()
        return self.seek_strip()
