"""The block tables of the selected request per group, with what this round changed.

First one line a run of changed slots (`64..95  · → 301..332`), so that a change is read without searching; then every
slot as a cell with its page id, virtual by line, so that a table of 8,000 slots costs what is seen of it.
"""

from __future__ import annotations

from tsviz.tui.lines import Document, Lines, Span, Stack, line, wrapped
from tsviz.tui.panes.blocks import changes, grid
from tsviz.tui.panes.request import selected_line, title
from tsviz.tui.scene import Scene

_WITHOUT_TABLE = {
    "waiting": "it waits to be admitted",
    "bootstrapping": "it waits for its peer",
    "retracted": "its pages were given to others",
    "finished": "it has ended and its pages were given back",
    "aborted": "it was aborted and its pages were given back",
}


def tables(scene: Scene, width: int, _height: int) -> Document:
    """Return the changes of the selected request's tables, and the tables."""
    request, frame = selected_line(scene), scene.frame
    head = title(scene, width)
    if request is None or frame is None:
        return head
    if frame.snapshot.selected != scene.selected:
        return Stack((head, Lines((line(""), line(Span(" ◌ loading its tables …", "dim"))))))
    if not frame.snapshot.tables:
        reason = _WITHOUT_TABLE.get(request.state, "it holds no pages in this round")
        return Stack((head, Lines((line(""), *wrapped(f"No block table: {reason}.", width, "dim", indent=1)))))
    parts = [head, *(changes(table, width) for table in frame.snapshot.tables)]
    for table in frame.snapshot.tables:
        parts += grid(table, width)
    return Stack(parts)
