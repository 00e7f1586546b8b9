"""The colours of a report: legible in both themes, and apart for those who do not see red and green."""

from __future__ import annotations

import itertools
import re
from importlib.resources import files

import pytest

STYLE = files("tsviz.report").joinpath("assets", "page.css").read_text(encoding="utf-8")
PAIRS = {name: (light, dark) for name, light, dark in re.findall(
    r"--([a-z0-9]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", STYLE
)}  # fmt: skip
TEXTS = ("text", "dim", "accent", "bad", "warn", "good")
DRAWN = ("decode", "prefill", "queued", "retracted", "again", "pool", "cached", "replay",
         "c1", "c2", "c3", "c4", "c5", "c6", "c7")  # fmt: skip
STACKS = (
    ("decode", "prefill", "queued", "retracted"), ("decode", "prefill", "replay"), ("prefill", "again"),
    ("pool", "cached", "empty"), ("row", "c1", "c2", "c3", "c4", "c5", "c6"),
)  # fmt: skip
"""Roles that stand beside each other in one chart."""
LEAST_APART = 12.0
"""Distance in CIELAB under which two areas side by side are hard to tell apart."""


def linear(colour: str) -> tuple[float, float, float]:
    """Return the linear parts of a colour."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return red, green, blue


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def seen(colour: str) -> tuple[float, float, float]:
    """Return a colour in CIELAB as a deuteranope sees it (Machado, Oliveira, Fernandes 2009, severity 1)."""
    r, g, b = linear(colour)
    red = 0.367322 * r + 0.860646 * g - 0.227968 * b
    green = 0.280085 * r + 0.672501 * g + 0.047413 * b
    blue = -0.011820 * r + 0.042940 * g + 0.968881 * b
    r, g, b = (min(1.0, max(0.0, part)) for part in (red, green, blue))
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505, 0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )  # fmt: skip
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_shapes_have_their_contrast(theme: int) -> None:
    """Text stands 4.5 to 1 against both grounds, what is drawn 3 to 1 against the page."""
    for role in TEXTS:
        for ground in ("ground", "raised"):
            assert contrast(PAIRS[role][theme], PAIRS[ground][theme]) >= 4.5, (role, ground)
    for role in DRAWN:
        assert contrast(PAIRS[role][theme], PAIRS["ground"][theme]) >= 3, role


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_neighbours_are_apart_for_a_deuteranope(theme: int) -> None:
    """Any two roles that may touch in a chart are at least 12 apart in CIELAB as a deuteranope sees them."""
    for stack in STACKS:
        for one, other in itertools.combinations(stack, 2):
            a, b = seen(PAIRS[one][theme]), seen(PAIRS[other][theme])
            apart = sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) ** 0.5
            assert apart >= LEAST_APART, (one, other, round(apart, 1))


def test_every_role_of_a_chart_has_a_colour() -> None:
    """The roles of patterns and those that charts name are in the style sheet."""
    from tsviz.report.chart import PATTERNS

    assert set(PATTERNS) <= set(PAIRS)
