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
    "pd_transfer": Mark("⇆", "transfer", "remote", "its pages are on their way to or from another node"),
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
PINNED = Mark("⊙", "pinned", "warn", "the source pages of the transfer are pinned")
OTHERS = (SELECTED, SCHEDULED, COMPLETES, PINNED)


def state_mark(state: str) -> Mark:
    """Return how a request state is drawn; a state of a newer trace is drawn as unknown, not guessed."""
    return STATES.get(state, UNKNOWN_STATE)


def kind_mark(kind: str) -> Mark:
    """Return how a kind of scheduled row is drawn."""
    return KINDS.get(kind, UNKNOWN_KIND)
