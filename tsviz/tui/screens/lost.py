"""Lost time (`L`): where the time to first token and between tokens went, by cause; Enter jumps to its longest run."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from tsviz.tui.key import Key
from tsviz.tui.lines import Document, Line, Span
from tsviz.tui.numbers import counted, duration
from tsviz.tui.panes.known import title
from tsviz.tui.panes.lost_lines import VIEWS, bars, detail, instead, key_list, rows_of, view_line
from tsviz.tui.screens.over import Jump, Over, bindings_of, keys_of
from tsviz.tui.study import LOST, Study
from tsviz.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from tsviz.replay.lost.keys import LostCause, LostKey, LostPhase

KEYS = keys_of(
    "lost",
    Key("lost.jump", "enter", "choose", "Go to the longest run of the cause", "Lost time", "its longest run"),
    Key("lost.fleet", "1", "view('fleet')", "All requests together", "Lost time"),
    Key("lost.class", "2", "view('class')", "By class: the request id without its number", "Lost time"),
    Key("lost.request", "3", "view('request')", "By request", "Lost time"),
    Key("lost.holder", "4", "view('holder')", "By who was in the way: time of the others", "Lost time"),
    Key("lost.pane", "tab,left,right", "switch", "From the list to the bars, or back", "Lost time", "list or bars"),
    Key("lost.derive", "D", "derive", "Re-execute the trace for decisions, then split anew", "Lost time", "derive"),
    Key("lost.again", "R", "again", "Split anew (of a live trace: what has come since)", "Lost time", "again"),
    Key("lost.stop", "ctrl+c", "stop", "Stop", "Lost time"),
)


class LostScreen(Over):
    """Tabs of the four views, the list of a view, the bars, and the longest run under the cursor."""

    KEYS = KEYS
    NAME = "Lost time"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(KEYS)
    DEFAULT_CSS = """
    LostScreen #lost-views { height: 1; background: $ground; }
    LostScreen Horizontal { height: 1fr; }
    LostScreen #lost-list { width: 1fr; max-width: 44; }
    LostScreen #lost-bars { width: 2fr; }
    LostScreen #lost-detail { height: 2; }
    LostScreen.-fleet #lost-list { display: none; }
    """

    def __init__(self, study: Study, keymap: dict[str, str] | None = None) -> None:
        super().__init__(keymap)
        self._study = study
        self._view = "fleet"
        self._key = 0
        self._on_bars = True
        self._sorted: tuple[int, dict[str, list[LostKey]]] = (-1, {})

    def body(self) -> ComposeResult:
        """Place tabs, list, bars and detail."""
        yield Pane(lambda _s, w, _h: view_line(self._view, self._counts, w), id="lost-views")
        with Horizontal():
            yield Pane(lambda _s, w, _h: key_list(self._keys, self._key, w), id="lost-list", focusable=True).add_class(
                "over-box"
            )
            yield Pane(self._bars, id="lost-bars", focusable=True).add_class("over-box", "over-list")
        yield Pane(lambda _s, w, _h: detail(self._row, w), id="lost-detail")

    def _bars(self, _scene: object, width: int, height: int) -> Document:
        nothing = instead(self._study.lost.known, self._study.derived, self._of("fleet"), width, height)
        return nothing or bars(self._chosen, self.cursor, width)

    def _of(self, view: str) -> list[LostKey]:
        """Return the keys of a view in order; they arrive in pieces, and are told apart once a piece."""
        pieces = self._study.lost.time
        if self._sorted[0] != len(pieces):
            by_view: dict[str, list[LostKey]] = {}
            for piece in pieces:
                for key in piece.keys:
                    by_view.setdefault(key.view, []).append(key)
            self._sorted = (len(pieces), by_view)
        return self._sorted[1].get(view, [])

    @property
    def _keys(self) -> list[LostKey]:
        return self._of(self._view)

    @property
    def _counts(self) -> dict[str, int]:
        return {view: len(self._of(view)) for view in VIEWS}

    @property
    def _chosen(self) -> LostKey | None:
        keys = self._keys
        return keys[min(self._key, len(keys) - 1)] if keys else None

    @property
    def _row(self) -> tuple[LostPhase, LostCause] | None:
        rows = rows_of(self._chosen)
        return rows[self.cursor] if 0 <= self.cursor < len(rows) else None

    def head(self, width: int) -> tuple[Line, Line]:
        """Return how much time of how many requests."""
        fleet = self._of("fleet")
        words = f"{counted(fleet[0].requests, 'request')}, {duration(fleet[0].span_ns)} in all " if fleet else ""
        state = (Span("◌ splitting ", "accent"),) if self._study.lost.known.running else (Span(words, "dim"),)
        return title("Lost time", self._study.desk.trace, self._study.lost.known, state, width)

    def offers(self, key: Key) -> bool:
        """What is known need not be derived."""
        return super().offers(key) and (key.id != "lost.derive" or self._study.lost.known.derivable)

    def height(self) -> int:
        """Every bar is a line."""
        return len(rows_of(self._chosen))

    def on_mount(self) -> None:
        """Listen, and ask unless somebody asked before."""
        self._study.listen(self.redraw)
        self.action_view("fleet")
        if not self._study.lost.known.asked:
            self._study.ask_lost()

    def on_unmount(self) -> None:
        """Listen no more."""
        self._study.leave(self.redraw)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Keys move in the pane with the focus."""
        self._on_bars = event.widget.id != "lost-list"

    async def on_pane_chosen(self, event: Pane.Chosen) -> None:
        """A line of the list opens it."""
        match event.target:
            case ("key", int() as number):
                self._key = number
                self.cursor = 0
                self.redraw()

    def action_view(self, view: str) -> None:
        """Open a view."""
        self._view, self._key, self.cursor = view, 0, 0
        self.set_class(view == "fleet", "-fleet")
        bars_pane = self.query_one("#lost-bars", Pane)
        bars_pane.border_title = "Causes"
        self.query_one("#lost-list", Pane).border_title = VIEWS[view]
        self.query_one("#lost-bars" if view == "fleet" else "#lost-list").focus()
        self.call_after_refresh(self.redraw)

    def action_switch(self) -> None:
        """Focus the other pane."""
        if self._view == "fleet":
            return self.say("There is one list here; 2, 3 and 4 open classes, requests and holders.")
        self.query_one("#lost-list" if self._on_bars else "#lost-bars").focus()
        return None

    def action_move(self, step: int) -> None:
        """Move in the list or in the bars."""
        if self._on_bars:
            super().action_move(step)
        else:
            self._key = min(max(self._key + step, 0), max(len(self._keys) - 1, 0))
            self.cursor = 0
            self.redraw()

    def action_page(self, step: int) -> None:
        """Move by a screenful of the pane with the focus."""
        pane = self.query_one("#lost-bars" if self._on_bars else "#lost-list", Pane)
        self.action_move(step * max(pane.size.height - 1, 1))

    def action_end(self, side: int) -> None:
        """Move to the first or last line."""
        self.action_move(side * max(len(self._keys), self.height()))

    def action_choose(self) -> None:
        """Go to the longest run of the cause; from the list, to its bars."""
        if not self._on_bars:
            return self.action_switch()
        row = self._row
        if row is None:
            return None
        _, cause = row
        run = cause.run
        words = f"{cause.cause.replace('_', ' ')}: {duration(run.time_ns)} from round {run.first_round:,} on"
        self.dismiss(Jump(run.first_round, cause.request, cause.submission, words, view="why"))
        return None

    def action_derive(self) -> None:
        """Re-execute the trace where decisions are not known."""
        if self._study.derived.running:
            return self.say("Decisions are being derived already; they are looked at as soon as they are there.")
        if not self._study.lost.known.derivable:
            return self.say("Decisions are known as far as they can be.")
        return self._study.ask_lost(derive=True)

    def action_again(self) -> None:
        """Split anew."""
        self._study.ask_lost()

    def action_stop(self) -> None:
        """Stop."""
        if not self._study.cancel(LOST):
            self.say("Nothing is at work.")
