"""Breakpoints and watches (`b`): SQL predicates with the number of their hits; `c` and `C` go from hit to hit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tsviz.tui.key import Key
from tsviz.tui.lines import Line, Span, spread, wrapped
from tsviz.tui.panes.watch_lines import watch_detail, watch_list
from tsviz.tui.screens.ask_line import AskLine
from tsviz.tui.screens.over import Jump, Over, bindings_of, keys_of
from tsviz.tui.study import Study
from tsviz.tui.watches import Watch
from tsviz.tui.widgets.pane import Pane

KEYS = keys_of(
    "watches",
    Key("watches.choose", "enter", "choose", "Go to its next hit; add what is offered", "Breakpoints", "next hit"),
    Key("watches.back", "p", "previous", "Go to its previous hit", "Breakpoints", "previous"),
    Key("watches.add", "a,n", "add", "Add a predicate", "Breakpoints", "add"),
    Key("watches.edit", "e", "edit", "Change the predicate", "Breakpoints", "edit"),
    Key("watches.toggle", "space", "on_off", "Let it count for c and C, or not", "Breakpoints", "on or off"),
    Key("watches.delete", "delete,d", "delete", "Forget it", "Breakpoints", "delete"),
    Key("watches.again", "R", "again", "Look for all hits anew", "Breakpoints"),
)  # fmt: skip
HINT = "pool.available_blocks < 4    retractions.request = 'r17'"


@dataclass(frozen=True, slots=True)
class Here:
    """Where the cursor of the main screen stands."""

    round: int
    stop: int | None
    rounds: int
    request: str = ""


def quoted(text: str) -> str:
    """Return a string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def ideas(here: Here) -> tuple[tuple[str, str], ...]:
    """Return predicates about a place, each with what it says."""
    found = [(f"rounds.round = {here.round}", "this round")]
    if here.request:
        name = quoted(here.request)
        found += [
            (f"retractions.request = {name}", f"{here.request} loses its pages"),
            (f"verdicts.request = {name} and verdicts.cause <> 'scheduled'", f"{here.request} begins to wait"),
            (f"admissions.request = {name}", f"an admission of {here.request} is tried"),
        ]
    return (
        *found,
        ("rounds.retracted_requests > 0", "somebody is retracted"),
        ("verdicts.cause = 'head_of_line' and waited_rounds > 50", "the line was held for long"),
        ("verdicts.cause = 'capacity'", "pages are refused"),
    )


