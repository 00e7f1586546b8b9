"""The door: what a string of a trace may do to a terminal, which is nothing."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tsviz.tui.clean import clean, fit, shorten, told_apart

HOSTILE = {
    "escape": "a\x1b[2Jb",
    "osc52": "a\x1b]52;c;aGk=\x07b",
    "c1": "a\x9b2Jb",
    "bidi": "a\u202eb\u2066c\u061cd",
    "zero width": "a\u200bb\u200dc\ufeffd",
    "tags": "a\U000e0041b",
    "surrogate": "a\ud800b",
    "newline": "a\nb\r\tc\u2028d",
    "filler": "a\u3164b",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_characters_become_visible_stand_ins(text: str) -> None:
    """No control, format, surrogate or invisible character survives, and what is left can be written as UTF-8."""
    cleaned = clean(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in cleaned)
    assert cleaned.encode()
    assert cleaned.startswith("a")
    assert cleaned[-1] == text[-1]


def test_the_stand_in_of_escape_is_its_control_picture() -> None:
    """ESC is U+001B and its picture U+241B, so a reader sees which character was there."""
    assert clean("\x1b[0m") == "\u241b[0m"


def test_a_joiner_inside_emoji_is_dropped_and_anywhere_else_shown() -> None:
    """A family of three is three people of two cells each; between letters it is replaced."""
    assert clean("👩\u200d👩\u200d👧") == "👩👩👧"
    assert cell_len(clean("👩\u200d👩\u200d👧")) == 6
    assert clean("👩🏽\u200d🚒") == "👩🏽🚒"
    assert clean("❤\ufe0f\u200d🔥") == "❤\ufe0f🔥"
    assert clean("a\u200db👩\u200d\u202e") == "a\ufffdb👩\ufffd\ufffd"


def test_stacked_marks_are_cut_to_two() -> None:
    """A letter under a thousand combining marks keeps two of them."""
    assert clean("e" + "\u0301" * 1000) == "e\u0301\u0301"


def test_ordinary_text_is_left_alone() -> None:
    """Letters of any script, wide ones too, are nobody's attack."""
    assert clean("requête-é-漢字-αβγ") == "requête-é-漢字-αβγ"


def test_a_long_id_keeps_its_head_and_its_tail() -> None:
    """Of 10 cells one is the ellipsis, 5 are head and 4 are tail."""
    assert shorten("abcdefghijklmnopqrstuvwxyz", 10) == "abcde…wxyz"


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["chain-a-00000", "chain-b-00000"], ["c…a-00000", "c…b-00000"]),
        (["request-12-aaaaaaaaaa", "request-34-aaaaaaaaaa"], ["…12-aaaa…", "…34-aaaa…"]),
        (["chain-12345678901", "chain-22345678902"], ["chai…8901", "chai…8902"]),
        (["r1", "chain-a-00000", "chain-b-00000"], ["r1", "c…a-00000", "c…b-00000"]),
        (["same-long-request", "same-long-request"], ["same…uest", "same…uest"]),
    ],
)
def test_labels_side_by_side_are_cut_where_they_differ(texts: list[str], labels: list[str]) -> None:
    """In nine cells the middle goes; where that tells nothing apart more of the end stays, or what is shared goes."""
    assert told_apart(texts, 9) == labels


def test_ten_kilobytes_are_cut_without_reading_them_all() -> None:
    """An id of 10,000 characters takes the cells it is given."""
    assert shorten("x" * 9_999 + "y", 8) == "xxxx…xxy"


@given(st.text(), st.integers(0, 40))
def test_fit_takes_exactly_its_cells(text: str, cells: int) -> None:
    """Whatever the characters are, a cell of a table keeps its width."""
    assert cell_len(fit(text, cells)) == cells


@given(st.text())
def test_cleaning_twice_changes_nothing(text: str) -> None:
    """A string may pass the door twice."""
    assert clean(clean(text)) == clean(text)
