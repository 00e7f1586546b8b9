"""What changed in a block table, read from its lines."""

from __future__ import annotations

import pytest

from tsviz.replay.recorded.snapshot import BlockTable
from tsviz.tui.lines import Document
from tsviz.tui.panes.blocks import changes, grid, ranges


def text_of(document: Document) -> list[str]:
    """Return the lines of a document."""
    return [document.line(y).text for y in range(document.height)]


def table(pages: tuple[int, ...], before: dict[int, int], zeroed: tuple[int, ...] = ()) -> BlockTable:
    """Return a table whose changed slots are the keys of `before`."""
    return BlockTable("full", 16, pages, frozenset(before), before, frozenset(zeroed))


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ((7,), "7"),
        ((3, 4, 5), "3..5"),
        ((5, 4, 3), "5..3"),
        ((43, 17, 9, 8, 7), "43 17 9..7"),
        ((0, 0, 0), "·"),
        ((1, 3, 5, 7), "1 3 5 7"),
        ((1, 3, 5, 7, 9), "5 pages"),
        ((4, 5, 4), "4..5 4"),
        ((1, 0, 1), "1 · 1"),
    ],
)
def test_pages_are_told_in_few_words(pages: tuple[int, ...], words: str) -> None:
    """Up, down, mixed, holes; from the fifth piece on only how many, for the cells below tell each."""
    assert ranges(pages) == words


def test_each_run_of_slots_says_before_and_after() -> None:
    """Slots 1 and 2 are new and zeroed, 3 was page 9, 4 was page 8 and is a hole; slot 0 is as it was."""
    document = changes(table((5, 30, 31, 6, 0), {1: 0, 2: 0, 3: 9, 4: 8}, zeroed=(1, 2)), 60)
    assert text_of(document)[1:] == [
        "  + 1..2    · → 30..31 new °zeroed",
        "  ~ 3       9 → 6 replaced",
        "  - 4       8 → · dropped",
    ]


def test_cells_carry_their_change_as_a_glyph() -> None:
    """The same table as cells: nothing before 5, + and ° around the new ones, ~ and - before the others."""
    cells = grid(table((5, 30, 31, 6, 0), {1: 0, 2: 0, 3: 9, 4: 8}, zeroed=(1, 2)), 60)[1]
    assert text_of(cells) == ["   0 │   5  +30° +31°  ~6   -· "]


def test_a_table_of_eight_thousand_slots_is_virtual() -> None:
    """128K tokens in pages of 16 are 8,192 slots; at 16 a line they are 512 lines, the last from slot 8,176."""
    cells = grid(table(tuple(range(1, 8193)), {}), 120)[1]
    assert cells.height == 512
    assert cells.line(511).text.startswith(" 8176 │ 8177 ")


def test_an_unchanged_table_says_so() -> None:
    """No change is told in words."""
    assert text_of(changes(table((1, 2), {}), 60))[1] == "   unchanged in this round"
