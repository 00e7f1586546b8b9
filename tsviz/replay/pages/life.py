"""A page's life in words: who held it, when, why that ended, what was stored from it, and when it left the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tsviz.replay.rows.lifetimes import NEVER, Longs

from .cache import KINDS, WAS_CACHED
from .spells import WHY_ENDED
from .values import PageEvent, PageLife

if TYPE_CHECKING:
    from .map import PagesHistory

_ENDED = {
    "held": "",
    "replaced": "given up for a page that was cached already",
    "dropped": "slot expired",
    "restarted": "admitted again",
    "retracted": "retracted",
    "finished": "finished",
    "aborted": "aborted",
}


def page_life(history: PagesHistory, group: int, page: int, zeroed: Longs, names: Sequence[str]) -> PageLife:
    """Return what happened to a page, in order of rounds."""
    number = history.layout.base[group] + page
    told: list[tuple[int, int, PageEvent]] = []

    def tell(turn: int, round_: int, what: str, words: str, submission: int = -1, slot: int = -1) -> None:
        request = names[submission] if submission >= 0 else ""
        told.append((round_, turn, PageEvent(round_, what, request, submission, slot, words)))

    for round_ in zeroed.tolist():
        tell(3, round_, "taken", "taken fresh, to be zeroed")
    spells, tickets = history.spells, history.tickets
    held = tickets.of_page(number)
    loads = set(tickets.from_round[held[tickets.load[held]]].tolist())
    first_rounds = set(zeroed.tolist())
    for spell in spells.of_page(number).tolist():
        submission, slot = int(spells.submission[spell]), int(spells.slot[spell])
        from_, to, why = int(spells.from_round[spell]), int(spells.to_round[spell]), WHY_ENDED[spells.why[spell]]
        words = "placed" if from_ in first_rounds else "loaded" if from_ in loads else "hit"
        tell(4, from_, "placed", words, submission, slot)
        if to != NEVER:
            tell(0, to, "released", _ENDED[why], submission, slot)
    for row in held.tolist():
        op_id, load = int(tickets.op_id[row]), bool(tickets.load[row])
        tell(5, int(tickets.from_round[row]), "loading" if load else "pinned",
             f"load {op_id} fills it" if load else f"store {op_id} pins it")  # fmt: skip
        if tickets.to_round[row] != NEVER:
            tell(1, int(tickets.to_round[row]), "acknowledged", f"operation {op_id} acknowledged")
    published = history.gaps.publications
    for row in (published.number == number).nonzero()[0].tolist():
        round_ = int(published.round[row])
        begins = ", where this trace begins" if history.start is not None and round_ == history.start.round else ""
        tell(6, round_, "published", f"in the prefix index as {KINDS[published.kind[row]]}{begins}")
    gone = history.gaps.evictions
    for row in (gone.number == number).nonzero()[0].tolist():
        kind = KINDS[gone.kind[row]] or "a page"
        hit = "hit since" if gone.acquired[row] else "never hit"
        tell(2, int(gone.round[row]), "evicted", f"evicted as {kind}, {hit}, epoch {int(gone.epoch[row])}")
    gaps = history.gaps
    for row in gaps.of_page(number).tolist():
        if gaps.state[row] == WAS_CACHED:
            tell(2, int(gaps.from_round[row]), "cached", "kept in the prefix cache")
    told.sort(key=lambda each: each[:2])
    last = int(history.decided_round)
    return PageLife(group, page, tuple(event for _, _, event in told), history.source != "none" and last > 0)
