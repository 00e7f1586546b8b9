"""What the main screen knows of the other screens: it opens them, and takes the cursor where they send it.

They are imported when they are opened: until the header is drawn every import is waited for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.replay.survey.ask import Extent, Progress
from tsviz.tui.clean import clean
from tsviz.tui.desk import Desk
from tsviz.tui.destination import ToMoment
from tsviz.tui.fetch import Renewed
from tsviz.tui.jobs import Done, Told
from tsviz.tui.notes import Note
from tsviz.tui.own_marks import with_own
from tsviz.tui.panes.finding_lines import badge, told_count
from tsviz.tui.screens.answers import Answered, Opened
from tsviz.tui.screens.ask_line import AskLine
from tsviz.tui.screens.over import Jump
from tsviz.tui.screens.standing import stands
from tsviz.tui.screens.stepping import SteppingScreen
from tsviz.tui.screens.to_finding import jump_to
from tsviz.tui.strip import Strip
from tsviz.tui.study import Study
from tsviz.tui.trail import Spot, Trail
from tsviz.tui.view import Clocked

_DERIVE_ROUNDS = 200_000
"""A longer trace is re-executed when somebody asks for it: minutes of a processor."""
_BEFORE_CHECKS_S = 0.5
"""The first frame is drawn before the checks begin to take the processor."""
_CHECKED_ROUNDS = 50_000
"""Longer traces are checked when the findings are opened: their checks take minutes and a gigabyte."""
_A_STEP = 1
"""Moves of so many rounds are steps; what is longer is a jump, which one may go back from."""


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


@dataclass(frozen=True, slots=True)
class AtMoment:
    """Where a moment leads: the round and a note, or the reason why nowhere."""

    moment: ToMoment
    round: int | None
    words: str


def at_moment(view: RecordedView, moment: ToMoment) -> AtMoment:
    """Look for the round of a moment."""
    if not isinstance(view, Clocked):
        return AtMoment(moment, None, "the times of this view are not known")
    from tsviz.replay.moments import NoMoment

    time_ns, head = moment.time_ns, view.head
    if moment.lacks and head.wall_zero_ns is not None:
        end_ns = view.snapshot(head.rounds).start_ns - head.zero_ns
        time_ns = moment.within(head.wall_zero_ns, head.wall_zero_ns + end_ns)
    found = view.round_at(time_ns, wall=moment.wall)
    if isinstance(found, NoMoment):
        return AtMoment(moment, None, found.reason)
    return AtMoment(moment, found.round, found.note)


class Elsewhere(SteppingScreen):
    """Opens the other screens. `study` is None where the view is no trace on disk."""

    _begun = False
    """Whether the trace is being checked: it has rounds."""
    _grows = False
    """Whether what was checked is being recorded still."""

    def attend(self, desk: Desk | None, keymap: dict[str, str], other: str = "") -> None:
        """Take the desk, the user's keys and the trace to compare with; called once, before the screen is mounted."""
        self._other = other
        self.study = None if desk is None else Study(desk, self.post_message)
        self.trail = Trail()
        self._keymap = keymap

    # What comes in

    def on_answered(self, message: Answered) -> None:
        """Check the trace once it is open; arrive where a jump leads."""
        if not stands(self):
            return
        match message.result:
            case Opened(head) | Renewed(head) if head.rounds and self.study is not None and not self._begun:
                self._begun, self._grows = True, head.live
                self._begin(self.study)
            case Renewed(head) if not head.live and self._grows and self.study is not None:
                self._grows = False
                self._ended(self.study)
            case AtMoment(_, None, reason):
                self.say(f"Nowhere to go: {reason}.", "bad")
            case AtMoment(moment, int() as round_, note):
                words = f"Round {round_:,} was under way at {clean(moment.words)}"
                self.go(round_, message=f"{words}: {note}." if note else f"{words}.", message_role="message")
            case Landed(jump, submission):
                if submission is not None:
                    self.scene = replace(self.scene, selected=submission, selected_id=jump.request)
                if jump.view:
                    self.show_view(jump.view)
                self.go(jump.round, jump.stop, message=clean(jump.message), message_role="message")

    def _begin(self, study: Study) -> None:
        """Check the trace, now that there is a round of it, and compare it where that is wanted."""
        study.listen(self._studied_more)
        self._studied_more()
        self.set_timer(_BEFORE_CHECKS_S, self._check)
        if self._other:
            study.ask_compare(self._other)
            self.action_compare()

    def _check(self) -> None:
        study, head = self.study, self.scene.head
        if study is None or head is None or study.findings.known.asked:
            return
        if head.rounds <= _CHECKED_ROUNDS or head.frontier.source == "derived":  # these are kept beside the index
            study.ask_findings()
        elif head.frontier.source == "none" and not head.live and head.rounds <= _DERIVE_ROUNDS:
            study.ask_decisions()
        study.ask_hits(anew=False)
        self._studied_more()

    def _ended(self, study: Study) -> None:
        """Look anew at a recording that was followed to its end, as at one that was opened then."""
        if study.findings.known.asked:
            study.ask_findings()
        self._check()
        study.ask_hits()

    def _studied_more(self) -> None:
        study = self.study
        if study is None:
            return
        known = study.derived
        progress = None if not known.running else (0, 0) if known.progress is None else known.progress
        verifying = (progress.done, progress.total) if isinstance(progress, Progress) else progress
        shown = {
            "badge": badge(study.findings, self._part if self._grows else ""),
            "verifying": verifying,
            "to_verify": self._will_derive(study),
        }
        changes: dict[str, object] = {k: v for k, v in shown.items() if getattr(self.scene, k) != v}
        if self.scene.strip is not None and with_own(self.scene.strip, study, self._part) != self.scene.strip:
            changes["strip"] = self.scene.strip
        if changes:
            self.put(**changes)

    def _will_derive(self, study: Study) -> bool:
        """Whether decisions will be derived once the checks have told that there are none."""
        head, checks = self.scene.head, study.findings.known
        if head is None or head.live or head.frontier.source != "none" or head.rounds > _DERIVE_ROUNDS:
            return False
        return not study.derived.asked and (not checks.asked or checks.running or checks.derivable)

    def put(self, *panes: str, **changes: object) -> None:
        """Replace parts of the scene; a timeline gets the marks that are the user's own."""
        strip = changes.get("strip")
        if isinstance(strip, Strip) and self.study is not None:
            changes["strip"] = with_own(strip, self.study, self._part)
        super().put(*panes, **changes)

    def on_told(self, message: Told) -> None:
        """Keep what a job of the study says; derive decisions where there are none, and look at them once they are."""
        study, head = self.study, self.scene.head
        if study is None or not stands(self):
            return
        study.take(message)
        if head is None or head.frontier.source != "none":
            return
        match message.kind, message.value:
            case "findings", Done() if study.findings.known.derivable and not head.live:
                if head.rounds <= _DERIVE_ROUNDS:
                    study.ask_decisions()
            case "derive", Done() if any(extent.source == "derived" for extent in study.derived.extents):
                self.fetcher.renew(study.desk.view)
                study.ask_hits()
                if head.rounds <= _CHECKED_ROUNDS or study.findings.known.asked:
                    study.ask_findings()
                if study.lost.known.derivable:
                    study.ask_lost()
            case _, Extent(part, "derived") if part == self._part and message.kind != "derive":
                self.fetcher.renew(study.desk.view)

    def on_unmount(self) -> None:
        """End the jobs."""
        if self.study is not None:
            self.study.close()

    # Where the cursor was

    @property
    def _spot(self) -> Spot:
        return Spot(self.scene.round, self.scene.stop, self.scene.selected)

    def go(self, round_: int, stop: int | None = None, **changes: object) -> None:
        """Move, and remember what a jump left."""
        jumps = abs(round_ - self.scene.round) > _A_STEP and not self.scene.play_rounds_per_second
        if jumps and self.scene.frame is not None:
            self.trail.left(self._spot)
        super().go(round_, stop, **changes)

    def action_trail(self, step: int) -> None:
        """Go back to where the cursor was, or forward again."""
        spot = self.trail.back(self._spot) if step < 0 else self.trail.forward(self._spot)
        if spot is None:
            return self.say("There is no place to go back to." if step < 0 else "There is no place to go forward to.")
        if spot.submission is not None and spot.submission != self.scene.selected:
            self.scene = replace(self.scene, selected=spot.submission, selected_id="")
        return super().go(spot.round, spot.stop, message="")

    def jump(self, jump: Jump | None) -> None:
        """Go where a screen sends the cursor; None stays."""
        if jump is not None:
            self.stop_playing()
            self.fetcher.do("jump", partial(landed, jump=jump))

    def seek_moment(self, moment: ToMoment) -> None:
        """Look for the round of a moment."""
        self.fetcher.do("moment", partial(at_moment, moment=moment))

    def go_to_finding(self, number: int) -> None:
        """Go to a finding by its number in the list."""
        study = self._studied()
        if study is None:
            return None
        found = study.findings.found
        if number > len(found):
            return self.say(f"Nowhere to go: {told_count(study.findings)}.", "bad")
        one = found[number - 1]
        return self.jump(jump_to(one, one.rounds[0]))

    # The other screens

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
            from tsviz.tui.screens.findings import FindingsScreen

            self.app.push_screen(FindingsScreen(study, self._part, self._keymap), self.jump)

    def action_sql(self) -> None:
        """Open SQL."""
        study = self._studied()
        if study is not None:
            from tsviz.tui.screens.sql import SqlScreen

            self.app.push_screen(SqlScreen(study, self._part, self._keymap), self.jump)

    def action_compare(self) -> None:
        """Open the comparison."""
        study = self._studied()
        if study is not None:
            from tsviz.tui.screens.compare import CompareScreen

            self.app.push_screen(CompareScreen(study, self._keymap), self.jump)

    def action_lost(self) -> None:
        """Open lost time."""
        study = self._studied()
        if study is not None:
            from tsviz.tui.screens.lost import LostScreen

            self.app.push_screen(LostScreen(study, self._keymap), self.jump)

    def action_watches(self) -> None:
        """Open breakpoints and watches."""
        study, scene = self._studied(), self.scene
        if study is not None:
            from tsviz.tui.screens.watches import Here, WatchesScreen

            here = Here(scene.round, scene.stop, scene.rounds, scene.selected_id)
            self.app.push_screen(WatchesScreen(study, here, self._keymap), self.jump)

    def action_hit(self, step: int) -> None:
        """Continue to the next hit of all breakpoints, or back to the previous one."""
        study = self._studied()
        if study is None:
            return None
        if not any(watch.enabled for watch in study.watches.all):
            return self.say("There is no breakpoint: b adds one.")
        study.ask_hits(anew=False)
        found = study.watches.beside(self.scene.round, self.scene.stop, step)
        if found is not None:
            from tsviz.tui.screens.watches import hit_jump

            return self.jump(hit_jump(*found))
        if any(watch.running for watch in study.watches.all):
            return self.say("The hits are being looked for.")
        return self.say(f"No breakpoint has a hit {'behind' if step > 0 else 'before'} here.")

    def action_note(self) -> None:
        """Ask for words about the place of the cursor."""
        study, scene = self._studied(), self.scene
        if study is None or not scene.rounds:
            return
        note = study.notes.at(scene.round, scene.stop) or Note(scene.round, scene.stop, "", scene.selected_id)

        def noted(text: str | None) -> None:
            if text is not None:
                study.put_note(replace(note, text=text))
                self.say(study.notes.problem or f"Noted at {note.position}.")

        self.app.push_screen(AskLine(f"Note at {note.position}", "no words: a bookmark", note.text), noted)

    def action_notes(self) -> None:
        """Open all notes."""
        study = self._studied()
        if study is not None:
            from tsviz.tui.screens.notes import NotesScreen

            self.app.push_screen(NotesScreen(study, self._keymap), self.jump)
