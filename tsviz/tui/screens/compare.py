"""Compare (`D`, or `tsviz open A --compare B`): this trace and another one, where they part and what that did."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tsviz.tui.clean import clean, shorten
from tsviz.tui.key import Key
from tsviz.tui.lines import Document, Line, Span, spread
from tsviz.tui.panes.compare_lines import NUMBERS, figures, instead, parting, request_table, tabs, timelines
from tsviz.tui.screens.ask_line import AskLine
from tsviz.tui.screens.over import Jump, Over, bindings_of, keys_of
from tsviz.tui.study import COMPARE, Comparison, Study
from tsviz.tui.widgets.pane import Pane

KEYS = keys_of(
    "compare",
    Key("compare.choose", "enter", "choose", "Requests: go to where the request begins here", "Compare", "go there"),
    Key(
        "compare.divergence", "d", "divergence", "Go to the first round with another plan", "Compare", "where they part"
    ),
    Key("compare.rows", "r", "other_row", "Go to the first round that schedules another row", "Compare", "other row"),
    Key("compare.figures", "1", "view('figures')", "The fleet in numbers", "Compare"),
    Key("compare.requests", "2", "view('requests')", "Every request, the largest change first", "Compare"),
    Key(
        "compare.next", "right,s", "number(1)", "Requests: next number to compare and sort by", "Compare", "next number"
    ),
    Key("compare.previous", "left,S", "number(-1)", "Requests: previous number", "Compare"),
    Key(
        "compare.other",
        "o",
        "other",
        "Compare with another trace, or with a what-if of this one",
        "Compare",
        "other trace",
    ),
    Key("compare.stop", "ctrl+c", "stop", "Stop comparing", "Compare"),
)
_END = NUMBERS.index("end_to_end_ns")


class CompareScreen(Over):
    """Timelines, the place where they part, and a table of the fleet or of the requests."""

    KEYS = KEYS
    NAME = "Compare"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(KEYS)
    DEFAULT_CSS = """
    CompareScreen #compare-timelines { height: 9; max-height: 34%; }
    CompareScreen #compare-parting { height: 6; max-height: 20%; }
    CompareScreen.-what-if #compare-parting { height: 9; max-height: 26%; }
    CompareScreen #compare-tabs { height: 1; background: $ground; }
    CompareScreen #compare-table { height: 1fr; }
    CompareScreen.-nothing #compare-timelines, CompareScreen.-nothing #compare-parting { display: none; }
    """

    def __init__(self, study: Study, keymap: dict[str, str] | None = None) -> None:
        super().__init__(keymap)
        self._study = study
        self._view = "figures"
        self._number = _END
        self._sorted: tuple[int, int, list[int]] = (-1, -1, [])

    @property
    def _now(self) -> Comparison:
        return self._study.comparison

    def body(self) -> ComposeResult:
        """Place timelines, parting, tabs and table."""
        yield Pane(
            lambda _s, w, _h: timelines(self._now.sides, w), id="compare-timelines", title="Timelines"
        ).add_class("over-box")
        yield Pane(
            lambda _s, w, _h: parting(self._now.sides, w, what_if=self._now.what_if), id="compare-parting",
            focusable=True,
        )  # fmt: skip
        yield Pane(lambda _s, w, _h: tabs(self._view, self._now.sides, len(self._now.requests), w), id="compare-tabs")
        yield Pane(self._table, id="compare-table", focusable=True).add_class("over-box", "over-list")

    def _table(self, _scene: object, width: int, height: int) -> Document:
        nothing = instead(self._now, width, height)
        if nothing is not None:
            return nothing
        if self._view == "figures":
            return figures(self._now.sides, self.cursor, width)
        order = self._order()
        requests = [self._now.requests[place] for place in order]
        return request_table(requests, self._number, self.cursor, width)

    def _order(self) -> list[int]:
        """Return the requests by the change of the chosen number, sorted once."""
        requests, number = self._now.requests, self._number
        if self._sorted[:2] != (len(requests), number):
            keyed = sorted(range(len(requests)), key=lambda n: -abs(requests[n].change(number) or 0.0))
            self._sorted = (len(requests), number, keyed)
        return self._sorted[2]

    def head(self, width: int) -> tuple[Line, Line]:
        """Return which traces, and how the comparison stands."""
        left = [Span(" tsviz ", "brand"), Span(" "), Span("Compare", "title"), Span(" │ ", "rule")]
        cells = max(width // 3, 8)
        left += [Span("A ", "dim"), Span(shorten(self._study.desk.trace, cells))]
        if self._now.other:
            left += [Span("  B ", "dim"), Span(shorten(self._now.other, cells))]
        state = Span("◌ comparing ", "accent") if self._now.known.running else Span("")
        if self._now.known.error:
            state = Span("✗ no comparison ", "bad")
        sides = self._now.sides
        rounds = "" if sides is None else f" {sides.rounds[0]:,} and {sides.rounds[1]:,} rounds, aligned by round"
        return spread(left, (state,), width), Line((Span(rounds, "dim"),))

    def height(self) -> int:
        """Lines of the table."""
        if self._now.sides is None:
            return 0
        return len(self._now.sides.figures) if self._view == "figures" else len(self._now.requests)

    def redraw(self) -> None:
        """Show everything; without a comparison there is only the table."""
        self.set_class(self._now.sides is None, "-nothing")
        self.set_class(self._now.what_if, "-what-if")
        super().redraw()

    def on_mount(self) -> None:
        """Listen; ask for the other trace where none was named."""
        self._study.listen(self.redraw)
        self.query_one("#compare-table").focus()
        if not self._now.known.asked:
            self.action_other()

    def on_unmount(self) -> None:
        """Listen no more."""
        self._study.leave(self.redraw)

    async def on_pane_chosen(self, event: Pane.Chosen) -> None:
        """A column of the timelines goes there."""
        match event.target:
            case ("round", int() as round_):
                self._go(round_, "From the comparison.")

    def _go(self, round_: int, message: str, request: str = "") -> None:
        sides = self._now.sides
        if sides is not None and round_ > sides.rounds[0]:
            self.say(f"Trace A has {sides.rounds[0]:,} rounds: round {round_:,} is in B alone.")
        else:
            self.dismiss(Jump(round_, request, None, message))

    def action_view(self, view: str) -> None:
        """Open a table."""
        self._view, self.cursor = view, 0
        self.redraw()

    def action_number(self, step: int) -> None:
        """Compare another number."""
        self._view = "requests"
        self._number = (self._number + step) % len(NUMBERS)
        self.cursor = 0
        self.redraw()

    def action_divergence(self) -> None:
        """Go to where the plans part."""
        sides = self._now.sides
        if sides is None or sides.parts_at is None:
            return self.say("The plans do not part." if sides is not None else "Nothing was compared yet.")
        return self._go(sides.parts_at, f"The plans part here: {clean(sides.field)}", sides.request)

    def action_other_row(self) -> None:
        """Go to where another row is scheduled."""
        sides = self._now.sides
        if sides is None or sides.rows_at is None:
            return self.say(
                "Every row is the same on both sides." if sides is not None else "Nothing was compared yet."
            )
        return self._go(sides.rows_at, "The first row that is scheduled otherwise is in this round.")

    def action_choose(self) -> None:
        """Go to where the request begins."""
        if self._view != "requests" or not self._now.requests:
            return self.say("d goes to where the plans part; 2 lists the requests.")
        met = self._now.requests[self._order()[self.cursor]]
        if not met.first_round:
            return self.say(f"{clean(met.request)} is in trace B alone.")
        return self._go(met.first_round, f"{clean(met.request)} is submitted in front of this round.", met.request)

    def action_other(self) -> None:
        """Ask for another trace."""
        hint = "a path, or a what-if: pages=257 max_new=declared"
        self.app.push_screen(AskLine("Compare with the trace at", hint, self._now.other), self._chosen)

    def _chosen(self, path: str | None) -> None:
        if path:
            self._sorted = (-1, -1, [])
            self._study.ask_compare(path)

    def action_stop(self) -> None:
        """Stop."""
        if not self._study.cancel(COMPARE):
            self.say("Nothing is being compared.")
