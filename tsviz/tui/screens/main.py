"""The main screen: where panes stand, and what keys and clicks do."""

from __future__ import annotations

import os
from dataclasses import replace

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.replay.stops.story import Entry, RoundStory
from tsviz.tui.clean import clean
from tsviz.tui.destination import Destination, NoDestination, ToFinding, ToMoment, ToRequest, ToRound
from tsviz.tui.fetch import Failure
from tsviz.tui.frame import LAST
from tsviz.tui.keys import AT_ONCE, FIRST_AT_ONCE, Key, bindings, display
from tsviz.tui.opening import Opening
from tsviz.tui.panes.batch import round_rows
from tsviz.tui.panes.bottom import TITLES, bottom, tabs
from tsviz.tui.panes.header import header
from tsviz.tui.panes.inspector import VIEWS, inspector, view_tabs
from tsviz.tui.panes.phases import entries
from tsviz.tui.panes.pool import pool
from tsviz.tui.panes.requests import requests, requests_title
from tsviz.tui.panes.round import round_pane
from tsviz.tui.panes.sheets import help_lines, legend_lines
from tsviz.tui.panes.states import LEAST_COLUMNS, LEAST_ROWS, too_small
from tsviz.tui.panes.timeline import columns, label_cells, rows, timeline
from tsviz.tui.scene import PANES
from tsviz.tui.screens.answers import Answered, Opened, opened
from tsviz.tui.screens.elsewhere import Elsewhere
from tsviz.tui.screens.following import Following
from tsviz.tui.screens.goto import GoTo
from tsviz.tui.screens.pages_open import open_pages
from tsviz.tui.screens.sheet import Sheet
from tsviz.tui.strip import LANE_GROUPS, LANE_ORDERS, ROUNDS, TIME
from tsviz.tui.widgets.kept import Box
from tsviz.tui.widgets.pane import Pane

_COLUMNS_FOR_PANES = 118
_ROWS_FOR_TIMELINE = 20
_TIMELINE_ROWS = ((55, 18), (46, 14), (36, 10), (28, 5), (0, 3))
"""Rows of the timeline by the rows of the terminal."""


class Row(Horizontal):
    """Panes side by side; they cover it, so that nothing of its own is drawn."""

    BLANK = True


