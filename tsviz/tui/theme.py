"""Our themes. A role of a span is a colour in every theme; contrasts are held by a test, not by taste.

`plain` is for NO_COLOR: no colour at all, only bold, underline and reverse, which is enough because every meaning
also has a glyph and a word (`glyphs.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from tsviz.tui.palettes import DEUTERANOPIA, DEUTERANOPIA_LIGHT, TRITANOPIA, TRITANOPIA_LIGHT

DARK: dict[str, str] = {
    "text": "#d7dae0", "strong": "#f5f7fa", "dim": "#98a3b4", "rule": "#4a5466", "heading": "#c3cad6",
    "column": "#98a3b4", "title": "#ffffff", "brand": "#0d1117", "accent": "#6cb6ff", "position": "#ffd166",
    "message": "#ffd166", "key": "#6cb6ff", "good": "#7ee787", "warn": "#ffb454", "bad": "#ff8080",
    "past": "#66758c", "pool": "#58a6d6", "pool-bar": "#58a6d6", "pool-full": "#ff8080", "budget": "#7bc47f",
    "bar-empty": "#4a5466", "pool-cached": "#7d9db5",
    "transfer": "#c8a6ff", "tab": "#98a3b4", "tab-active": "#ffffff",
    "prefilling": "#ffc857", "decoding": "#7ee787", "remote": "#c8a6ff", "prefill-done": "#a5e3c0",
    "retracted": "#ff8f8f", "waiting": "#9fb2cc", "bootstrapping": "#9aa9be", "finished": "#98a3b4",
    "aborted": "#e08aa8", "unknown": "#ff9ef0",
    "new": "#7ee787", "replaced": "#ffc857", "dropped": "#ff8f8f", "hole": "#98a3b4", "zeroed": "#79dcf0",
    "page": "#aab4c3", "lit": "#ffd166",
}  # fmt: skip
"""Role to colour on the dark ground."""

LIGHT: dict[str, str] = {
    "text": "#24292f", "strong": "#0b0f14", "dim": "#59636e", "rule": "#b3bcc7", "heading": "#38424e",
    "column": "#59636e", "title": "#000000", "brand": "#ffffff", "accent": "#0757ba", "position": "#8a4b00",
    "message": "#8a4b00", "key": "#0757ba", "good": "#116329", "warn": "#8f4700", "bad": "#b3151f",
    "past": "#7d8896", "pool": "#2878b8", "pool-bar": "#2878b8", "pool-full": "#b3151f", "budget": "#2f8540",
    "bar-empty": "#c3cbd4", "pool-cached": "#5b7388",
    "transfer": "#6f35c4", "tab": "#59636e", "tab-active": "#000000",
    "prefilling": "#7f4f00", "decoding": "#116329", "remote": "#6f35c4", "prefill-done": "#0b6153",
    "retracted": "#b3151f", "waiting": "#3f5673", "bootstrapping": "#4f5d70", "finished": "#59636e",
    "aborted": "#962c5b", "unknown": "#93218a",
    "new": "#116329", "replaced": "#7f4f00", "dropped": "#b3151f", "hole": "#59636e", "zeroed": "#075f72",
    "page": "#414b57", "lit": "#8a4b00",
}  # fmt: skip
"""Role to colour on the light ground."""

ROLES = tuple(DARK)
DECORATION = frozenset({"rule", "bar-empty", "past"})
"""Roles that carry no meaning by themselves (rules, empty ends of bars): exempt from the text contrast."""

GROUNDS: dict[str, dict[str, str]] = {
    "dark": {
        "ground": "#0d1117",
        "raised": "#161b22",
        "cursor": "#243249",
        "bar-ground": "#2a3240",
        "brand-ground": "#6cb6ff",
    },
    "light": {
        "ground": "#ffffff",
        "raised": "#f2f4f7",
        "cursor": "#dbe9fb",
        "bar-ground": "#dde2e9",
        "brand-ground": "#0757ba",
    },
}
"""What text stands on: the panes, the lines at the edges, the cursor bar, and the name at the top left."""


def _variables(roles: dict[str, str], grounds: dict[str, str]) -> dict[str, str]:
    return {f"role-{name}": colour for name, colour in roles.items()} | grounds


def _theme(name: str, dark: bool, roles: dict[str, str], grounds: dict[str, str]) -> Theme:
    edges = {
        "border": roles["accent"],
        "border-blurred": roles["rule"],
        "block-cursor-background": grounds["cursor"],
        "block-cursor-foreground": roles["strong"],
        "input-selection-background": grounds["cursor"],
        "scrollbar": roles["rule"],
        "scrollbar-hover": roles["past"],
        "scrollbar-active": roles["accent"],
        "scrollbar-background": grounds["ground"],
        "scrollbar-background-hover": grounds["ground"],
        "scrollbar-background-active": grounds["ground"],
        "scrollbar-corner-color": grounds["ground"],
    }
    return Theme(
        name=name,
        dark=dark,
        primary=roles["accent"],
        secondary=roles["pool"],
        accent=roles["position"],
        warning=roles["warn"],
        error=roles["bad"],
        success=roles["good"],
        foreground=roles["text"],
        background=grounds["ground"],
        surface=grounds["ground"],
        panel=grounds["raised"],
        variables=_variables(roles, grounds) | edges,
    )


TSVIZ_DARK = _theme("tsviz-dark", True, DARK, GROUNDS["dark"])
TSVIZ_LIGHT = _theme("tsviz-light", False, LIGHT, GROUNDS["light"])
_ANSI = "ansi_default"
_SCROLL_GROUNDS = ("background", "background-hover", "background-active", "corner-color")
TSVIZ_PLAIN = Theme(
    name="tsviz-plain",
    ansi=True,
    dark=True,
    primary=_ANSI,
    secondary=_ANSI,
    accent=_ANSI,
    warning=_ANSI,
    error=_ANSI,
    success=_ANSI,
    foreground=_ANSI,
    background=_ANSI,
    surface=_ANSI,
    panel=_ANSI,
    boost=_ANSI,
    variables=BUILTIN_THEMES["ansi-dark"].variables
    | dict.fromkeys([*(f"role-{role}" for role in ROLES), *GROUNDS["dark"], "border", "border-blurred"], _ANSI)
    | dict.fromkeys([f"scrollbar-{part}" for part in _SCROLL_GROUNDS], _ANSI)
    | dict.fromkeys(["scrollbar", "scrollbar-hover", "scrollbar-active"], "ansi_bright_black")
    | dict.fromkeys(["input-selection-background", "screen-selection-background"], "ansi_white"),
)
"""No colour: what the terminal writes with, and its grey where an area must show (the thumb, what is selected)."""

TSVIZ_DEUTERANOPIA = _theme("tsviz-deuteranopia", True, DARK | DEUTERANOPIA, GROUNDS["dark"])
TSVIZ_TRITANOPIA = _theme("tsviz-tritanopia", True, DARK | TRITANOPIA, GROUNDS["dark"])
TSVIZ_DEUTERANOPIA_LIGHT = _theme("tsviz-deuteranopia-light", False, LIGHT | DEUTERANOPIA_LIGHT, GROUNDS["light"])
TSVIZ_TRITANOPIA_LIGHT = _theme("tsviz-tritanopia-light", False, LIGHT | TRITANOPIA_LIGHT, GROUNDS["light"])

THEMES = (
    TSVIZ_DARK, TSVIZ_LIGHT, TSVIZ_DEUTERANOPIA, TSVIZ_DEUTERANOPIA_LIGHT, TSVIZ_TRITANOPIA, TSVIZ_TRITANOPIA_LIGHT,
    TSVIZ_PLAIN,
)  # fmt: skip
CHOICES = {theme.name.removeprefix("tsviz-"): theme.name for theme in THEMES}
"""What people call the themes, in the order in which the key goes through them."""


def chosen_theme(name: str | None) -> str:
    """Return the theme that a word names, with or without `tsviz-`; the dark one for none. Raises KeyError."""
    return CHOICES["dark" if name is None else name.removeprefix("tsviz-")]


def next_theme(name: str) -> str:
    """Return the theme behind one of ours; the first one behind any other."""
    names = list(CHOICES.values())
    return names[(names.index(name) + 1) % len(names)] if name in names else names[0]


DEFAULTS = _variables(DARK, GROUNDS["dark"])
"""Values for themes that are not ours: a theme of the toolkit may be chosen in the palette."""


def contrast(one: str, other: str) -> float:
    """Return the WCAG contrast ratio of two `#rrggbb` colours, 1 to 21."""

    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


_BOLD = frozenset(
    {"strong", "title", "position", "key", "new", "replaced", "dropped", "zeroed", "bad", "tab-active", "message",
     "brand", "lit"}
)  # fmt: skip
_ON = {"brand": "brand-ground", "cursor": "cursor", "pool-bar": "bar-ground", "budget": "bar-ground",
       "bar-empty": "bar-ground"}  # fmt: skip
_REVERSE = frozenset({"brand", "position", "cursor"})
"""Roles that are reversed where no colour tells them apart."""


def role_style(role: str, variables: Mapping[str, str], *, no_color: bool) -> Style:
    """Return how text of a role is drawn: the one place where roles become colours.

    Not by style rules of the toolkit: it would match each of them against each role of every pane whenever a class
    changes anywhere, which is most of the time of a first paint and of a change of focus.

    Args:
        role: One of `ROLES`, or `cursor` for what is under it.
        variables: Colours by name, those of the theme in use (`App.theme_variables`).
        no_color: Whether the terminal has none.
    """
    return Style(
        color=_colour(variables, f"role-{role}") if role in DARK else None,
        bgcolor=_colour(variables, _ON[role]) if role in _ON else None,
        bold=role in _BOLD or None,
        underline=role == "lit" or None,
        reverse=(no_color and role in _REVERSE) or None,
    )


def _colour(variables: Mapping[str, str], name: str) -> RichColor:
    return Color.parse(variables[name]).rich_color
