"""Themes: contrast of every role, distances as colour-blind people see them, and nothing told by colour alone."""

from __future__ import annotations

import itertools

import pytest
from textual.geometry import Region

from tests.tui.desks import FakeDesk
from tests.tui.fakes import FullView
from tests.tui.helpers import press, rest, screen_text, settle
from tsviz.cli.open_ import THEMES as OFFERED
from tsviz.replay.pages.values import CODES
from tsviz.tui import theme as themes
from tsviz.tui.app import DebuggerApp
from tsviz.tui.glyphs import CELLS, COUNTED, KINDS, OTHERS, STATES, UNKNOWN_KIND, UNKNOWN_STATE
from tsviz.tui.page_glyphs import LIT, PAGE_MARKS, UNBOUND
from tsviz.tui.palettes import (
    DEUTERANOPIA,
    DEUTERANOPIA_LIGHT,
    LEAST_DISTANCE,
    TOLD_APART,
    TRITANOPIA,
    TRITANOPIA_LIGHT,
)
from tsviz.tui.panes.page_card import EVENT_SIGNS
from tsviz.tui.theme import CHOICES, DARK, DECORATION, GROUNDS, LIGHT, ROLES, TSVIZ_PLAIN, chosen_theme, contrast
from tsviz.tui.widgets.pane import Pane

PALETTES = {
    "deuteranopia": DARK | DEUTERANOPIA,
    "tritanopia": DARK | TRITANOPIA,
    "deuteranopia-light": LIGHT | DEUTERANOPIA_LIGHT,
    "tritanopia-light": LIGHT | TRITANOPIA_LIGHT,
}
BARS = {"pool", "pool-bar", "pool-cached", "budget"}

# Machado, Oliveira, Fernandes 2009, severity 1: what is left of linear RGB.
SIGHT = {
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)


