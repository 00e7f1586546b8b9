"""What a click on a pane of the main screen does."""

from __future__ import annotations

from tsviz.tui.screens.lanes import Lanes
from tsviz.tui.screens.walking import Walking
from tsviz.tui.widgets.pane import Pane


class Clicks(Walking, Lanes):
    """Turns what was clicked into moves."""

    async def on_pane_chosen(self, event: Pane.Chosen) -> None:
        """Do what was clicked."""
        match event.target:
            case ("request", int() as submission):
                self.select_submission(submission)
            case ("round", int() as round_):
                self.go(round_, message="")
            case ("lane", int() as submission):
                self.select_submission(submission)
                self.go_to_cell(event.cell)
            case ("column", _):
                self.go_to_cell(event.cell)
            case ("zoom", int() as step):
                self.action_zoom_rounds(step, self.round_of_cell(event.cell))
            case ("pan", int() as step):
                self.action_pan(step)
            case ("stop", int() as stop):
                self.put_stop(stop)
            case ("fold", int() as stop):
                self.put(folds=self.scene.folds ^ {stop})
            case ("position", str() as position):
                at, _, inside = position.partition(".")
                self.go(int(at), stop=int(inside) if inside else None, message="")
            case ("name", str() as request):
                self.select_named(request)
            case ("order", str() as order):
                self.list_requests(order=order, turn=order == self.scene.order)
            case ("view", str() as view):
                self.action_view(view)
            case ("step", int() as step):
                self.go(self.scene.round + step)
            case ("pane", str() as pane):
                self.action_focus_pane(pane)
            case ("action", str() as action):
                await self.run_action(action)
