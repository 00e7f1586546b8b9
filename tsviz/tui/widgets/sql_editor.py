"""The editor of a query: colours by the engine's own words, the place of an error, and keys that its screen takes."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from tsviz.tui.clean import clean
from tsviz.tui.language import Language

_ROLES = {
    "keyword": "sql--keyword", "string_const": "sql--string", "numeric_const": "sql--number", "comment": "sql--comment",
}  # fmt: skip


class SqlEditor(TextArea):
    """A text area for one query. Without a `grammar` it is plain."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*_ROLES.values(), "sql--error"}
    DEFAULT_CSS = """
    SqlEditor { border: none; padding: 0 1; background: $ground; color: $role-text; }
    SqlEditor:focus { border: none; }
    SqlEditor .text-area--cursor-line { background: $ground; }
    SqlEditor .text-area--cursor { text-style: reverse; background: $ground; color: $role-position; }
    SqlEditor .text-area--selection { background: $cursor; }
    SqlEditor .sql--keyword { color: $role-accent; text-style: bold; }
    SqlEditor .sql--string { color: $role-good; }
    SqlEditor .sql--number { color: $role-prefilling; }
    SqlEditor .sql--comment { color: $role-dim; text-style: italic; }
    SqlEditor .sql--error { color: $role-bad; text-style: underline bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "screen.tab", "Complete or switch", id="sql.tab", show=False,
                tooltip="Take the completion, or go to the result"),
        Binding("escape", "screen.leave", "Back", id="sql.editor.leave", show=False, tooltip="Stop, close, or go back"),
    ]  # fmt: skip

    class ForList(Message):
        """A key (up, down, enter) for the open list of completions, or `run`: enter behind a `;`."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, text: str, *, id: str) -> None:  # noqa: A002 - the toolkit's name
        super().__init__(text, id=id, show_line_numbers=False, tab_behavior="focus", highlight_cursor_line=False)
        self.grammar: Language | None = None
        self.error: tuple[int, int] | None = None
        self.completing = False
        self._coloured: tuple[str, dict[int, list[tuple[int, int, str]]]] = ("\0", {})

    @property
    def cursor_index(self) -> int:
        """Place of the cursor in characters of the text."""
        return self.index_of(self.cursor_location)

    def index_of(self, location: tuple[int, int]) -> int:
        """Return the place of (line, column) in characters."""
        lines = self.document.lines
        return sum(len(line) + 1 for line in lines[: location[0]]) + location[1]

    def location_of(self, index: int) -> tuple[int, int]:
        """Return the (line, column) of a place in characters, held to the text."""
        for number, line in enumerate(self.document.lines):
            if index <= len(line):
                return number, max(index, 0)
            index -= len(line) + 1
        return self.document.end

    def speak(self, language: Language) -> None:
        """Take the language, and colour with it."""
        self.grammar = language
        self._recolour()

    def show_error(self, at: tuple[int, int] | None) -> None:
        """Mark the place of an error and put the cursor there; None clears it."""
        self.error = at
        if at is not None:
            self.selection = Selection.cursor(self.location_of(at[0]))
        self._recolour()

    def _recolour(self) -> None:
        self._coloured = ("\0", {})
        self._line_cache.clear()
        self.refresh()

    def get_line(self, line_index: int) -> Text:
        """Return a line, harmless and coloured."""
        plain = self.document.get_line(line_index)
        shown = clean(plain)
        line = Text(shown if len(shown) == len(plain) else plain, end="", no_wrap=True)
        for start, end, component in self._spans().get(line_index, ()):
            style: Style = self.get_component_rich_style(component, partial=True)
            line.stylize(style, start, end)
        return line

    def _spans(self) -> dict[int, list[tuple[int, int, str]]]:
        """Return what is coloured in each line, found once a text."""
        text = "\n".join(self.document.lines)
        if self._coloured[0] != text:
            spans: dict[int, list[tuple[int, int, str]]] = {}
            words = [] if self.grammar is None else list(self.grammar.words(text))
            marked = [(first, length, _ROLES[kind]) for first, length, kind in words if kind in _ROLES]
            if self.error is not None:
                marked.append((*self.error, "sql--error"))
            for first, length, component in marked:
                self._mark(spans, first, length, component)
            self._coloured = (text, spans)
        return self._coloured[1]

    def _mark(self, spans: dict[int, list[tuple[int, int, str]]], first: int, length: int, component: str) -> None:
        (line, start), (last, end) = self.location_of(first), self.location_of(first + length)
        for number in range(line, last + 1):
            whole = len(self.document.get_line(number))
            begin, stop = start if number == line else 0, end if number == last else whole
            spans.setdefault(number, []).append((begin, stop, component))

    async def _on_key(self, event: events.Key) -> None:
        """Give keys to the list of completions while it is open; enter behind a `;` runs."""
        if self.completing and event.key in ("up", "down", "enter"):
            event.stop()
            event.prevent_default()
            self.screen.post_message(self.ForList(event.key))
            return
        if event.key == "enter" and self._ended:
            event.stop()
            event.prevent_default()
            self.screen.post_message(self.ForList("run"))
            return
        await super()._on_key(event)

    @property
    def _ended(self) -> bool:
        """Whether the cursor stands behind a `;` with nothing behind it."""
        text, index = self.text, self.cursor_index
        return text[:index].rstrip().endswith(";") and not text[index:].strip()
