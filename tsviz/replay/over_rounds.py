"""What a part tells over windows of rounds: lanes, marks, the pool, and where something next happens to a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.decided.view import DecidedView
from tsviz.replay.recorded.source import Source
from tsviz.replay.recorded.states import RequestStates
from tsviz.replay.recorded.timeline import Lane, Lanes, StateRuns, counted, edges
from tsviz.replay.rows.lifetimes import NEVER, Longs, column, keys
from tsviz.trace.reader import Part


class OverRounds:
    """Answers from whole columns, each read when it is first needed: any window costs what it shows."""

    def __init__(self, part: Part, source: Source, decided: DecidedView | None) -> None:
        self._part, self._decided = part, decided
        self._take(source)

    def _take(self, source: Source) -> None:
        """Read from a source from now on."""
        self._source, self._numbers, self._life = source, source.numbers, source.life
        self._first_round = int(source.numbers[0]) if len(source.numbers) else 1
        for name in ("_states", "_runs", "_marks"):
            self.__dict__.pop(name, None)

    @cached_property
    def _states(self) -> RequestStates:
        return RequestStates(self._life, self._source.absent, str(self._part.meta.get("role", "?")))

    def next_mark(self, round_: int, submission: int | None, step: int) -> int | None:
        """Return the next (`step` 1) or previous (-1) round in which `submission` was scheduled or changed state.

        Without a submission: in which anything was retracted. None when there is no such round.
        """
        if submission is None:
            marks = self._retracted
        else:
            gone = self._source.absent.of(submission)
            ends = [e for e in (int(self._life.end_round[submission]),) if e != NEVER]
            first = [int(self._life.submitted[submission])]
            row = self._life.op_rows.nearest(submission, round_, step)
            gone = gone[gone >= self._first_round]
            marks = np.unique(np.array([*gone, *ends, *first, *([] if row is None else [row])], np.int64))
        chosen = marks[marks > round_] if step > 0 else marks[marks < round_][::-1]
        return int(chosen[0]) if len(chosen) else None

    def pool_history(self, first_round: int, last_round: int, buckets: int) -> tuple[int, ...]:
        """Return the most occupied pages in each of at most `buckets` equal pieces of the rounds, both included.

        -1 stands for a piece of which no round is recorded.
        """
        usable = max(0, int(self._part.config["num_device_pages"]) - 1)
        at = np.searchsorted(self._numbers, edges(first_round, last_round, buckets))
        most = np.full(len(at) - 1, -1, np.int64)
        held = np.flatnonzero(np.diff(at))
        if len(held):
            most[held] = usable - np.minimum.reduceat(self._empty_pages[: at[-1]], at[held])
        return tuple(most.tolist())

    def lanes(self, first_round: int, last_round: int) -> Sequence[Lane]:
        """Return the requests that are there in some round of a window, in order of submission."""
        life = self._life
        begin = max(first_round, self._first_round)
        there = life.accepted & (life.submitted <= last_round) & (life.end_round >= begin)
        submissions = np.flatnonzero(there) if last_round >= begin else np.zeros(0, np.int64)
        return Lanes(life.names, submissions, life.submitted, life.end_round, NEVER)

    def timeline(
        self, first_round: int, last_round: int, columns: int, submissions: Sequence[int]
    ) -> tuple[bytes, ...]:
        """Return a lane a submission, a byte a column: the code in `CELLS` of the state that holds longest in it.

        Rounds before the first that is recorded say nothing.
        """
        at = np.maximum(edges(first_round, last_round, columns), self._first_round)
        return tuple(self._runs.lane(submission, at) for submission in submissions)

    @cached_property
    def _runs(self) -> StateRuns:
        return self._states.runs()

    def marks(self, first_round: int, last_round: int, columns: int) -> Mapping[str, tuple[int, ...]]:
        """Return, per mark of `MARKS`, in how many rounds of each column it stands; a missing one is not known."""
        at = edges(first_round, last_round, columns)
        return {mark: counted(rounds, at) for mark, rounds in self._marks.items()}

    @cached_property
    def _marks(self) -> dict[str, Longs]:
        again = self._source.absent.readmitted(keys(self._life.start_submission, self._life.start_round))
        gaps = self._part.table("gaps")
        missing = [np.arange(a, b + 1) for a, b in zip(column(gaps, "round"), column(gaps, "last_round"), strict=True)]
        lost = np.unique(np.concatenate(missing)) if missing else np.zeros(0, np.int64)
        found = {"retraction": self._retracted, "readmission": again, "replay": self._source.replayed(), "gap": lost}
        if self._decided is not None:
            found |= self._decided.marks
        return {mark: rounds.astype(np.int64) for mark, rounds in found.items()}

    @property
    def decided_to(self) -> int:
        """The last round up to which marks that decisions tell are known; 0: none is."""
        return 0 if self._decided is None else self._decided.last_round

    @cached_property
    def _empty_pages(self) -> npt.NDArray[Any]:
        return self._source.of_rounds("empty_pages")

    @cached_property
    def _retracted(self) -> Longs:
        rounds: Longs = self._numbers[np.flatnonzero(self._source.of_rounds("retracted_requests"))].astype(np.int64)
        return rounds
