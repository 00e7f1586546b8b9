"""Words of an SQL text and where they stand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tsviz.query.words import words


def test_words_say_what_and_where() -> None:
    """A word has its kind, its text and its first character, counted in characters and not in bytes."""
    found = [(w.kind, w.text, w.first) for w in words('é."a ""b" = \'ß\' AND round>4 -- c')]
    assert found == [
        ("identifier", "é", 0), ("operator", ".", 1), ("identifier", '"a ""b"', 2), ("operator", "=", 10),
        ("string_const", "'ß'", 12), ("keyword", "AND", 16), ("identifier", "round", 20), ("operator", ">", 25),
        ("numeric_const", "4", 26),
    ]  # fmt: skip
    assert [w.name for w in words('"A ""b" RoUnd')] == ['a "b', "round"]


@given(st.text(max_size=40))
def test_every_text_has_words(text: str) -> None:
    """Whatever the text, its words stand in it in order."""
    found = words(text, comments=True)
    assert [w.first for w in found] == sorted(w.first for w in found)
    assert all(0 <= w.first < max(1, len(text)) for w in found)
