"""What the main screen knows of the other screens: it opens them, and takes the cursor where they send it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tsviz.replay.snapshot import RecordedView
from tsviz.tui.clean import clean
from tsviz.tui.desk import Desk
from tsviz.tui.jobs import Told
from tsviz.tui.panes.finding_lines import badge
from tsviz.tui.screens.answers import Answered, Opened
from tsviz.tui.screens.findings import FindingsScreen
from tsviz.tui.screens.lost import LostScreen
from tsviz.tui.screens.over import Jump
from tsviz.tui.screens.sql import SqlScreen
from tsviz.tui.screens.stepping import SteppingScreen
from tsviz.tui.study import Study

_BEFORE_CHECKS_S = 0.5
"""The first frame is drawn before the checks begin to take the processor."""


@dataclass(frozen=True, slots=True)
class Landed:
    """Where a jump leads: the round, and the submission of its request there if it is listed there."""

    jump: Jump
    submission: int | None


def landed(view: RecordedView, jump: Jump) -> Landed:
    """Look for the request of a jump in its round."""
    if jump.submission is not None or not jump.request:
        return Landed(jump, jump.submission)
    lines = view.snapshot(jump.round).requests
    return Landed(jump, next((r.submission for r in reversed(lines) if r.request == jump.request), None))


class Elsewhere(SteppingScreen):
    """Opens the other screens. `desk` is None where the view is no trace on disk."""

    def attend(self, desk: Desk | None, keymap: dict[str, str]) -> None:
        """Take the desk and the user's keys; called once, before the screen is mounted."""
        self.study = None if desk is None else Study(desk, self.post_message)
        self._keymap = keymap

    def on_answered(self, message: Answered) -> None:
        """Check the trace once it is open; arrive where a jump leads."""
        match message.result:
            case Opened(head) if head.rounds and self.study is not None and not self.study.findings.known.asked:
                self.study.listen(self._badge)
                self.set_timer(_BEFORE_CHECKS_S, self._check)
            case Landed(jump, submission):
                if submission is not None:
                    self.scene = replace(self.scene, selected=submission, selected_id=jump.request)
                self.go(jump.round, message=clean(jump.message), message_role="message")

    def _check(self) -> None:
        if self.study is not None and not self.study.findings.known.asked:
            self.study.ask_findings()

    def _badge(self) -> None:
        if self.study is not None:
            words, role = badge(self.study.findings)
            if self.scene.badge != (words, role):
                self.put(badge=(words, role))

    def on_told(self, message: Told) -> None:
        """Keep what a job of the study says."""
        if self.study is not None:
            self.study.take(message)

    def on_unmount(self) -> None:
        """End the jobs."""
        if self.study is not None:
            self.study.close()

    def jump(self, jump: Jump | None) -> None:
        """Go where a screen sends the cursor; None stays."""
        if jump is not None:
            self.stop_playing()
            self.fetcher.do("jump", partial(landed, jump=jump))

    def _studied(self) -> Study | None:
        if self.study is None:
            self.say("This view is no trace on disk: it can be stepped through, and nothing more is asked of it.")
        return self.study

    @property
    def _part(self) -> str:
        head = self.scene.head
        return "" if head is None else f"{head.node}/{head.rank}"

    def action_findings(self) -> None:
        """Open the findings."""
        study = self._studied()
        if study is not None:
            self.app.push_screen(FindingsScreen(study, self._part, self._keymap), self.jump)

    def action_sql(self) -> None:
        """Open SQL."""
        study = self._studied()
        if study is not None:
            self.app.push_screen(SqlScreen(study, self._part, self._keymap), self.jump)

    def action_lost(self) -> None:
        """Open lost time."""
        study = self._studied()
        if study is not None:
            self.app.push_screen(LostScreen(study, self._keymap), self.jump)
