"""From one part of a trace to another: the other ranks, and the other node, at the same moment."""

from __future__ import annotations

from functools import partial

from tsviz.replay.recorded.snapshot import RecordedView, TraceHead
from tsviz.tui.destination import ToMoment
from tsviz.tui.opening import Arrival
from tsviz.tui.screens.answers import Answered, Opened
from tsviz.tui.screens.elsewhere import AtMoment, Elsewhere, Landed, at_moment, landed
from tsviz.tui.screens.over import Jump
from tsviz.tui.screens.standing import stands


def moment_of(head: TraceHead, start_ns: int) -> ToMoment | None:
    """Return when a round began, on a clock that other nodes have too; None where the part has none of that kind."""
    if head.wall_zero_ns is not None:
        return ToMoment(head.wall_zero_ns + start_ns - head.zero_ns, True, f"round of {head.node}/{head.rank}")
    return ToMoment(start_ns, False, f"round of {head.node}/{head.rank}") if head.clock == "virtual" else None


def arrived(view: RecordedView, arrival: Arrival) -> Landed:
    """Look for where an arrival leads: its round, else the round of its moment, and the request of its id there."""
    round_, words = arrival.round, arrival.message
    if not round_ and arrival.moment is not None:
        found = at_moment(view, arrival.moment)
        assert isinstance(found, AtMoment)
        round_ = found.round or view.head.first_round
        words = f"{words}: {found.words}" if found.words else words
    held = min(max(round_, view.head.first_round), view.head.rounds)
    if held != round_:
        words += f": that has rounds {view.head.first_round:,} to {view.head.rounds:,}"
    stop = arrival.stop if held == round_ else None
    return landed(view, Jump(held, arrival.request, None, f"{words}.", stop, view=arrival.view))


class Parts(Elsewhere):
    """Goes to other parts of the trace, and comes back."""

    _arrival: Arrival | None = None
    _came_at: ToMoment | None = None
    """The moment at which this part was come to, as long as the cursor stays in its round (`_came_in`)."""
    _came_in = 0

    def arrive(self, arrival: Arrival) -> None:
        """Say where to go: at once, or once the part is open."""
        self._came_at, self._came_in = arrival.moment, 0
        if self.scene.head is not None and self.scene.rounds:
            self.fetcher.do("jump", partial(arrived, arrival=arrival))
        else:
            self._arrival = arrival

    def on_answered(self, message: Answered) -> None:
        """Go where the screen before sent the cursor, once there are rounds."""
        match message.result:
            case Opened(head) if stands(self) and self._arrival is not None and head.rounds:
                arrival, self._arrival = self._arrival, None
                self.fetcher.do("jump", partial(arrived, arrival=arrival))
            case Landed(jump) if self._came_at is not None and not self._came_in:
                self._came_in = jump.round

    def jump(self, jump: Jump | None) -> None:
        """Go where a screen sends the cursor, also to another part."""
        if jump is None or jump.part in ("", self._part):
            return super().jump(jump)
        return self.leave_for(
            jump.part, Arrival(round=jump.round, request=jump.request, message=jump.message, view=jump.view)
        )

    def action_part(self, step: int) -> None:
        """Go to the next part at the same moment: the same round of another rank, the same time of another node."""
        head, frame = self.scene.head, self.scene.frame
        if head is None or frame is None:
            return self.say(self.no_round)
        if len(head.parts) < 2:
            return self.say(f"This trace has one part, {self._part}.")
        part = head.parts[(head.parts.index(self._part) + step) % len(head.parts)]
        fellow = part.partition("/")[0] == head.node
        stayed = self._came_at if frame.snapshot.round == self._came_in else None  # back to where one came from
        moment = None if fellow else stayed or moment_of(head, frame.snapshot.start_ns)
        same = frame.snapshot.round if fellow or moment is None else 0
        words = f"{part} at round {frame.snapshot.round:,} of {self._part}"
        request = self.scene.selected_id
        return self.leave_for(part, Arrival(round=same, moment=moment, request=request, message=words))

    def leave_for(self, part: str, arrival: Arrival) -> None:
        """Show another part; this one stays as it is."""
        self.stop_playing()
        if not self.app.open_part(self._part, part, arrival):  # type: ignore[attr-defined]
            trace = self.study.desk.trace if self.study is not None else self.scene.name
            at = f":{arrival.round}" if arrival.round else ""
            self.say(f"That is in part {part}: tsviz open {trace}@{part}{at}")
