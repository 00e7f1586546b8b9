"""Notes and bookmarks (`"`): the places that the user marked, with their words."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tsviz.tui.clean import clean, shorten
from tsviz.tui.key import Key
from tsviz.tui.lines import Document, Line, Lines, Span, clip, line, spread, wrapped
from tsviz.tui.notes import Note
from tsviz.tui.numbers import counted
from tsviz.tui.screens.ask_line import AskLine
from tsviz.tui.screens.over import Jump, Over, bindings_of, keys_of
from tsviz.tui.study import Study
from tsviz.tui.widgets.pane import Pane

KEYS = keys_of(
    "notes",
    Key("notes.jump", "enter", "choose", "Go to the place of the note", "Notes", "go there"),
    Key("notes.edit", "e", "edit", "Change its words", "Notes", "edit"),
    Key("notes.delete", "delete,d", "delete", "Forget it", "Notes", "delete"),
)
_POSITION_CELLS = 12
_REQUEST_CELLS = 20


def note_list(notes: list[Note], cursor: int, width: int, height: int) -> Document:
    """Return one line a note."""
    if not notes:
        body = [line(Span("  ∅ Nothing is noted in this trace.", "heading")), line("")]
        body += wrapped(
            "On the main screen ' notes something at the cursor; with no words it is a bookmark.", width, indent=2
        )
        return Lines([line("")] * max((height - len(body)) // 3, 0) + body)
    lines = []
    for number, note in enumerate(notes):
        here = number == cursor
        spans = (
            Span("▸" if here else " ", "accent"),
            Span("✎ " if note.text else "⚑ ", "accent"),
            Span(f"{note.position:>{_POSITION_CELLS}}  ", "position"),
            Span(shorten(note.request, _REQUEST_CELLS).ljust(_REQUEST_CELLS), "dim"),
            Span(f" {clean(note.text)}" if note.text else " bookmark", "text" if note.text else "dim"),
        )
        lines.append(clip(Line(spans, "cursor" if here else "", ("line", number)), width))
    return Lines(lines, cursor)


class NotesScreen(Over):
    """All notes in order of place."""

    KEYS = KEYS
    NAME = "Notes"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(KEYS)
    DEFAULT_CSS = "NotesScreen #note-list { height: 1fr; }"

    def __init__(self, study: Study, keymap: dict[str, str] | None = None) -> None:
        super().__init__(keymap)
        self._study = study

    def body(self) -> ComposeResult:
        """Place the list."""
        yield Pane(
            lambda _s, w, h: note_list(self._study.notes.all, self.cursor, w, h), id="note-list", focusable=True
        ).add_class("over-box", "over-list")

    def head(self, width: int) -> tuple[Line, ...]:
        """Return how many there are, and what is not kept."""
        left = [Span(" tsviz ", "brand"), Span(" "), Span("Notes", "title"), Span(" │ ", "rule")]
        left.append(Span(shorten(self._study.desk.trace, max(width // 3, 8))))
        number = Span(f"{counted(len(self._study.notes.all), 'note')} ", "dim")
        problem = self._study.notes.problem
        words, role = (problem, "warn") if problem else ("kept in your state folder, by trace", "dim")
        return spread(left, (number,), width), *wrapped(words, width, role, indent=1)

    def height(self) -> int:
        """Every note is a line."""
        return len(self._study.notes.all)

    def on_mount(self) -> None:
        """Take the keys."""
        self.query_one("#note-list").focus()

    @property
    def _here(self) -> Note | None:
        return self._study.notes.all[self.cursor] if self.cursor < self.height() else None

    def action_choose(self) -> None:
        """Go to the place."""
        note = self._here
        if note is not None:
            self.dismiss(Jump(note.round, note.request, None, clean(note.text), note.stop))

    def action_edit(self) -> None:
        """Ask for other words."""
        note = self._here
        if note is not None:
            self.app.push_screen(AskLine(f"Note at {note.position}", "no words: a bookmark", note.text), self._edited)

    def _edited(self, text: str | None) -> None:
        note = self._here
        if text is not None and note is not None:
            self._study.put_note(Note(note.round, note.stop, text, note.request))
            self.redraw()

    def action_delete(self) -> None:
        """Forget it."""
        note = self._here
        if note is not None:
            self._study.remove_note(note)
            self.redraw()
