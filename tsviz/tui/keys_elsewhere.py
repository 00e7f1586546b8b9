"""Keys of the main screen that open other screens or move through them; `keys.py` takes them in."""

from __future__ import annotations

from tsviz.tui.key import Key

ELSEWHERE_KEYS: tuple[Key, ...] = (
    Key("findings", "f", "findings", "Findings: what is wrong in this trace, and where", "Screens", "findings"),
    Key("sql", "q", "sql", "SQL: ask the trace, chart and save the answer", "Screens", "SQL"),
    Key("break", "b", "watches", "Breakpoints and watches: here, on the request, or any predicate", "Screens", "break"),
    Key("note", "'", "note", "Note something at the cursor; with no words it is a bookmark", "Screens"),
    Key("notes", '"', "notes", "All notes and bookmarks", "Screens"),
    Key("compare", "D", "compare", "Compare with another trace: where they part, and what that did", "Screens"),
    Key("lost", "L", "lost", "Lost time: where the time of requests went, by cause", "Screens", "lost time"),
    Key("follow", "F", "follow", "Follow a trace that is being written: pause, or catch up", "Screens"),
    Key("part", "A", "part(1)", "Another part of the trace (rank, or node), at the same moment", "Screens"),
    Key("pages", "m", "pages", "Pages: who holds, caches and pins every page, and its life", "Screens", "pages"),
    Key("break.next", "c", "hit(1)", "Continue to the next hit of a breakpoint", "Jumping"),
    Key("break.previous", "C", "hit(-1)", "Back to the previous hit of a breakpoint", "Jumping"),
    Key("trail.back", "u", "trail(-1)", "Back to where you were before the last jump", "Jumping"),
    Key("trail.forward", "U", "trail(1)", "Forward again", "Jumping"),
)
