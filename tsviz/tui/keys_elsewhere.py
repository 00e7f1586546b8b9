"""Keys of the main screen that open other screens or move through them; `keys.py` takes them in."""

from __future__ import annotations

from tsviz.tui.key import Key

ELSEWHERE_KEYS: tuple[Key, ...] = (
    Key("findings", "f", "findings", "Findings: what is wrong in this trace, and where", "Screens", "findings"),
    Key("lost", "L", "lost", "Lost time: where the time of requests went, by cause", "Screens", "lost time"),
)
