"""Recorded state of one part: any round, forwards or backwards at the same cost, without re-execution.

Implements `RecordedView` (architecture.md, section 6, *Recorded state*).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tsviz.replay.decided.view import DecidedView
from tsviz.replay.pages.large import LargePages
from tsviz.replay.pages.map import PagesHistory
from tsviz.replay.pages.open import open_pages
from tsviz.replay.recorded.preparing import PreparingTables
from tsviz.replay.recorded.recorded_rows import RecordedRows
from tsviz.replay.recorded.snapshot import (
    DeviceSide,
    NotPrepared,
    Outstanding,
    Preparing,
    Record,
    Snapshot,
)
from tsviz.replay.recorded.source import Source, WholeTables
from tsviz.replay.recorded.source_bases import BasedTables
from tsviz.replay.recorded.source_grown import FollowedTables
from tsviz.replay.rows.lifetimes import Lifetimes, Longs
from tsviz.replay.stops.story import NotKnown, RoundStory
from tsviz.replay.why.tree import Answer
from tsviz.trace.catalogue import CALLS
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import Bundle, Part

from .inside import Inside
from .moments import AtRound, NoMoment, round_at
from .over_rounds import OverRounds
from .request_lines import RequestLines
from .round_snapshots import RoundSnapshots
from .trace_head import head_of

NOT_RECORDED = "Not recorded at this level (calls): rows, block tables and transfers. `tsviz index` makes them again."


class PartView(OverRounds):
    """Recorded state of one part of a bundle."""

    def __init__(
        self,
        bundle: Bundle,
        part: Part,
        decided: DecidedView | None = None,
        inside: Inside | None = None,
        source: Source | None = None,
    ) -> None:
        """Read what every round needs; `decided` adds causes and reserves, `inside` stories. Raises `TraceError`.

        `source` is where it is read from: tables held whole unless it is given.
        """
        super().__init__(part, source or WholeTables(part), decided)
        self._bundle = bundle
        self._inside = inside if inside is not None else Inside(part, None, str(bundle.path))
        self.head = head_of(bundle, part, self._source, self._inside.frontier)

    def _take(self, source: Source) -> None:
        super()._take(source)
        for name in ("_rounds", "_rows_of_part"):
            self.__dict__.pop(name, None)

    @cached_property
    def _rounds(self) -> RoundSnapshots:
        lines = RequestLines(self._source, self._states, self._decided, self._part.meta.get("starts_at", 1))
        return RoundSnapshots(self._part.config, self._source, lines, self._decided, self._inside)

    @property
    def preparing(self) -> Preparing | None:
        """How far what tells of requests is built; None once it is there, and from then on it is used."""
        source = self._source
        if self._part.level == CALLS:
            return Preparing(0, 0, words=NOT_RECORDED)
        if not isinstance(source, PreparingTables):
            return None
        ready = source.ready()
        if ready is None:
            return source.progress
        self._take(ready)
        return None

    def snapshot(self, round_: int, selected: int | None = None) -> Snapshot:
        """Return what is known at `round_` (clamped to the trace), with the tables of submission `selected`."""
        preparing = self.preparing
        if not len(self._numbers):
            return self._rounds.empty(self.head)
        index = int(np.clip(np.searchsorted(self._numbers, round_), 0, len(self._numbers) - 1))
        number = int(self._numbers[index])
        return self._rounds.at(self.head, number, index, selected, preparing)

    def story(self, round_: int) -> RoundStory | NotKnown:
        """Return a round from the inside: phases, candidates and stops; or why that is not known."""
        decodes = [row.request for row in self._source.rows(round_) if row.kind == "decode"]
        return self._inside.story(round_, decodes)

    def why(self, submission: int, round_: int) -> Answer | NotKnown:
        """Return why a submission has no row in a round; or why that is not known."""
        return self._inside.why(self._life.names[submission], round_)

    def outstanding(self, round_: int) -> tuple[Outstanding, ...]:
        """Return the operations that are out behind the plan of a round, oldest first."""
        return self._rows_of_part.outstanding(round_)

    def device(self, round_: int, around: int) -> DeviceSide:
        """Return what a device did for a round, and the forwards of `around` rounds before and behind it."""
        return self._rows_of_part.device(round_, around)

    def records(self, round_: int, submission: int | None) -> tuple[Record, ...]:
        """Return the recorded rows of a round: its own, and those of a submission in it."""
        return self._rows_of_part.records(round_, submission)

    @cached_property
    def _rows_of_part(self) -> RecordedRows:
        return RecordedRows(self._source, self._rounds.transfers)

    @cached_property
    def pages(self) -> PagesHistory | LargePages:
        """The pages of this part at every round, made when they are first asked for.

        Raises `TraceError`; `NotPrepared` for a large part of which this is still being built.
        """
        part, preparing = self._part, self.preparing
        if preparing is not None and not (preparing.error or preparing.words):
            raise NotPrepared(part.directory, preparing)
        if preparing is not None:
            found = preparing.error or preparing.words
            raise TraceError(part.directory, "pages", "what happened to the requests", found)
        source = self._source
        if isinstance(source, BasedTables) or (isinstance(source, FollowedTables) and source.large):
            return LargePages(part, source, lambda: source.absent.since_keys, self._begun)
        life = self._life if isinstance(self._life, Lifetimes) else Lifetimes(part)
        return open_pages(part, life, lambda: source.absent.since_keys)

    def _begun(self, round_: int) -> list[int]:
        """Return the rounds that began the operations which are out behind the plan of a round."""
        return [operation.round for operation in self.outstanding(round_)]

    def active_history(self, first_round: int, last_round: int, buckets: int) -> tuple[int, ...]:
        """Return the most pages that live tables held in each of at most `buckets` equal pieces of the rounds."""
        return self._inside.active_history(first_round, last_round, buckets)

    def round_at(self, time_ns: int, *, wall: bool) -> AtRound | NoMoment:
        """Return the round of a moment: ns since 1970, or since the part's clock began."""
        return round_at(self._bundle, self._part, time_ns, wall=wall, columns=(self._numbers, self._starts_ns))

    @cached_property
    def _starts_ns(self) -> Longs:
        """When each round began: an axis of time asks for it once a column, a large part decodes it once."""
        starts: Longs = self._source.of_rounds("start_ns").astype(np.int64, copy=False)
        return starts

    def find_request(self, request: str) -> int | None:
        """Return the last submission with this request id."""
        for submission in range(self._life.count - 1, -1, -1):
            if self._life.names[submission] == request:
                return submission
        return None
