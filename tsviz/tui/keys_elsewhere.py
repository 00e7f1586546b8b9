"""Keys of the main screen that open other screens or move through them; `keys.py` takes them in."""

from __future__ import annotations

from tsviz.tui.key import Key

ELSEWHERE_KEYS: tuple[Key, ...] = (
    Key("findings", "f", "findings", "Findings: what is wrong in this trace, and where", "Screens", "findings"),
    Key("sql", "q", "sql", "SQL: ask the trace, chart and save the answer", "Screens", "SQL"),
    Key("lost", "L", "lost", "Lost time: where the time of requests went, by cause", "Screens", "lost time"),
    Key("pages", "m", "pages", "Pages: who holds, caches and pins every page, and each page's life", "Screens"),
)
