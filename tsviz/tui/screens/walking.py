"""Walking through a trace on the main screen: rounds, stops, marks, and what is selected in the pane in focus."""

from __future__ import annotations

from functools import partial

from tsviz.replay.stops.story import Entry, RoundStory
from tsviz.tui.clean import clean
from tsviz.tui.frame import longest_waits
from tsviz.tui.numbers import counted
from tsviz.tui.panes.batch import round_rows
from tsviz.tui.panes.inspector import VIEWS
from tsviz.tui.panes.phases import entries
from tsviz.tui.screens.layout import Layout


class Walking(Layout):
    """Turns keys and clicks into moves of the cursor."""

    def action_step(self, rounds: int) -> None:
        """Step rounds forward, or back."""
        self.go(self.scene.round + rounds)

    def action_first(self) -> None:
        """Go to the first round that is recorded."""
        self.go(max(self.scene.whole.first, 1))

    def action_last(self) -> None:
        """Go to the last round, of a live trace to the last one when it was opened."""
        live = self.scene.head is not None and self.scene.head.live and self.scene.follow is None
        self.go(self.scene.rounds + 1 if live else self.scene.rounds)

    def action_mark(self, step: int) -> None:
        """Go to the next or previous round of the selected request."""
        self.seek_mark(step)

    def action_play(self) -> None:
        """Play, or stop."""
        self.play_or_stop()

    def action_speed(self, step: int) -> None:
        """Play faster or slower."""
        self.change_speed(step)

    def action_stop(self, step: int) -> None:
        """Step to the next or previous stop."""
        self.step_stop(step)

    def action_fold(self) -> None:
        """Open or close the entry at the cursor of the round."""
        self.when_there(self._fold)

    def _fold(self) -> None:
        entry = self._entry
        if entry is not None:
            self.put(folds=self.scene.folds ^ {entry.stops[0].number})

    def action_move(self, step: int) -> None:
        """Select the next request of the list, or the next entry of the round; scroll the inspector."""
        if self.scene.focus == "inspector":
            self.focused_pane.scroll_relative(y=step, animate=False)
        else:
            self.when_there(partial(self._move, step))

    def _move(self, step: int) -> None:
        frame = self.scene.frame
        if frame is not None and self.scene.focus == "round":
            self._move_in_round(step)
        elif frame is not None:
            line = frame.neighbour(self.scene.selected, step)
            if line is not None:
                self.select(line.submission, line.request)

    def _move_in_round(self, step: int) -> None:
        """Walk the entries of the round; where they are not known, the rows of the batch."""
        frame = self.scene.frame
        assert frame is not None
        if isinstance(frame.story, RoundStory):
            found = entries(frame.story)
            here = self._entry
            if found:
                edge = 0 if step > 0 else len(found) - 1
                place = edge if here is None else min(max(found.index(here) + step, 0), len(found) - 1)
                self.put_stop(found[place].stops[0].number)
            return
        rows = round_rows(frame.snapshot)
        at = next((i for i, row in enumerate(rows) if row.submission == self.scene.selected), None)
        if rows:
            place = (0 if step > 0 else -1) if at is None else min(max(at + step, 0), len(rows) - 1)
            self.select(rows[place].submission, rows[place].request)

    @property
    def _entry(self) -> Entry | None:
        """The entry at the cursor: that of the stop, else the first of the selected request."""
        frame, stop = self.scene.frame, self.scene.stop
        story = frame.story if frame is not None else None
        if not isinstance(story, RoundStory):
            return None
        for entry in entries(story):
            if stop is not None and entry.stops[0].number <= stop <= entry.stops[-1].end:
                return entry
            if stop is None and entry.submission == self.scene.selected:
                return entry
        return None

    def action_page(self, step: int) -> None:
        """One screenful: of requests where the list has the focus, of lines elsewhere."""
        screenful = max(self.focused_pane.size.height - 1, 1)
        if self.scene.focus == "requests":
            self.action_move(step * screenful)
        else:
            self.focused_pane.scroll_relative(y=step * screenful, animate=False)

    def action_view(self, view: str) -> None:
        """Open a view of the inspector."""
        self.put(view=view)
        self.action_focus_pane("inspector")
        self.seek_detail()

    def show_view(self, view: str) -> None:
        """Open a view in the inspector, and as tabs the inspector."""
        self.put(view=view)
        if self.scene.tabs:
            self.action_focus_pane("inspector")

    def action_waits(self) -> None:
        """Select who waits longest in this round, or behind the selected one of them the next, and say why."""
        self.when_there(self._waits)

    def _waits(self) -> None:
        frame = self.scene.frame
        if frame is None:
            return self.say(self.no_round)
        preparing = frame.snapshot.preparing
        if preparing is not None:
            words = "this large trace is being indexed."
            return self.say(f"Requests are not known: {preparing.error or preparing.words or words}")
        waiting = longest_waits(frame.snapshot)
        if not waiting:
            return self.say("Nobody waits in this round.")
        numbers = [request.submission for request in waiting]
        here = numbers.index(self.scene.selected) + 1 if self.scene.selected in numbers else 0
        request = waiting[here % len(waiting)]
        self.select(request.submission, request.request)
        self.action_view("why")
        place = f"{here % len(waiting) + 1:,} of {counted(len(waiting), 'request')}"
        known = frame.snapshot.decisions != "none"
        words = "that wait, longest first." if known else f"without a row, oldest first; {self._remedy}"
        return self.say(f"{clean(request.request)}: {place} {words}")

    @property
    def _remedy(self) -> str:
        """What tells why requests wait where decisions are not known."""
        scene = self.scene
        if scene.head is not None and scene.head.frontier.divergence:
            return "why is not known from the divergence on."
        return "why is being derived." if scene.to_verify or scene.verifying else "tsviz index derives why."

    def action_next_view(self, step: int) -> None:
        """Open the next or previous view of the inspector."""
        names = list(VIEWS)
        self.action_view(names[(names.index(self.scene.view) + step) % len(names)])

    def select_submission(self, submission: int) -> None:
        """Select a request of the round that is shown."""
        frame = self.scene.frame
        if frame is None:
            return
        line = frame.request(submission)
        name = (
            line.request if line else next((r.request for r in frame.snapshot.rows if r.submission == submission), "")
        )
        self.select(submission, name)

    def select_named(self, request: str) -> None:
        """Select the latest request of this id in the round that is shown."""
        frame = self.scene.frame
        if frame is not None:
            found = next((r for r in reversed(frame.snapshot.requests) if r.request == request), None)
            if found is not None:
                self.select(found.submission, found.request)
