"""What a pane shows when there is no frame: loading, an empty trace, an error. Designed, not accidental."""

from __future__ import annotations

from tsviz.replay.recorded.snapshot import Preparing
from tsviz.tui.lines import Document, Lines, line, wrapped
from tsviz.tui.numbers import percent
from tsviz.tui.scene import Scene

LEAST_COLUMNS, LEAST_ROWS = 48, 14
"""Below this a screen shows a sentence instead."""
BY_COLUMNS = [(0, "-few-columns"), (LEAST_COLUMNS, "-columns")]
BY_ROWS = [(0, "-few-rows"), (LEAST_ROWS, "-short"), (24, "-rows")]
"""Classes of a screen by the size of the terminal."""

_EMPTY = (
    "This trace has no rounds.",
    "Its scheduler was never asked for a plan, or nothing was committed before the recording ended.",
    "`tsviz info` shows what the trace holds.",
)


def without_frame(scene: Scene, width: int, height: int) -> Document | None:
    """Return what to show instead of a pane's content, or None where there is a frame."""
    if scene.frame is not None:
        return None
    if scene.error:
        title, role = "✗ This round could not be read.", "bad"
        sentences = [scene.error, "r tries again, g goes to another round."]
    elif scene.head is not None and scene.rounds == 0:
        title, role = f"∅ {_EMPTY[0]}", "heading"
        sentences = list(_EMPTY[1:])
        if scene.head.live:
            sentences.append("It is still being written: r looks again.")
    elif scene.follow is not None and scene.follow.waiting:
        title, role = "◍ Nothing is recorded yet.", "warn"
        sentences = [f"{scene.follow.waiting[:1].upper()}{scene.follow.waiting[1:]}.",
                     "It is shown as soon as there is something; ctrl+q leaves."]  # fmt: skip
    else:
        which = "the last round" if scene.round < 1 else f"round {scene.round:,}"
        title, role, sentences = f"◌ Loading {which} …", "dim", []
    body = wrapped(title, width, role, indent=1)
    for sentence in sentences:
        body += [line(""), *wrapped(sentence, width, indent=1)]
    above = max((height - len(body)) // 3, 0)
    return Lines([line("")] * above + body)


def being_indexed(preparing: Preparing, width: int) -> Document:
    """Return what to show of requests while what tells of them is being built."""
    if preparing.words:
        return Lines([line(""), *wrapped(f"○ {preparing.words}", width, "dim", indent=1)])
    if preparing.error:
        body = wrapped("✗ Requests are not known: this large trace could not be indexed.", width, "bad", indent=1)
        return Lines([line(""), *body, line(""), *wrapped(preparing.error, width, indent=1)])
    share = percent(preparing.done_rows, preparing.of_rows)
    body = wrapped(f"◌ This large trace is being indexed, once: {share}.", width, "dim", indent=1)
    body += wrapped("Rounds, the pool and events are there; requests and the timeline follow.", width, indent=1)
    return Lines([line(""), *body])


def too_small(_scene: Scene, columns: int, rows: int) -> Document:
    """Return a kind sentence for a terminal of `columns` x `rows`, which is smaller than the least; fits 20x5."""
    least = f"{LEAST_COLUMNS}x{LEAST_ROWS}"
    told = (
        f"This terminal is {columns}x{rows}. tsviz needs {least}: make it larger, or press ctrl+q to leave.",
        f"{columns}x{rows}, needs {least}. ctrl+q leaves.",
        "ctrl+q leaves",
    )
    each = [wrapped(words, columns) for words in told]
    return Lines(next((lines for lines in each if len(lines) <= rows), each[-1][:rows]))
