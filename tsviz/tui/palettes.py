"""Colours for people who do not tell red from green, or blue from yellow: both themes with other colours.

Found by search: every two roles that can stand at the same place are at least 12 apart (CIE 1976) as these people see
them, and every role has the contrast of the theme. A test holds both (tests/tui/test_themes.py).
"""

from __future__ import annotations

DEUTERANOPIA: dict[str, str] = {
    "good": "#3fa5ff", "warn": "#fff0a0", "bad": "#ffb000", "transfer": "#d6d0a5",
    "prefilling": "#ffd84a", "decoding": "#5aa2ff", "remote": "#ded8da", "prefill-done": "#a8d0ff",
    "retracted": "#e09000", "waiting": "#9cb79c", "bootstrapping": "#95b07e", "aborted": "#c8924a",
    "unknown": "#ffa5e8", "new": "#6cb6ff", "replaced": "#fff3b0", "dropped": "#ffa030", "zeroed": "#b2ffd6",
    "page": "#dfe3ea", "pool-full": "#ffb000", "budget": "#5aa2ff",
}  # fmt: skip
"""Blue against yellow and orange, told apart by lightness as well."""

TRITANOPIA: dict[str, str] = {
    "good": "#a4ffff", "warn": "#ffff5e", "bad": "#ff6b7a", "transfer": "#ff40ff",
    "prefilling": "#ffd0d8", "decoding": "#2bd4c8", "remote": "#babfff", "prefill-done": "#a5e3c0",
    "retracted": "#ff6678", "waiting": "#c99de5", "bootstrapping": "#ffffff", "aborted": "#e08aa8",
    "unknown": "#ff9ef0", "new": "#39d0d8", "replaced": "#ffe0e0", "dropped": "#ff7a88", "zeroed": "#9adaff",
    "page": "#dfe3ea", "pool": "#22fbd8", "pool-bar": "#22fbd8", "pool-full": "#ff6b7a", "budget": "#2bd4c8",
    "lit": "#98db03",
}  # fmt: skip
"""Red against cyan, told apart by lightness as well."""

DEUTERANOPIA_LIGHT: dict[str, str] = {
    "good": "#005aa1", "warn": "#242700", "bad": "#843811", "transfer": "#6d652d",
    "prefilling": "#3f4415", "decoding": "#0056cd", "remote": "#756168", "prefill-done": "#37409d",
    "retracted": "#8e5c00", "waiting": "#573e43", "bootstrapping": "#556e40", "finished": "#00659e",
    "aborted": "#644d0d", "unknown": "#b90588", "new": "#0065c8", "replaced": "#6f0521", "dropped": "#890300",
    "hole": "#6c636d", "zeroed": "#046f3a", "page": "#2c415d", "lit": "#885700", "pool-full": "#843811",
    "budget": "#0056cd",
}  # fmt: skip
"""Blue against brown and olive on a light ground, told apart by lightness as well."""

TRITANOPIA_LIGHT: dict[str, str] = {
    "good": "#007171", "warn": "#686800", "bad": "#cc0015", "accent": "#0034a5", "transfer": "#932982",
    "prefilling": "#b0080f", "decoding": "#1e534c", "remote": "#3a49ff", "prefill-done": "#1f7444",
    "retracted": "#ce000f", "waiting": "#9331d2", "bootstrapping": "#615653", "aborted": "#bc295d",
    "unknown": "#bd009f", "new": "#00574c", "replaced": "#bd0010", "dropped": "#7b0400", "hole": "#585c50",
    "zeroed": "#006ba9", "page": "#804d7a", "pool": "#00937c", "pool-bar": "#00937c", "pool-full": "#cc0015",
    "budget": "#00937c", "lit": "#4c6e00",
}  # fmt: skip
"""Red against teal on a light ground, told apart by lightness as well."""

TOLD_APART: tuple[tuple[str, ...], ...] = (
    ("prefilling", "decoding", "remote", "prefill-done", "retracted", "waiting", "bootstrapping", "finished",
     "aborted", "unknown"),
    ("new", "replaced", "dropped", "hole", "zeroed", "page"),
    ("good", "warn", "bad", "accent"),
    ("page", "accent", "waiting", "prefilling", "zeroed", "warn", "transfer", "pool", "dropped", "unknown", "lit"),
)  # fmt: skip
"""Roles that can stand at the same place: states, cells of a table, outcomes, pages."""
LEAST_DISTANCE = 12.0
