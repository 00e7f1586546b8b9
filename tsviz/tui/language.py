"""What the editor knows of SQL: the kinds of its words, and what can stand at the cursor. Loaded beside the screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tsviz.query.completion import Completion

_MOST_CHARACTERS = 20_000
"""Longer texts are edited without colours and completion: a key must not wait for them."""


class Language:
    """Words and completion of the engine; both answer within a frame."""

    def words(self, text: str) -> tuple[tuple[int, int, str], ...]:
        """Return first character, length and kind of every word."""
        from tsviz.query.words import words

        if len(text) > _MOST_CHARACTERS:
            return ()
        return tuple((word.first, len(word.text), word.kind) for word in words(text, comments=True))

    def complete(self, text: str, cursor: int) -> Completion | None:
        """Return what can stand at a place; None for a text that is too long."""
        from tsviz.query.completion import complete

        return None if len(text) > _MOST_CHARACTERS else complete(text, cursor)


class LanguageLoader:
    """A stream of one `Language`, which is ready when it comes: loading it takes half a second."""

    def __iter__(self) -> Iterator[object]:
        """Load."""
        from tsviz.query.vocabulary import vocabulary

        vocabulary()
        yield Language()

    def cancel(self) -> None:
        """Nothing is stopped: what is loaded is needed sooner or later."""
