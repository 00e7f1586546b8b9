"""Colours for people who do not tell red from green, or blue from yellow: the dark theme with other colours.

Found by search: every two roles that can stand at the same place are at least 12 apart (CIE 1976) as these people see
them, and every role has the contrast of the dark theme. A test holds both (tests/tui/test_themes.py).
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

TOLD_APART: tuple[tuple[str, ...], ...] = (
    ("prefilling", "decoding", "remote", "prefill-done", "retracted", "waiting", "bootstrapping", "finished",
     "aborted", "unknown"),
    ("new", "replaced", "dropped", "hole", "zeroed", "page"),
    ("good", "warn", "bad", "accent"),
    ("page", "accent", "waiting", "prefilling", "zeroed", "warn", "transfer", "pool", "dropped", "unknown", "lit"),
)  # fmt: skip
"""Roles that can stand at the same place: states, cells of a table, outcomes, pages."""
LEAST_DISTANCE = 12.0
