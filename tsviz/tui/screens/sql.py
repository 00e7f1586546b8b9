"""SQL (`q`): an editor with completion and history, and the result: paged, charted, saved, and Enter jumps to a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.geometry import Offset
from textual.timer import Timer
from textual.widgets import TextArea

from tsviz.tui.grid import Grid, place_of
from tsviz.tui.key import Key
from tsviz.tui.language import Language
from tsviz.tui.lines import Line
from tsviz.tui.panes.completion_lines import completion_list
from tsviz.tui.panes.grid_lines import grid_head, grid_rows, shown_columns
from tsviz.tui.panes.sql_lines import answer_lines, head_lines, result_note
from tsviz.tui.scene import Scene
from tsviz.tui.screens.ask_line import AskLine
from tsviz.tui.screens.chart import ChartScreen
from tsviz.tui.screens.over import Jump, Over, bindings_of, keys_of
from tsviz.tui.screens.standing import stands
from tsviz.tui.sql_state import FIRST_TEXT, MOST_ROWS, ROWS, SqlState
from tsviz.tui.study import Study
from tsviz.tui.widgets.pane import Pane
from tsviz.tui.widgets.sql_editor import SqlEditor

if TYPE_CHECKING:
    from tsviz.query.completion import Completion

KEYS = keys_of(
    "sql",
    Key("sql.run", "f5,ctrl+r,ctrl+j", "run", "Run the query (in the editor also: enter behind a `;`)", "Query", "run"),
    Key("sql.stop", "ctrl+c", "stop", "Stop the query that runs (esc does too)", "Query"),
    Key("sql.complete", "ctrl+@,ctrl+space", "complete", "Complete at the cursor; tab takes the choice", "Query"),
    Key("sql.older", "ctrl+up", "history(-1)", "Older query of the history", "Query", "history"),
    Key("sql.newer", "ctrl+down", "history(1)", "Newer query of the history", "Query"),
    Key("sql.new", "ctrl+l", "new", "Clear the text for a new query (ctrl+z takes it back)", "Query"),
    Key("sql.switch", "tab,shift+tab", "tab", "From the editor to the result, or back", "Query", "result or query"),
    Key("sql.jump", "enter", "choose", "Go to the round that the row names", "Result", "go to its round"),
    Key("sql.left", "left,h", "column(-1)", "Column to the left", "Result"),
    Key("sql.right", "right", "column(1)", "Column to the right", "Result"),
    Key("sql.more", "M", "more", "Ask for ten times as many rows", "Result", "more rows"),
    Key("sql.chart", "c", "chart", "Chart of the chosen column", "Result", "chart"),
    Key("sql.save", "w", "save", "Write the whole result to a file (csv, parquet, json, arrow)", "Result", "file"),
    Key("sql.copy", "y", "copy", "Copy the chosen value", "Result"),
)  # fmt: skip
_TICK_S = 0.25
_LIST_SIZE = (76, 8)


class SqlScreen(Over):
    """Editor above, result below; a list of completions at the cursor."""

    KEYS = KEYS
    NAME = "SQL"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(KEYS)
    DEFAULT_CSS = """
    SqlScreen { layers: base above; }
    SqlScreen #sql-query { height: 26%; min-height: 6; scrollbar-gutter: auto; }
    SqlScreen #sql-answer { height: 2; }
    SqlScreen #sql-result { height: 1fr; scrollbar-gutter: auto; }
    SqlScreen .over-box:focus-within { border: round $border; border-title-color: $role-title; }
    SqlScreen #sql-head { height: 1; background: $ground; }
    SqlScreen #sql-rows { height: 1fr; scrollbar-gutter: stable; background: $ground; }
    SqlScreen #sql-list { layer: above; display: none; background: $raised; }
    SqlScreen #sql-list.-open { display: block; }
    """

    def __init__(self, study: Study, part: str, keymap: dict[str, str] | None = None) -> None:
        super().__init__(keymap)
        self._study = study
        self._part = part
        self._first = self._column = 0
        self._completion: Completion | None = None
        self._choice = 0
        self._past = 0
        self._ticker: Timer | None = None

    @property
    def state(self) -> SqlState:
        """The query and its result."""
        return self._study.sql

    @property
    def _grid(self) -> Grid | None:
        return self.state.grid

    @property
    def _editor(self) -> SqlEditor:
        return self.query_one(SqlEditor)

    def body(self) -> ComposeResult:
        """Place editor, answer and result."""
        with Vertical(id="sql-query", classes="over-box") as box:
            box.border_title = "Query"
            yield SqlEditor(self.state.text, id="sql-editor")
        yield Pane(lambda _s, w, _h: answer_lines(self.state, w), id="sql-answer")
        with Vertical(id="sql-result", classes="over-box") as box:
            box.border_title = "Result"
            yield Pane(lambda _s, w, _h: grid_head(self._grid, self._first, self._column, w), id="sql-head")
            yield Pane(
                lambda _s, w, _h: grid_rows(self._grid, self._first, self.cursor, w), id="sql-rows", focusable=True
            ).add_class("over-list")
        yield Pane(lambda _s, w, _h: completion_list(self._completion, self._choice, w), id="sql-list")

    def head(self, width: int) -> tuple[Line, Line]:
        """Return which trace is asked, and how the query stands."""
        return head_lines(self.state, self._study.desk.trace, width)

    def height(self) -> int:
        """Every row is a line."""
        return 0 if self._grid is None else self._grid.rows

    def redraw(self) -> None:
        """Show everything; the result says which of its rows are in sight."""
        super().redraw()
        if stands(self):
            rows = self.query_one("#sql-rows", Pane)
            note = result_note(self.state, int(rows.scroll_offset.y), rows.size.height)
            self.query_one("#sql-result").border_subtitle = note

    def on_mount(self) -> None:
        """Listen; load what the editor needs to know."""
        self._study.listen(self._changed)
        self._ticker = self.set_interval(_TICK_S, self._tick)
        problem = self.state.load()
        if problem:
            self.say(problem, "warn")
        self._past = len(self.state.history)
        self._editor.focus()
        self._editor.move_cursor(self._editor.document.end)
        if self.state.text == FIRST_TEXT:  # an example: what is typed takes its place
            self._editor.select_all()
        if isinstance(self._study.language, Language):
            self._editor.speak(self._study.language)
        else:
            self._study.load_language()

    def on_unmount(self) -> None:
        """Keep the text, listen no more."""
        self._study.leave(self._changed)

    def _tick(self) -> None:
        if self.state.running and stands(self):
            self.query_one("#over-head", Pane).show(Scene())

    def _changed(self) -> None:
        if not stands(self):
            return
        editor = self._editor
        if editor.grammar is None and isinstance(self._study.language, Language):
            editor.speak(self._study.language)
        trouble = self.state.trouble
        at = None if trouble is None or editor.text != self.state.asked else trouble.at
        if at != editor.error:
            editor.show_error(at)
        self.redraw()

    # The editor

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Keep the text, and offer what can stand where one types."""
        self.state.text = event.text_area.text
        if self._editor.error is not None:
            self._editor.show_error(None)
        self._offer(asked=False)

    def on_text_area_selection_changed(self, _event: TextArea.SelectionChanged) -> None:
        """A cursor that goes elsewhere closes the list."""
        completion = self._completion
        if completion is not None and self._editor.cursor_index != completion.first + completion.length:
            self._close_list()

    def _offer(self, *, asked: bool) -> None:
        editor = self._editor
        if editor.grammar is None:
            return self.say("Completion is being loaded.") if asked else None
        found = editor.grammar.complete(editor.text, editor.cursor_index)
        typed = "" if found is None else editor.text[found.first : found.first + found.length]
        useless = found is None or not found.entries or (len(found.entries) == 1 and found.entries[0].insert == typed)
        behind_dot = editor.text[: editor.cursor_index].endswith(".")
        if useless or not (asked or typed or behind_dot):
            return self._close_list()
        self._completion, self._choice = found, 0
        editor.completing = True
        self._place_list()
        return None

    def _place_list(self) -> None:
        assert self._completion is not None
        pane, (width, height) = self.query_one("#sql-list", Pane), _LIST_SIZE
        width = min(width, self.size.width - 2)
        height = min(height, len(self._completion.entries))
        x, y = self._editor.cursor_screen_offset
        below = y + 1 + height <= self.size.height - 1
        pane.styles.width, pane.styles.height = width, height
        pane.absolute_offset = Offset(
            max(min(x - self._completion.length - 2, self.size.width - width), 0),
            y + 1 if below else max(y - height, 0),
        )
        pane.add_class("-open")
        self.call_after_refresh(self.redraw)

    def _close_list(self) -> None:
        if not stands(self):
            return
        self._completion = None
        self._editor.completing = False
        self.query_one("#sql-list", Pane).remove_class("-open")

    def on_sql_editor_for_list(self, event: SqlEditor.ForList) -> None:
        """Move in the list, take its choice, or run the query that was ended."""
        if event.key == "run":
            self.action_run()
        elif self._completion is None:
            return
        elif event.key == "enter":
            self._take(self._choice)
        else:
            step = 1 if event.key == "down" else -1
            self._choice = (self._choice + step) % len(self._completion.entries)
            self.query_one("#sql-list", Pane).show(Scene())

    def _take(self, number: int) -> None:
        completion, editor = self._completion, self._editor
        if completion is None or number >= len(completion.entries):
            return
        start = editor.location_of(completion.first)
        end = editor.location_of(completion.first + completion.length)
        insert = completion.entries[number].insert
        self._close_list()
        editor.replace(insert, start, end, maintain_selection_offset=False)
        editor.move_cursor(editor.location_of(completion.first + len(insert)))
        self.call_after_refresh(self._close_list)

    def action_complete(self) -> None:
        """Offer what can stand at the cursor."""
        self._editor.focus()
        self._offer(asked=True)

    def action_tab(self) -> None:
        """Take the completion, or switch between editor and result."""
        if self._completion is not None:
            self._take(self._choice)
        elif self._editor.has_focus:
            self.query_one("#sql-rows").focus()
        else:
            self._editor.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The list belongs to the editor."""
        if event.widget.id != "sql-editor":
            self._close_list()

    # The query

    def action_run(self) -> None:
        """Ask."""
        self._run(ROWS)

    def _run(self, rows: int) -> None:
        sql = self._editor.text.strip().removesuffix(";")
        if not sql.strip():
            return self.say("There is no query in the text.")
        self._close_list()
        self._editor.show_error(None)
        problem = self.state.remember(self._editor.text.strip())
        self._past = len(self.state.history)
        self.cursor = self._first = self._column = 0
        self._study.ask_sql(self._editor.text, rows)
        if problem:
            self.say(problem, "warn")
        return None

    def action_more(self) -> None:
        """Ask for more rows of the same query."""
        total = self.state.total
        if total is None or (total.exact and total.of == total.rows):
            return self.say("All rows are here." if total is not None else "There is no result to have more of.")
        if self.state.rows >= MOST_ROWS:
            return self.say(f"{MOST_ROWS:,} rows are as many as are shown; w writes all of them to a file.")
        return self._study.ask_sql(self.state.asked, self.state.rows * 10)

    def action_stop(self) -> None:
        """Stop the query; in the editor without one, copy what is selected."""
        if self._study.stop_sql():
            self.say("Stopped.")
        elif self._editor.has_focus and self._editor.selected_text:
            self.app.copy_to_clipboard(self._editor.selected_text)

    def action_leave(self) -> None:
        """Close the list, stop the query, leave: one of them a press."""
        if self._completion is not None:
            self._close_list()
        elif self.state.running:
            self.action_stop()
        else:
            super().action_leave()

    def action_new(self) -> None:
        """Clear the text."""
        self._editor.focus()
        self._editor.clear()

    def action_history(self, step: int) -> None:
        """Put an older or newer query into the editor."""
        history = self.state.history
        if not history:
            return self.say("No query was asked before.")
        place = min(max(self._past + step, 0), len(history) - 1)
        if place == self._past:
            return self.say("There is no older query." if step < 0 else "There is no newer query.")
        self._past = place
        self._editor.load_text(history[place])
        self._editor.move_cursor(self._editor.document.end)
        self.call_after_refresh(self._close_list)
        return self.say(f"Query {place + 1:,} of {len(history):,}.")

    # The result

    async def on_pane_chosen(self, event: Pane.Chosen) -> None:
        """An entry of the list is taken."""
        match event.target:
            case ("entry", int() as number):
                self._take(number)
                self._editor.focus()

    def action_column(self, step: int) -> None:
        """Choose the next column, and scroll to it."""
        grid = self._grid
        if grid is None or not grid.columns.names:
            return
        self._column = min(max(self._column + step, 0), len(grid.columns.names) - 1)
        self._first = min(self._first, self._column)
        width = self.query_one("#sql-rows", Pane).size.width - 2
        while self._column not in shown_columns(grid, self._first, width) or (
            self._column > self._first and not _whole(grid, self._first, self._column, width)
        ):
            self._first += 1
        self.redraw()

    def action_choose(self) -> None:
        """Go to the round of the row."""
        grid = self._grid
        if grid is None or not grid.rows:
            return self.say("There is no row.")
        place = place_of(grid, self.cursor)
        if place is None:
            return self.say("This row names no round: a column `round` (or one that ends in _round) would.")
        if place.part and place.part != self._part:
            return self.say(
                f"That is in part {place.part}: tsviz open {self._study.desk.trace}@{place.part}:{place.round}"
            )
        self.dismiss(Jump(place.round, place.request, place.submission, f"Row {self.cursor + 1:,} of the result."))
        return None

    def action_chart(self) -> None:
        """Draw the chosen column."""
        grid = self._grid
        if grid is None or not grid.rows:
            return self.say("There is no row to draw.")
        self.app.push_screen(ChartScreen(grid, self._column, self._study.desk.trace), self._charted)
        return None

    def _charted(self, jump: Jump | None) -> None:
        if jump is not None:
            self.dismiss(jump)

    def action_save(self) -> None:
        """Ask for a name, and write the whole result there."""
        if not self.state.asked:
            return self.say("Nothing was asked yet.")
        hint = "result.csv   .parquet .json .jsonl .arrow"
        self.app.push_screen(AskLine("Write the whole result to", hint, "result.csv"), self._save)
        return None

    def _save(self, name: str | None) -> None:
        if name:
            self._study.save_sql(self.state.asked, Path(name).expanduser())

    def action_copy(self) -> None:
        """Copy the chosen value."""
        grid = self._grid
        if grid is None or not grid.rows:
            return self.say("There is no row.")
        value = grid.text(self.cursor, self._column)
        self.app.copy_to_clipboard(value)
        return self.say(f"Copied {value[:60]} (the terminal must allow it).")


def _whole(grid: Grid, first: int, column: int, width: int) -> bool:
    """Return whether a column has room for all of it when `first` is the first one shown."""
    widths = grid.widths()
    return sum(widths[first : column + 1]) + 2 * (column - first) + 1 <= width