class MainScreen(Following, Elsewhere):
    """Header, timeline, three panes (tabs where it is narrow), pool, and the last line."""

    AUTO_FOCUS = ""  # `on_mount` says where to begin; the toolkit would begin with the first pane, and lay out twice
    BLANK = True

    BINDINGS = bindings()

    def __init__(
        self,
        view: RecordedView | Opening,
        start_round: int,
        request: str | None,
        keys: tuple[Key, ...],
        start_stop: int | None = None,
    ) -> None:
        super().__init__(view, start_round, request, start_stop)
        self.keys = keys
        self._zoomed = False
        self._panes: tuple[Pane, ...] = ()
        offered = tuple((display(k.keys).split(" ")[0], k.word, k.action) for k in keys if k.word)
        self.scene = replace(self.scene, keys=offered)

    def compose(self) -> ComposeResult:
        """Place the panes."""
        yield Pane(too_small, id="small")
        yield Pane(header, id="header", wheel_steps=True)
        yield Pane(timeline, id="timeline", wheel_steps=True, focusable=True)
        yield Pane(tabs, id="tabs")
        with Row(id="panes"):
            with Box(id="requests-box") as box:
                box.border_title = TITLES["requests"]
                yield Pane(requests_title, id="requests-title")
                yield Pane(requests, id="requests", focusable=True)
            with Box(id="round-box") as box:
                box.border_title = TITLES["round"]
                yield Pane(round_pane, id="round", focusable=True)
            with Box(id="inspector-box") as box:
                box.border_title = TITLES["inspector"]
                yield Pane(view_tabs, id="views")
                yield Pane(inspector, id="inspector", focusable=True)
        yield Input(
            placeholder="words of an id or a state, Enter keeps, Esc clears", id="filter", select_on_focus=False
        )
        yield Pane(pool, id="pool")
        yield Pane(bottom, id="bottom")

    def on_answered(self, message: Answered) -> None:
        """Take what was opened while the screen was there; what cannot be opened ends the application."""
        subject = self.fetcher.subject
        match message.result:
            case Opened() if subject is not None and self.study is None:
                self.attend(subject.desk, self._keymap, self._other)
                wanted = self.scene.follow is not None and self.scene.follow.running
                self.scene = replace(self.scene, follow=None)
                self.follow(subject.follower, running=wanted)
                if wanted and subject.follower is None and self.scene.round == LAST:
                    self.scene = replace(self.scene, round=1)
            case Failure("open", _, Exception() as raised) if self.fetcher.opens_late and subject is None:
                self.app.fail(raised)  # type: ignore[attr-defined]

    def on_mount(self) -> None:
        """Start with the requests in focus."""
        self._panes = tuple(self.query(Pane))  # a query walks over everything, and every key shows the scene anew
        self.query_one("#filter").display = False
        self.action_focus_pane("requests")

    def redraw(self, *panes: str) -> None:
        """Hand the scene to panes; once there is one to answer keys from, those that waited for it are answered."""
        for pane in self._panes:
            if not panes or pane.id in panes:
                pane.show(self.scene)
        self._release()

    def on_screen_resume(self) -> None:
        """Answer the keys that waited while another screen lay over this one."""
        self._release()

    def _release(self) -> None:
        if self.scene.kept and self._ready and self.app.screen is self:
            self.app.call_later(self.app.release)  # type: ignore[attr-defined]

    @property
    def _ready(self) -> bool:
        """Whether there is a round to show, or will be none."""
        scene = self.scene
        return scene.frame is not None or bool(scene.error) or (scene.head is not None and not scene.rounds)

    def keeps(self, key: str, after: tuple[str, ...]) -> bool:
        """Whether a key waits for the trace, which is being opened; what is typed into the filter does not."""
        if self._ready or isinstance(self.focused, Input):
            return False
        bound = self.active_bindings.get(key)
        at_once = AT_ONCE if after else AT_ONCE | FIRST_AT_ONCE
        return bool(after) if bound is None else bound.binding.action not in at_once

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout for the size."""
        self._lay_out(event.size.width, event.size.height)

    def _lay_out(self, width: int, height: int) -> None:
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

    @property
    def strip_size(self) -> tuple[int, int]:
        """Cells of rounds and lanes that the timeline has room for."""
        size = self.query_one("#timeline", Pane).size
        return (columns(size.width), rows(size.height).lanes) if size.width and size.height else (0, 0)

    def on_pane_resized(self) -> None:
        """The timeline fetches for the room that it has."""
        self.seek_strip()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The pane with the focus is the open tab."""
        if event.widget.id in PANES:
            self._open(event.widget.id)

    def on_key(self) -> None:
        """A message lasts until the next key."""
        if self.scene.message:
            self.put(message="")

    async def on_pane_chosen(self, event: Pane.Chosen) -> None:
        """Do what was clicked."""
        match event.target:
            case ("request", int() as submission):
                self._select_submission(submission)
            case ("round", int() as round_):
                self.go(round_, message="")
            case ("lane", int() as submission):
                self._select_submission(submission)
                self._go_to_cell(event.cell)
            case ("column", _):
                self._go_to_cell(event.cell)
            case ("zoom", int() as step):
                self.action_zoom_rounds(step, self._round_of_cell(event.cell))
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
                self._select_named(request)
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

    def _select_submission(self, submission: int) -> None:
        frame = self.scene.frame
        if frame is None:
            return
        line = frame.request(submission)
        name = (
            line.request if line else next((r.request for r in frame.snapshot.rows if r.submission == submission), "")
        )
        self.select(submission, name)

    def _round_of_cell(self, cell: int) -> int | None:
        strip = self.scene.strip
        cell -= label_cells(self.query_one("#timeline", Pane).size.width)
        return None if strip is None or not 0 <= cell < strip.ask.cells else strip.round_at(cell)

    def _go_to_cell(self, cell: int) -> None:
        round_ = self._round_of_cell(cell)
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

    def action_pool_group(self) -> None:
        """Show the pool of the next group in the timeline, or of all."""
        groups = self.scene.head.groups if self.scene.head is not None else ()
        if len(groups) < 2:
            return self.say("This trace has one group: the pool is its own.")
        order: list[int | None] = [None, *range(len(groups))]
        self.put(pool_group=order[(order.index(self.scene.pool_group) + 1) % len(order)])
        return self.seek_strip()

    def action_pin(self) -> None:
        """Put the selected request first in every list, or back in its place."""
        selected = self.scene.selected
        if selected is None:
            return self.say("No request is selected.")
        self.put(pinned=self.scene.pinned ^ {selected})
        self.list_requests()
        return self.seek_strip()

    def _select_named(self, request: str) -> None:
        frame = self.scene.frame
        if frame is not None:
            found = next((r for r in reversed(frame.snapshot.requests) if r.request == request), None)
            if found is not None:
                self.select(found.submission, found.request)

    def action_stop(self, step: int) -> None:
        """Step to the next or previous stop."""
        self.step_stop(step)

    def action_view(self, view: str) -> None:
        """Open a view of the inspector."""
        self.put(view=view)
        self.action_focus_pane("inspector")
        self.seek_detail()

    def action_next_view(self, step: int) -> None:
        """Open the next or previous view of the inspector."""
        names = list(VIEWS)
        self.action_view(names[(names.index(self.scene.view) + step) % len(names)])

    def action_fold(self) -> None:
        """Open or close the entry at the cursor of the round."""
        entry = self._entry
        if entry is not None:
            self.put(folds=self.scene.folds ^ {entry.stops[0].number})

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

    def action_move(self, step: int) -> None:
        """Select the next request of the list, or the next entry of the round; scroll the inspector."""
        frame = self.scene.frame
        if self.scene.focus == "inspector":
            self._pane.scroll_relative(y=step, animate=False)
        elif frame is not None and self.scene.focus == "round":
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
        screenful = max(self._pane.size.height - 1, 1)
        if self.scene.focus == "requests":
            self.action_move(step * screenful)
        else:
            self._pane.scroll_relative(y=step * screenful, animate=False)

    @property
    def _pane(self) -> Pane:
        return self.query_one(f"#{self.scene.focus}", Pane)

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
            self._lay_out(self.size.width, self.size.height)

    def action_zoom(self) -> None:
        """Give the screen to the focused pane, or take it back."""
        self._zoomed = not self._zoomed
        self._lay_out(self.size.width, self.size.height)

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

    def action_goto(self) -> None:
        """Ask where to go."""
        head = self.scene.head
        part = f"{head.node}/{head.rank}" if head else ""
        self.app.push_screen(GoTo(self.scene.rounds, part), self._gone)

    def _gone(self, destination: Destination | None) -> None:
        match destination:
            case ToRound(round_, stop):
                self.go(round_, stop=stop, message="")
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

    def action_retry(self) -> None:
        """Open the trace and read the round again, or look again whether there is one; say if it was replaced."""
        if self.scene.rounds:
            if self.study is not None:
                self.fetcher.renew(self.study.desk.view)
            self.go(self.scene.round, message="")
        else:
            self.put(loading=True, error="")
            self.fetcher.do("open", opened)

    def action_legend(self) -> None:
        """Show what each glyph means."""
        self.app.push_screen(Sheet("Legend", legend_lines))

    def action_help(self) -> None:
        """Show every key."""
        self.app.push_screen(Sheet("Help", lambda width: help_lines(self.keys, width)))

    def action_pages(self) -> None:
        """Open the map of all pages."""
        open_pages(self, self._keymap)

    async def action_theme(self) -> None:
        """Take the next theme."""
        if self.app.no_color and "NO_COLOR" in os.environ:
            return self.say("NO_COLOR is set: nothing is coloured.")
        await self.app.run_action("next_theme")
        return self.say(f"Theme {self.app.theme.removeprefix('tsviz-')}.")
