"""Colours can be read, and nothing is told by colour alone."""

from __future__ import annotations

import itertools

import pytest

from tsviz.tui.glyphs import CELLS, COUNTED, KINDS, OTHERS, STATES, UNKNOWN_KIND, UNKNOWN_STATE
from tsviz.tui.theme import DARK, DECORATION, GROUNDS, LIGHT, ROLES, contrast

PALETTES = {"dark": DARK, "light": LIGHT}
BARS = {"pool", "pool-bar", "pool-cached", "budget"}
"""Shapes, not text: WCAG asks 3 of them."""


def test_contrast_is_the_one_of_wcag() -> None:
    """Black on white is 21; #767676 on white is the known 4.54."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", PALETTES)
@pytest.mark.parametrize("ground", ["ground", "raised", "cursor"])
@pytest.mark.parametrize("role", ROLES)
def test_every_role_can_be_read_on_every_ground(theme: str, ground: str, role: str) -> None:
    """Text has a contrast of 4.5 and a bar 3, also under the cursor bar; the brand stands on a ground of its own."""
    if role in DECORATION:
        return
    on = GROUNDS[theme]["brand-ground" if role == "brand" else ground]
    assert contrast(PALETTES[theme][role], on) >= (3 if role in BARS else 4.5)


def test_both_themes_colour_the_same_roles() -> None:
    """A role that one theme forgot would be drawn in the other's colour."""
    assert set(DARK) == set(LIGHT)
    assert set(GROUNDS["dark"]) == set(GROUNDS["light"])


@pytest.mark.parametrize(
    "marks", [(*COUNTED.values(), UNKNOWN_STATE), (*KINDS.values(), UNKNOWN_KIND), (*CELLS, *OTHERS)]
)
def test_no_two_meanings_share_a_glyph_or_a_word(marks: tuple[object, ...]) -> None:
    """Without colour, marks that can stand at the same place still differ, by glyph and by word."""
    for one, other in itertools.combinations(marks, 2):
        assert one[0] != other[0]  # type: ignore[index]
        assert one[1] != other[1]  # type: ignore[index]


def test_every_mark_has_a_role_of_the_theme_and_one_cell() -> None:
    """A glyph of two cells would shift its line."""
    from rich.cells import cell_len

    for mark in (*STATES.values(), *KINDS.values(), *CELLS, *OTHERS, UNKNOWN_KIND, UNKNOWN_STATE):
        assert mark.role in ROLES
        assert cell_len(mark.glyph) == 1
