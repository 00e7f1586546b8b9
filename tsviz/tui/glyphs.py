"""The vocabulary of the screen: each meaning has a glyph, a word and a role (colour), always all together.

The legend (`l`) is made from these tables, so what a pane draws and what the legend explains cannot differ.
"""

from __future__ import annotations

from typing import NamedTuple


class Mark(NamedTuple):
    """One meaning: how it is drawn (one cell), what it is called (short), its role in the theme, and a sentence."""

    glyph: str
    word: str
    role: str
    meaning: str


STATES: dict[str, Mark] = {
    "prefilling": Mark("◐", "prefill", "prefilling", "computing its prompt, chunk by chunk"),
    "decoding": Mark("●", "decode", "decoding", "producing tokens"),
    "remote": Mark("⇄", "remote", "remote", "its prompt is computed on another node; pages are on their way"),
    "prefill_done": Mark("◉", "filled", "prefill-done", "prompt computed, not yet decoding here"),
    "retracted": Mark("↺", "retract", "retracted", "lost its pages to others and waits to be readmitted"),
    "waiting": Mark("○", "waiting", "waiting", "submitted, not yet admitted"),
    "bootstrapping": Mark("◌", "boot", "bootstrapping", "connecting to its peer before it may be planned"),
    "finished": Mark("✓", "done", "finished", "ended by itself"),
    "aborted": Mark("✗", "aborted", "aborted", "ended from outside"),
}
"""Request states in the order in which they are listed: what works first, what waits next, what ended last."""

COUNTED = STATES | {
    "pd_transfer": Mark(
        "⇆", "transfer", "remote", "whatever its state, a transfer to or from another node pins its pages"
    ),
}
"""What the scheduler's own counters count: states, and what only they tell apart."""

UNKNOWN_STATE = Mark("?", "unknown", "unknown", "a state that this version of tsviz does not know")

KINDS: dict[str, Mark] = {
    "prefill": Mark("◐", "prefill", "prefilling", "row computes a chunk of a prompt"),
    "remote_prefill": Mark("⇄", "rem.pre", "remote", "row asks another node to compute the prompt"),
    "decode": Mark("●", "decode", "decoding", "row produces the next token"),
    "remote_decode": Mark("⇠", "rem.dec", "remote", "row admits a request whose prompt another node computed"),
}
UNKNOWN_KIND = Mark("?", "unknown", "unknown", "a kind of row that this version of tsviz does not know")

NEW = Mark("+", "new", "new", "the slot was empty and holds this page since this round")
REPLACED = Mark("~", "replaced", "replaced", "the slot held another page before this round")
DROPPED = Mark("-", "dropped", "dropped", "the slot held a page before this round and is a hole now")
HOLE = Mark("·", "hole", "hole", "a slot without a page")
ZEROED = Mark("°", "zeroed", "zeroed", "the page was fresh and was zeroed in this round")
CELLS = (NEW, REPLACED, DROPPED, HOLE, ZEROED)

SELECTED = Mark("▸", "selected", "accent", "the request whose tables are shown")
SCHEDULED = Mark("▪", "in batch", "strong", "has a row in this round's batch")
COMPLETES = Mark("✓", "completes", "good", "this chunk reaches the end of the prompt")
PINNED = Mark("⊙", "held", "warn", "the source pages of the transfer are pinned")
PIN = Mark("★", "pinned", "accent", "a request that you pinned: first in every list")
OTHERS = (PIN, SELECTED, SCHEDULED, COMPLETES, PINNED)


LANES: tuple[Mark, ...] = (
    Mark(" ", "not there", "rule", "the request is not in the system"),
    Mark("┄", "boot", "bootstrapping", "connecting to its peer"),
    Mark("·", "waiting", "waiting", "submitted, not yet admitted"),
    Mark("▒", "prefill", "prefilling", "computing its prompt"),
    Mark("▪", "filled", "prefill-done", "its prompt was completed in this round"),
    Mark("≈", "remote", "remote", "its prompt is computed on another node"),
    Mark("━", "decode", "decoding", "producing tokens"),
    Mark("×", "retract", "retracted", "away: its pages were given to others"),
    Mark("┘", "done", "finished", "ended by itself"),
    Mark("✗", "aborted", "aborted", "ended from outside"),
)
"""Cells of a lane, by the place of the state in ("", *replay.snapshot.STATES)."""

MARKS: dict[str, Mark] = {
    "divergence": Mark("≠", "diverged", "bad", "the twin leaves the recording here"),
    "gap": Mark("▲", "gap", "warn", "something was not recorded here"),
    "hit": Mark("◉", "hit", "bad", "a breakpoint of yours holds here"),
    "note": Mark("✎", "note", "accent", "a note or bookmark of yours"),
    "finding": Mark("‼", "finding", "bad", "a finding begins here"),
    "retraction": Mark("↺", "retracted", "retracted", "a request lost its pages in this round"),
    "capacity": Mark("✗", "no pages", "bad", "an admission was refused for capacity"),
    "grant": Mark("⊕", "granted", "good", "the pages of a victim were granted"),
    "readmission": Mark("↩", "returned", "prefill-done", "a retracted request was readmitted"),
    "head_of_line": Mark("▐", "line held", "warn", "an incomplete prefill held the line"),
    "promotion": Mark("↟", "promoted", "accent", "a prefix was promoted at a boundary"),
    "replay": Mark("↻", "replayed", "zeroed", "tokens were fed again"),
}
"""Marks of the timeline, the gravest first: where they share a line the gravest is seen."""

OUTCOMES: dict[str, Mark] = {
    "admitted": Mark("✓", "admitted", "good", "pages were found: it has a row"),
    "refused": Mark("✗", "refused", "bad", "refused for capacity"),
    "not_now": Mark("◦", "not now", "warn", "nothing was refused, and nothing could be scheduled"),
    "told": Mark("·", "told", "dim", "neither admitted nor refused"),
    "retracted": Mark("↺", "gave way", "retracted", "a victim lost its pages to the request that was blocked"),
    "stuck": Mark("⊘", "stuck", "warn", "nobody could give way"),
}
"""What an entry of a phase, or a stop, ended with."""


def state_mark(state: str) -> Mark:
    """Return how a request state is drawn; a state of a newer trace is drawn as unknown, not guessed."""
    return STATES.get(state, UNKNOWN_STATE)


def kind_mark(kind: str) -> Mark:
    """Return how a kind of scheduled row is drawn."""
    return KINDS.get(kind, UNKNOWN_KIND)