def seen(colour: str, sight: str | None) -> tuple[float, float, float]:
    """Return a colour in CIE L*a*b* as somebody sees it; None: with all three cones."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    if sight is not None:
        linear = [min(max(sum(m * c for m, c in zip(row, linear, strict=True)), 0), 1) for row in SIGHT[sight]]
    xyz = [sum(m * c for m, c in zip(row, linear, strict=True)) / w for row, w in zip(XYZ, WHITE, strict=True)]
    x, y, z = (c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one: str, other: str, sight: str | None) -> float:
    """Return how far two colours are apart (CIE 1976)."""
    return sum((a - b) ** 2 for a, b in zip(seen(one, sight), seen(other, sight), strict=True)) ** 0.5


def test_the_simulation_is_what_is_known() -> None:
    """White is L* 100 for everybody; the red and green that differ by 170 are under 60 apart to a deuteranope."""
    assert seen("#ffffff", None)[0] == pytest.approx(100, abs=0.1)
    assert distance("#ff0000", "#00ff00", None) == pytest.approx(170.6, abs=0.5)
    assert distance("#ff0000", "#7f7f00", "deuteranopia") < distance("#ff0000", "#7f7f00", None) / 2
    assert distance("#0000ff", "#00ff00", "tritanopia") < distance("#0000ff", "#00ff00", None) / 2


@pytest.mark.parametrize("sight", PALETTES)
def test_roles_at_the_same_place_are_told_apart_without_a_cone(sight: str) -> None:
    """Every two roles of a set are at least 12 apart as seen."""
    palette, sight = PALETTES[sight], sight.removesuffix("-light")
    for roles in TOLD_APART:
        for one, other in itertools.combinations(roles, 2):
            assert distance(palette[one], palette[other], sight) >= LEAST_DISTANCE, (one, other)


@pytest.mark.parametrize("theme", PALETTES)
@pytest.mark.parametrize("ground", ["ground", "raised", "cursor"])
def test_every_role_of_the_other_palettes_can_be_read(theme: str, ground: str) -> None:
    """4.5 for text, 3 for bars (WCAG 2.1), also under the cursor bar."""
    for role in set(ROLES) - DECORATION:
        on = GROUNDS["light" if theme.endswith("light") else "dark"]["brand-ground" if role == "brand" else ground]
        assert contrast(PALETTES[theme][role], on) >= (3 if role in BARS else 4.5), role


def test_the_sets_name_every_role_that_a_mark_has() -> None:
    """No mark of a state, a cell or a page has a role that nobody compared."""
    compared = {role for roles in TOLD_APART for role in roles} | {"strong", "hole"}
    marks = (*COUNTED.values(), *KINDS.values(), *CELLS, *OTHERS, UNKNOWN_KIND, UNKNOWN_STATE, *PAGE_MARKS.values())
    assert {mark.role for mark in (*marks, LIT, UNBOUND)} <= compared


def test_no_page_is_told_by_colour_alone() -> None:
    """Every code of a page has a mark of its own glyph and word; the lit page is underlined, events have signs."""
    assert set(PAGE_MARKS) == set(CODES)
    glyphs = [mark.glyph for mark in (*PAGE_MARKS.values(), UNBOUND)]
    words = [mark.word for mark in (*PAGE_MARKS.values(), UNBOUND)]
    assert len(set(glyphs)) == len(glyphs)
    assert len(set(words)) == len(words)
    assert themes.role_style("lit", themes.DEFAULTS, no_color=True).underline
    signs = [glyph for glyph, _, _ in EVENT_SIGNS]
    assert len(set(signs)) == len(signs)


def test_every_role_that_means_something_has_a_glyph() -> None:
    """States, kinds and cells: as many glyphs as meanings, so that a screen without colour says the same."""
    for marks in (STATES.values(), KINDS.values(), CELLS):
        assert len({mark.glyph for mark in marks}) == len(list(marks))


def test_the_command_offers_the_themes_that_there_are() -> None:
    """`tsviz open --theme` and the key know the same names; an unknown one is no theme."""
    assert tuple(CHOICES) == OFFERED
    assert chosen_theme(None) == chosen_theme("tsviz-dark") == "tsviz-dark"
    with pytest.raises(KeyError):
        chosen_theme("mauve")


def test_the_plain_theme_has_no_hue() -> None:
    """Scrollbars and what is selected too are drawn in black, grey or white, or as the terminal draws."""
    drawn = {
        name: value
        for name, value in TSVIZ_PLAIN.variables.items()
        if name.startswith(("scrollbar", "screen-sel", "input-sel"))
    }
    assert {"scrollbar", "screen-selection-background"} < drawn.keys()
    assert set(drawn.values()) <= {"ansi_default", "ansi_black", "ansi_bright_black", "ansi_white"}


async def test_the_key_goes_through_every_theme(monkeypatch: pytest.MonkeyPatch) -> None:
    """ctrl+t: seven themes and the first again; what is drawn is drawn in the colours of the theme."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    async with DebuggerApp(FullView(), start_round=64).run_test(size=(120, 40)) as pilot:
        screen = await settle(pilot)
        names = []
        for _ in CHOICES:
            await press(pilot, "ctrl+t")
            names.append(pilot.app.theme)
            strip = screen.query_one("#requests").render_line(1)
            colours = {segment.style.color.name for segment in strip if segment.style and segment.style.color}
            known = {"tsviz-plain": {"default"}}.get(pilot.app.theme)
            assert known is None or colours <= known, colours
        assert names == [*list(CHOICES.values())[1:], "tsviz-dark"]


@pytest.mark.parametrize("theme", CHOICES)
async def test_every_theme_says_the_same(theme: str) -> None:
    """The characters of the screen do not depend on the theme: what a colour tells, a glyph or a word tells too."""
    async with DebuggerApp(FullView(), start_round=64, theme=chosen_theme(theme)).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        said = screen_text(pilot.app)
        pilot.app.theme = "tsviz-dark"
        await settle(pilot)
        assert screen_text(pilot.app) == said


@pytest.mark.parametrize("key", ["f", "L", "q", "m"])
async def test_other_screens_are_drawn_in_every_theme(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """The characters are the same, and every colour of a pane is one of the theme's own, whose contrasts are tested."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    async with DebuggerApp(FullView(), start_round=64, desk=FakeDesk()).run_test(size=(120, 40)) as pilot:
        await rest(pilot)
        await pilot.press(key)
        await rest(pilot)
        said = screen_text(pilot.app)
        for name in CHOICES.values():
            pilot.app.theme = name
            await settle(pilot)
            assert screen_text(pilot.app) == said, name
            own = {str(value).lower() for value in pilot.app.get_theme(name).variables.values()}  # type: ignore[union-attr]
            if name == "tsviz-plain":
                own = {"default"}
            for pane in pilot.app.screen.query(Pane):
                strips = pane.render_lines(Region(0, 0, pane.outer_size.width, pane.outer_size.height))
                styles = [segment.style for strip in strips for segment in strip if segment.style is not None]
                assert {style.color.name for style in styles if style.color} <= own, (name, pane.id)
