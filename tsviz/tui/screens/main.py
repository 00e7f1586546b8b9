"""The main screen: where panes stand, and what keys and clicks do."""

from __future__ import annotations

import os
from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input

from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.tui.fetch import Failure
from tsviz.tui.frame import LAST
from tsviz.tui.keys import AT_ONCE, FIRST_AT_ONCE, Key, bindings, offered_first
from tsviz.tui.opening import NothingYet, Opening
from tsviz.tui.panes.bottom import TITLES, bottom, named, tabs
from tsviz.tui.panes.header import header
from tsviz.tui.panes.inspector import inspector, view_tabs
from tsviz.tui.panes.pool import pool
from tsviz.tui.panes.requests import requests, requests_title
from tsviz.tui.panes.round import round_pane
from tsviz.tui.panes.states import too_small
from tsviz.tui.panes.timeline import timeline
from tsviz.tui.screens.answers import Answered, Opened, opened
from tsviz.tui.screens.clicks import Clicks
from tsviz.tui.screens.following import Following
from tsviz.tui.screens.going import Going
from tsviz.tui.screens.pages_open import open_pages
from tsviz.tui.screens.sheet import Sheet
from tsviz.tui.widgets.kept import Box
from tsviz.tui.widgets.pane import Pane


class Row(Horizontal):
    """Panes side by side; they cover it, so that nothing of its own is drawn."""

    BLANK = True


class MainScreen(Following, Going, Clicks):
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
        self._panes: tuple[Pane, ...] = ()
        offered = tuple(map(named, offered_first(keys)))
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
            case Failure("open", _, NothingYet() as nothing):
                self.wait_for_part(str(nothing))
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

    def on_key(self) -> None:
        """A message lasts until the next key."""
        if self.scene.message:
            self.put(message="")

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
        from tsviz.tui.panes.sheets import legend_lines

        self.app.push_screen(Sheet("Legend", legend_lines))

    def action_help(self) -> None:
        """Show every key."""
        from tsviz.tui.panes.sheets import help_lines

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
