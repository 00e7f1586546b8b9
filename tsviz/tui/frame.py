"""A frame: one snapshot with its requests in the order in which they are listed.

Filtering and sorting 100,000 requests takes longer than a key may, so it is done where snapshots are fetched and
arrives with them; the screen only looks lines up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tsviz.replay.recorded.snapshot import RequestLine, Snapshot
from tsviz.replay.stops.story import NotKnown, RoundStory
from tsviz.tui.glyphs import STATES

LAST = -1
"""In `Ask.round`: whatever round is the last one when it is looked at (a live trace grows)."""

PINNED = "pinned"
"""What heads the requests that were pinned, in place of a state."""
_STATE_RANK = {state: rank for rank, state in enumerate(STATES)}
_ENDED = ("finished", "aborted")
_SortKey = Callable[[RequestLine], tuple[int | str, ...]]

ORDERS: dict[str, tuple[str, _SortKey]] = {
    "state": ("by state", lambda r: (_STATE_RANK.get(r.state, len(_STATE_RANK)), r.state, r.submission)),
    "arrival": ("by arrival", lambda r: (r.submission,)),
    "age": ("oldest first", lambda r: (-r.age_rounds, r.submission)),
    "pages": ("most pages first", lambda r: (-r.held_pages, r.submission)),
    "retractions": ("most retracted first", lambda r: (-r.retractions, r.submission)),
    "id": ("by id", lambda r: (r.request, r.submission)),
}
"""Orders of the list of requests: what it is called, and the key. Only `state` has headings."""


def longest_waits(snapshot: Snapshot) -> list[RequestLine]:
    """Return the requests that have no row in a round, whose cause has held longest first; undecided, by age."""
    if snapshot.decisions == "none":
        live = (each for each in snapshot.requests if not each.scheduled and each.state not in _ENDED)
        return sorted(live, key=ORDERS["age"][1])
    waiting = [(each.cause.since_round, each.submission, each)
               for each in snapshot.requests if each.cause is not None and not each.scheduled]  # fmt: skip
    return [each for _, _, each in sorted(waiting, key=lambda wait: wait[:2])]


@dataclass(frozen=True, slots=True)
class Ask:
    """What the screen wants to see: a round (or LAST), whose tables, and which requests in which order."""

    round: int
    selected: int | None = None
    filter: str = ""
    order: str = "state"
    pinned: frozenset[int] = frozenset()
    reverse: bool = False


class Widest(NamedTuple):
    """What the columns of a list must have room for: cells of the longest id, and the largest numbers of tokens."""

    id_cells: int
    prompt_tokens: int
    generated_tokens: int


NOTHING_WIDE = Widest(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Listing:
    """The lines of the list: an index into `Snapshot.requests`, or `-1 - n` for heading `n`.

    `headings` are (state, how many); `line_of` gives the line of a submission; `shown` is without headings.
    """

    entries: tuple[int, ...]
    headings: tuple[tuple[str, int], ...]
    line_of: Mapping[int, int]
    shown: int
    widest: Widest = NOTHING_WIDE


@dataclass(frozen=True, slots=True)
class Frame:
    """One snapshot, the order of its requests, and the requests that have a row in its batch by submission."""

    snapshot: Snapshot
    listing: Listing
    ask: Ask
    in_batch: Mapping[int, RequestLine]
    story: RoundStory | NotKnown
    """The round from the inside, or why that is not known."""

    def request(self, submission: int | None) -> RequestLine | None:
        """Return the line of a submission if it is listed."""
        line = None if submission is None else self.listing.line_of.get(submission)
        return None if line is None else self.snapshot.requests[self.listing.entries[line]]

    def neighbour(self, submission: int | None, step: int) -> RequestLine | None:
        """Return the listed request `step` requests below (above, if negative), stopping at the ends."""
        entries = self.listing.entries
        if not self.listing.shown:
            return None
        line = -1 if submission is None else self.listing.line_of.get(submission, -1)
        direction = 1 if step > 0 else -1
        found: int | None = entries[line] if line >= 0 else None
        left = abs(step)
        line = line + direction if line >= 0 else (0 if step > 0 else len(entries) - 1)
        while left and 0 <= line < len(entries):
            if entries[line] >= 0:
                found, left = entries[line], left - 1
            line += direction
        return None if found is None else self.snapshot.requests[found]


def matches(request: RequestLine, words: list[str]) -> bool:
    """Return whether every word (lower case) stands in the id or begins the state's name or its word on screen."""
    mark = STATES.get(request.state)
    names = (request.state, mark.word if mark else request.state)
    identity = request.request.lower()
    return all(word in identity or any(name.startswith(word) for name in names) for word in words)


def make_listing(
    requests: tuple[RequestLine, ...],
    filter_: str,
    order: str,
    pinned: frozenset[int] = frozenset(),
    reverse: bool = False,
) -> Listing:
    """Return the requests that pass `filter_`, sorted by `order` or against it, with headings if that is by state.

    Pinned ones stand first, whether they pass or not.
    """
    words = filter_.lower().split()
    kept = [i for i, r in enumerate(requests) if not words or r.submission in pinned or matches(r, words)]
    key = ORDERS[order][1]
    kept.sort(key=lambda i: key(requests[i]), reverse=reverse)
    if pinned:
        kept.sort(key=lambda i: requests[i].submission not in pinned)
    widest = _widest([requests[i] for i in kept])
    if order != "state":
        lines = {requests[i].submission: line for line, i in enumerate(kept)}
        return Listing(tuple(kept), (), lines, len(kept), widest)
    entries: list[int] = []
    headings: list[tuple[str, int]] = []
    line_of: dict[int, int] = {}
    for i in kept:
        state = PINNED if requests[i].submission in pinned else requests[i].state
        if not headings or headings[-1][0] != state:
            headings.append((state, 0))
            entries.append(-len(headings))
        headings[-1] = (state, headings[-1][1] + 1)
        line_of[requests[i].submission] = len(entries)
        entries.append(i)
    return Listing(tuple(entries), tuple(headings), line_of, len(kept), widest)


def _widest(listed: list[RequestLine]) -> Widest:
    return Widest(
        max((len(each.request) for each in listed), default=0),
        max((each.prompt_tokens for each in listed), default=0),
        max((each.generated_tokens for each in listed), default=0),
    )
