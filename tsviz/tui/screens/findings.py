"""Findings (`f`): the problems of the trace, each with its evidence; Enter jumps to where it begins."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tsviz.replay.survey.ask import Looked
from tsviz.tui.key import Key
from tsviz.tui.lines import Line, Span
from tsviz.tui.numbers import counted
from tsviz.tui.panes.finding_lines import SEVERITIES, entries, finding_detail, finding_list
from tsviz.tui.panes.known import title
from tsviz.tui.screens.over import Over, bindings_of, keys_of
from tsviz.tui.screens.to_finding import jump_to
from tsviz.tui.study import FINDINGS, Study
from tsviz.tui.widgets.pane import Pane

KEYS = keys_of(
    "findings",
    Key("findings.jump", "enter", "choose", "Go to the first round of the finding", "Findings", "go there"),
    Key("findings.jump.last", "e", "last_round", "Go to the last round of the finding", "Findings", "its end"),
    Key("findings.derive", "D", "derive", "Re-execute the trace for decisions, then check anew", "Findings", "derive"),
    Key("findings.again", "R", "again", "Check anew (of a live trace: what has come since)", "Findings", "again"),
    Key("findings.stop", "ctrl+c", "stop", "Stop checking; what was found stays", "Findings"),
)


class FindingsScreen(Over):
    """The list of checks and, below it, everything about the one under the cursor."""

    KEYS = KEYS
    NAME = "Findings"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(KEYS)
    DEFAULT_CSS = """
    FindingsScreen #finding-list { height: 3fr; }
    FindingsScreen #finding-detail { height: 2fr; min-height: 9; }
    FindingsScreen.-short #finding-detail { height: 3fr; min-height: 0; }
    """

    def __init__(self, study: Study, part: str, keymap: dict[str, str] | None = None) -> None:
        super().__init__(keymap)
        self._study = study
        self._part = part

    def body(self) -> ComposeResult:
        """Place list and detail."""
        yield Pane(
            lambda _s, w, h: finding_list(self._study.findings, self.cursor, self._part, w, h),
            id="finding-list", title="Checks", focusable=True,
        ).add_class("over-box", "over-list")  # fmt: skip
        yield Pane(
            lambda _s, w, _h: finding_detail(self._here, self._part, w), id="finding-detail", title="Evidence"
        ).add_class("over-box")

    def head(self, width: int) -> tuple[Line, Line]:
        """Return what was found so far, and on which decisions."""
        findings = self._study.findings
        state: list[Span] = []
        for name, mark in SEVERITIES.items():
            number = sum(one.severity == name for one in findings.found)
            if number:
                state.append(Span(f"{mark.glyph} {number} {mark.word}  ", mark.role))
        if findings.known.running:
            state.append(Span(f"◌ {len(findings.looked)} of {counted(findings.checks, 'check')} ", "accent"))
        else:
            state.append(Span(f"{counted(len(findings.looked), 'check')} ", "dim"))
        return title("Findings", self._study.desk.trace, findings.known, tuple(state), width)

    def offers(self, key: Key) -> bool:
        """Where nothing was found there is no round to go to, and what is known need not be derived."""
        here = self._here
        if key.id in ("findings.jump", "findings.jump.last"):
            return here is not None and bool(here.rounds)
        return super().offers(key) and (key.id != "findings.derive" or self._study.findings.known.derivable)

    def height(self) -> int:
        """Every check is a line."""
        return len(self._study.findings.looked)

    @property
    def _here(self) -> Looked | None:
        listed = entries(self._study.findings)
        return listed[self.cursor] if 0 <= self.cursor < len(listed) else None

    def on_mount(self) -> None:
        """Listen, and ask unless somebody asked before."""
        self._study.listen(self.redraw)
        self.query_one("#finding-list").focus()
        if not self._study.findings.known.asked:
            self._study.ask_findings()

    def on_unmount(self) -> None:
        """Listen no more."""
        self._study.leave(self.redraw)

    async def on_pane_chosen(self, event: Pane.Chosen) -> None:
        """A round of the evidence goes there; a request goes to it in the first round."""
        here = self._here
        match event.target:
            case ("round", int() as round_):
                self._jump(round_)
            case ("request", str() as request) if here is not None and here.rounds:
                self._jump(here.rounds[0], request)

    def _jump(self, round_: int, request: str = "") -> None:
        here = self._here
        assert here is not None
        self.dismiss(jump_to(here, round_, request))

    def action_choose(self) -> None:
        """Go to where the finding begins."""
        self._go(0)

    def action_last_round(self) -> None:
        """Go to where it ends."""
        self._go(-1)

    def _go(self, which: int) -> None:
        here = self._here
        if here is not None and here.rounds:
            self._jump(here.rounds[which])
        elif here is not None:
            self.say("Nothing was found here: there is no round to go to.")

    def action_derive(self) -> None:
        """Re-execute the trace where decisions are not known."""
        if self._study.derived.running:
            return self.say("Decisions are being derived already; they are looked at as soon as they are there.")
        if not self._study.findings.known.derivable:
            return self.say("Decisions are known as far as they can be.")
        return self._study.ask_findings(derive=True)

    def action_again(self) -> None:
        """Check anew."""
        self._study.ask_findings()

    def action_stop(self) -> None:
        """Stop."""
        if not self._study.cancel(FINDINGS):
            self.say("Nothing is being checked.")
