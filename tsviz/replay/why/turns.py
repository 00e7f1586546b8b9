"""Who evicts whom: every retraction with the request that took the place, and requests that take it in turns.

The one who takes the place is the blocker that the retraction served; a request that was retracted for its own refusal
makes room for the next request that is admitted with new pages. A *cycle* is a ring of requests each of which gave way
to the next at least twice (debugger.md, section 1, *live-lock*).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tsviz.replay.rows.lifetimes import column, words
from tsviz.replay.rows.rows_from import some
from tsviz.scheduler import decisions as d

from .facts import Facts

WINDOW_ROUNDS = 100
"""Rounds before and behind a position in which turns belong to one cycle."""
_AGAIN = 2
_TURNS = ("round", "item", "stop", "outcome", "victim", "blocker")


@dataclass(frozen=True, slots=True)
class Turn:
    """A request was retracted, and another took the place."""

    round: int
    stop: int
    victim: str
    blocker: str
    taker: str
    """Empty when nobody was admitted before the victim came back or the trace ended."""
    taken_round: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """Requests that evict one another in turns: each gave way to the next, the last to the first."""

    requests: tuple[str, ...]
    turns: tuple[Turn, ...]
    """The turns round the ring without one left out, around the position."""
    times: int
    """How often the ring was completed."""
    last_gain_round: int
    """The last round in which one of them computed a position that had not been computed before."""
    evicted_pages: int
    """Cached device pages that stood in the tables of a request that gave way and left before it came back."""

    @property
    def fruitless(self) -> int:
        """How many turns came after the last progress."""
        return sum(turn.round > self.last_gain_round for turn in self.turns)

    @property
    def first_round(self) -> int:
        """Round of the first turn."""
        return self.turns[0].round

    @property
    def last_round(self) -> int:
        """Round of the last turn."""
        return self.turns[-1].round


class Turns:
    """All retractions of a part, and the cycles among them."""

    def __init__(self, facts: Facts) -> None:
        """Read the decided retractions and admissions."""
        self._facts = facts
        admissions = some(facts.decided, "admissions", ("round", "item", "request", "fresh_pages"))
        fresh = admissions["fresh_pages"].to_pylist()
        self._admitted = [
            (round_, item, name or "")
            for round_, item, name, pages in zip(
                column(admissions, "round").tolist(), column(admissions, "item").tolist(),
                words(admissions, "request"), fresh, strict=True,
            )
            if any(pages)
        ]  # fmt: skip

    def _next(self, request: str, position: int) -> int:
        """Return the place of the first admission of a request from a place on; behind all without one."""
        places = self._places.get(request, [])
        at = bisect_left(places, position)
        return places[at] if at < len(places) else len(self._admitted)

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """The places of the admissions of each request."""
        found: dict[str, list[int]] = {}
        for place, (_, _, name) in enumerate(self._admitted):
            found.setdefault(name, []).append(place)
        return found

    @cached_property
    def turns(self) -> list[Turn]:
        """Every retraction, in order."""
        keys = [round_ << 32 | item for round_, item, _ in self._admitted]
        found = []
        for row in some(self._facts.decided, "retractions", _TURNS).to_pylist():
            if row["outcome"] != d.RETRACTED:
                continue
            position = bisect_left(keys, row["round"] << 32 | row["item"])
            victim, blocker = row["victim"], row["blocker"]
            back = self._next(victim, position)
            at = position if victim == blocker else self._next(blocker, position)
            taker, taken = "", row["round"]
            if at < min(back, len(self._admitted)):
                taken, _, taker = self._admitted[at]
            found.append(Turn(row["round"], row["stop"], victim, blocker, taker, taken))
        return found

    def of(self, request: str, round_: int) -> list[Turn]:
        """Return the turns in which a request gave way, up to a round."""
        return [turn for turn in self.turns if turn.victim == request and turn.round <= round_]

    def cycle(self, request: str, round_: int) -> Cycle | None:
        """Return the ring that a request stands in around a round; None if it stands in none."""
        near = [t for t in self.turns if abs(t.round - round_) <= WINDOW_ROUNDS and t.taker]
        times = Counter((t.victim, t.taker) for t in near)
        ring = _ring(request, {edge for edge, often in times.items() if often >= _AGAIN})
        if not ring:
            return None
        edges = {(a, ring[(i + 1) % len(ring)]) for i, a in enumerate(ring)}
        turns = self._stretch(edges, round_)
        often = Counter((t.victim, t.taker) for t in turns)
        if min(often[edge] for edge in edges) < _AGAIN:
            return None
        return Cycle(
            ring,
            turns,
            min(often[edge] for edge in edges),
            self._last_gain(ring, turns[-1].round),
            self._evicted(turns),
        )

    def _stretch(self, edges: set[tuple[str, str]], round_: int) -> tuple[Turn, ...]:
        """Return the turns that go round the ring one behind the other, without one left out, around a round."""
        along = [t for t in self.turns if (t.victim, t.taker) in edges]
        pieces: list[list[Turn]] = []
        for turn in along:
            before = pieces[-1][-1] if pieces else None
            if before is None or turn.round - before.round > WINDOW_ROUNDS or turn.victim != before.taker:
                pieces.append([])
            pieces[-1].append(turn)
        near = min(pieces, key=lambda p: max(p[0].round - round_, round_ - p[-1].round, 0))
        return tuple(near)

    def _last_gain(self, ring: tuple[str, ...], last_round: int) -> int:
        """Return the last round up to `last_round` in which a request of the ring computed a new position."""
        life, rounds = self._facts.life, [0]
        for name in ring:
            rows = life.rows_until(self._facts.submission_of(name, last_round), last_round)
            decoded = life.op_kind[rows] == "decode"
            ends = np.where(decoded, 0, life.op_begin[rows] + life.op_input[rows])
            highest = np.concatenate([[0], np.maximum.accumulate(ends)])[: len(ends)]
            # A chunk that is made again in the next round gains in the first, a decode in every round.
            for row, decode in zip(rows[decoded | (ends > highest)].tolist(), decoded[decoded | (ends > highest)],
                                   strict=True):  # fmt: skip
                rounds.append(life.row_rounds(row, last_round)[int(decode)])
        return max(rounds)

    def _evicted(self, turns: tuple[Turn, ...]) -> int:
        """Count pages that left the device while their last holder was away."""
        facts, count = self._facts, 0
        for turn in turns:
            if not turn.taker:
                continue
            victim = facts.submission_of(turn.victim, turn.round)
            held = facts.tables.held(victim, turn.round - 1)
            gone = {
                (row["group"], row["page"])
                for row in facts.between("evictions", turn.round, turn.taken_round)
                if row["tier"] == "device"
            }
            count += len(held & gone)
        return count


def _ring(start: str, edges: set[tuple[str, str]]) -> tuple[str, ...]:
    """Return the shortest way from a request back to itself, in order of names among equals."""
    onward: dict[str, list[str]] = {}
    for source, target in sorted(edges):
        onward.setdefault(source, []).append(target)
    came: dict[str, str] = {}
    level = [start]
    while level:
        coming = []
        for name in level:
            for target in onward.get(name, ()):
                if target == start:
                    ring = [name]
                    while ring[-1] != start:
                        ring.append(came[ring[-1]])
                    return tuple(reversed(ring))
                if target not in came:
                    came[target] = name
                    coming.append(target)
        level = coming
    return ()