class WatchesScreen(Over):
    """The list, and everything about the one under the cursor."""

    KEYS = KEYS
    NAME = "Breakpoints"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(KEYS)
    DEFAULT_CSS = """
    WatchesScreen #watch-list { height: 3fr; }
    WatchesScreen #watch-detail { height: 2fr; min-height: 8; }
    WatchesScreen.-short #watch-detail { height: 2fr; min-height: 0; }
    """

    def __init__(self, study: Study, here: Here, keymap: dict[str, str] | None = None) -> None:
        super().__init__(keymap)
        self._study = study
        self._at = here
        self._ideas = ideas(here)
        self._wanted = 0
        """The step of a jump that waits for the hits of the one under the cursor; 0: none does."""

    def body(self) -> ComposeResult:
        """Place list and detail."""
        yield Pane(
            lambda _s, w, _h: watch_list(self._all, self._offered, self.cursor, w), id="watch-list", focusable=True
        ).add_class("over-box", "over-list")
        yield Pane(
            lambda _s, w, _h: watch_detail(self._here, self._at.round, self._at.rounds, w),
            id="watch-detail", title="Hits",
        ).add_class("over-box")  # fmt: skip

    @property
    def _all(self) -> list[Watch]:
        return self._study.watches.all

    @property
    def _offered(self) -> list[tuple[str, str]]:
        there = {watch.predicate for watch in self._all}
        return [idea for idea in self._ideas if idea[0] not in there]

    @property
    def _here(self) -> Watch | None:
        return self._all[self.cursor] if self.cursor < len(self._all) else None

    def head(self, width: int) -> tuple[Line, ...]:
        """Return where the cursor stands, and what is not kept."""
        left = [Span(" tsviz ", "brand"), Span(" "), Span("Breakpoints", "title"), Span(" │ ", "rule")]
        left.append(Span(self._study.desk.trace))
        position = f"{self._at.round:,}" + (f".{self._at.stop}" if self._at.stop is not None else "")
        right = (Span("round ", "dim"), Span(position, "position"), Span(f" of {self._at.rounds:,} "))
        problem = self._study.watches.problem
        words, role = (problem, "warn") if problem else ("kept in your state folder, by trace", "dim")
        return spread(left, right, width), *wrapped(words, width, role, indent=1)

    def height(self) -> int:
        """Breakpoints, then what is offered."""
        return len(self._all) + len(self._offered)

    def on_mount(self) -> None:
        """Listen; what was kept and not looked for yet is looked for now."""
        self._study.listen(self._told)
        self._study.ask_hits(anew=False)
        self.query_one("#watch-list").focus()

    def on_unmount(self) -> None:
        """Listen no more."""
        self._study.leave(self._told)

    def _told(self) -> None:
        self.redraw()
        if self._wanted and self._here is not None and not self._here.running:
            self._jump(self._wanted)

    async def on_pane_chosen(self, event: Pane.Chosen) -> None:
        """A round of the hits goes there."""
        match event.target:
            case ("round", int() as round_):
                self.dismiss(Jump(round_))

    def _with(self, act: Callable[[int], None]) -> None:
        if self.cursor < len(self._all):
            act(self.cursor)
            self.redraw()
        else:
            self.say("That one is only offered: enter adds it.")

    def action_choose(self) -> None:
        """Go to the next hit, or add what is offered."""
        if self._here is None:
            number = self.cursor - len(self._all)
            if 0 <= number < len(self._offered):
                self._added(self._offered[number][0])
            return
        self._jump(1)

    def action_previous(self) -> None:
        """Go to the previous hit."""
        self._with(lambda _: self._jump(-1))

    def _jump(self, step: int) -> None:
        watch = self._here
        assert watch is not None
        index = watch.places.beside(self._at.round, self._at.stop, step)
        self._wanted = step if index is None and watch.running else 0
        if index is None:
            words = "behind" if step > 0 else "before"
            waits = "Its hits are being looked for; this goes to the first that comes."
            return self.say(waits if watch.running else f"It has no hit {words} here.")
        self.dismiss(hit_jump(watch, index))
        return None

    def action_add(self) -> None:
        """Ask for a predicate."""
        self.app.push_screen(AskLine("Break where", HINT), self._added)

    def _added(self, predicate: str | None) -> None:
        if not predicate:
            return None
        if not self._study.add_watch(predicate):
            return self.say("That one is there already.")
        self.cursor = len(self._all) - 1
        return self.redraw()

    def action_edit(self) -> None:
        """Change the predicate."""
        watch = self._here
        if watch is None:
            return self.say("That one is only offered: enter adds it.")
        self.app.push_screen(AskLine("Break where", HINT, watch.predicate), self._edited)
        return None

    def _edited(self, predicate: str | None) -> None:
        watch = self._here
        if predicate and watch is not None and predicate != watch.predicate:
            self._study.remove_watch(self.cursor)
            self._added(predicate)

    def action_on_off(self, number: int | None = None) -> None:
        """Let it count, or not."""
        if number is not None:
            self.cursor = number
        self._with(self._study.watches.toggle)
        self._study.changed()

    def action_delete(self) -> None:
        """Forget it."""
        self._with(self._study.remove_watch)

    def action_again(self) -> None:
        """Look for all hits anew."""
        self._study.ask_hits()


def hit_jump(watch: Watch, index: int) -> Jump:
    """Return the jump to a hit."""
    places = watch.places
    stop, submission = places.stops[index], places.submissions[index]
    words = f"{watch.predicate}: hit {index + 1:,} of {len(places):,}."
    return Jump(
        places.rounds[index], places.requests[index], submission if submission >= 0 else None, words,
        stop if stop >= 0 else None,
    )  # fmt: skip
