"""Where the cursor is sent on the main screen: by what is typed into "go to", and the position that is copied."""

from __future__ import annotations

from tsviz.tui.clean import clean
from tsviz.tui.destination import Destination, NoDestination, ToFinding, ToMoment, ToPart, ToRequest, ToRound
from tsviz.tui.opening import Arrival
from tsviz.tui.screens.goto import GoTo
from tsviz.tui.screens.parts import Parts


class Going(Parts):
    """Asks where to go, and goes there."""

    def action_goto(self) -> None:
        """Ask where to go."""
        head = self.scene.head
        part = f"{head.node}/{head.rank}" if head else ""
        self.app.push_screen(GoTo(self.scene.rounds, part, head.parts if head else ()), self._gone)

    def _gone(self, destination: Destination | None) -> None:
        match destination:
            case ToRound(round_, stop):
                self.go(round_, stop=stop, message="")
            case ToPart(part, round_, stop):
                words = f"{part} at round {round_:,}"
                self.leave_for(part, Arrival(round=round_, stop=stop, request=self.scene.selected_id, message=words))
            case ToRequest(request):
                self.seek_request(request)
            case ToMoment() as moment:
                self.seek_moment(moment)
            case ToFinding(number):
                self.go_to_finding(number)
            case NoDestination(reason):
                self.say(f"Nowhere to go: {reason}.", "bad")

    def action_copy(self) -> None:
        """Copy the position as any command takes it."""
        head = self.scene.head
        if head is None or self.scene.frame is None:
            return self.say("There is no position yet.")
        part = f"{head.node}/{head.rank}:" if len(head.parts) > 1 else ""
        position = clean(f"{head.name}@{part}{self.scene.position}")
        self.app.copy_to_clipboard(position)
        return self.say(f"Copied {position} (the terminal must allow it).")
