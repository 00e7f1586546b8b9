"""What lies behind the plans of a part, for panes: stories of rounds, answers to "why", and how far they reach."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tsviz.replay.recorded.bases import bases_directory
from tsviz.replay.recorded.life_of import Life, is_large
from tsviz.replay.recorded.snapshot import Frontier
from tsviz.replay.recorded.timeline import edges
from tsviz.replay.reexecution.index import Index
from tsviz.replay.rows.lifetimes import Longs, column
from tsviz.replay.rows.rows_from import some
from tsviz.replay.stops.read import Stories
from tsviz.replay.stops.story import NotKnown, RoundStory
from tsviz.replay.why.answer import DERIVED, RECORDED, CannotSay, facts_of, why
from tsviz.replay.why.facts import Facts
from tsviz.replay.why.tree import Answer
from tsviz.replay.why.turns import Turns
from tsviz.trace.catalogue import CALLS
from tsviz.trace.reader import Part

NO_DECISIONS = "Only plans were recorded: what stands behind them is derived by re-executing the trace."


class Inside:
    """Decisions of one part: recorded with it, in its index, or not known."""

    def __init__(self, part: Part, index: Index | None, trace: str, life: Life | None = None) -> None:
        """`index` has the decisions of a part that was recorded without; `trace` is what commands call the bundle;
        `life` is what happened to its requests, if that is known.
        """
        self._part, self._index, self._trace, self._life = part, index, trace, life
        self._recorded = part.level == "decisions"
        if self._recorded:
            self.frontier = Frontier(RECORDED, part.last_round)
        elif index is not None:
            d = index.divergence
            words = f"{d.field}: recorded {d.expected}, re-executed {d.got}" if d is not None else ""
            self.frontier = Frontier(DERIVED, index.last_round, words)
        else:
            self.frontier = Frontier("none", 0)

    @cached_property
    def _stories(self) -> Stories:
        tables = self._part if self._index is None else self._index
        return Stories(tables, self.frontier.source, self._part.config)

    @cached_property
    def _facts(self) -> Facts:
        return facts_of(self._part, self._index, self._life)

    @cached_property
    def _turns(self) -> Turns:
        return Turns(self._facts)

    def unknown(self, round_: int) -> NotKnown | None:
        """Return why the decisions of a round are not known; None where they are."""
        frontier = self.frontier
        if frontier.source == "none":
            words = NO_DECISIONS if self._part.level != CALLS else NO_DECISIONS.replace("plans", CALLS)
            return NotKnown("not_recorded", words, f"tsviz index {self._trace}")
        if round_ <= frontier.last_round:
            return None
        if frontier.divergence:
            words = f"Behind round {frontier.last_round:,} re-execution leaves the recording ({frontier.divergence})."
            return NotKnown("diverged", words, f"tsviz verify {self._trace}")
        words = f"Decisions are verified up to round {frontier.last_round:,} only."
        return NotKnown("unverified", words, f"tsviz index {self._trace}")

    @cached_property
    def _active(self) -> tuple[Longs, Longs]:
        """Rounds, and the LCM blocks that live tables held at the end of each."""
        pool = some(self._part if self._index is None else self._index, "pool", ("round", "group", "active_blocks"))
        first = np.flatnonzero(column(pool, "group") == 0)
        return column(pool, "round")[first].astype(np.int64), column(pool, "active_blocks")[first].astype(np.int64)

    def active_blocks(self, round_: int) -> int | None:
        """Return the LCM blocks that live tables held behind the plan of a round; None where that is not known."""
        if self.unknown(round_) is not None:
            return None
        rounds, active = self._active
        at = int(np.searchsorted(rounds, round_))
        return int(active[at]) if at < len(rounds) and rounds[at] == round_ else None

    def active_history(self, first_round: int, last_round: int, buckets: int) -> tuple[int, ...]:
        """Return the most blocks that live tables held in each of at most `buckets` equal pieces of the rounds.

        -1 stands for a piece behind what is known; empty where nothing is.
        """
        if self.frontier.source == "none":
            return ()
        rounds, active = self._active
        at = np.searchsorted(rounds, edges(first_round, last_round, buckets))
        return tuple(int(active[a:b].max()) if b > a else -1 for a, b in itertools.pairwise(at.tolist()))

    def story(self, round_: int, decodes: Sequence[str]) -> RoundStory | NotKnown:
        """Return the story of a round, or why there is none. Raises `TraceError`."""
        return self.unknown(round_) or self._stories.story(round_, decodes)

    def why(self, request: str, round_: int) -> Answer | NotKnown:
        """Return why a request has no row in a round, or why that cannot be said. Raises `TraceError`."""
        unknown = self.unknown(round_)
        if unknown is not None:
            return unknown
        if "_facts" not in self.__dict__ and is_large(self._part) and not bases_directory(self._part).is_dir():
            return NotKnown("preparing", "What happened to the requests of this large trace is being put together.")
        try:
            return why(self._facts, self._turns, request, round_)
        except CannotSay as error:
            return NotKnown("no_round", f"{error}.")
