"""What a timeline shows: lanes of states and marks over rounds, in as many columns as there is room for.

A state holds over runs of rounds, and a request has few of them; a mark is a list of rounds. Both are exact at every
zoom, and any window costs what it shows, not how long the trace is (debugger.md, section 1, *Timeline*).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from .snapshot import STATES

Longs = npt.NDArray[np.int64]

CELLS = ("", *STATES)
"""What a cell of a lane may say, by its code; "" where the request is not there."""
CODES = {state: code for code, state in enumerate(CELLS)}
RECORDED_MARKS = ("retraction", "readmission", "replay", "gap")
"""Marks that recorded tables alone tell."""
DECIDED_MARKS = ("head_of_line", "capacity", "grant", "promotion")
"""Marks that decisions tell: known where these are recorded or indexed."""
MARKS = (*DECIDED_MARKS, *RECORDED_MARKS, "divergence")
_ENDS = (CODES["finished"], CODES["aborted"])
_ROUND_BITS = 32


@dataclass(frozen=True, slots=True)
class Lane:
    """One request that is there in a window: its first round and its last; None: it was still there at the end."""

    submission: int
    request: str
    first_round: int
    last_round: int | None


class Lanes(Sequence[Lane]):
    """The lanes of a window in order of submission, each made when it is looked at: a large trace has 30,000."""

    def __init__(self, names: Sequence[str], submissions: Longs, first: Longs, last: Longs, never: int) -> None:
        """`first` and `last` are by submission; `never` stands for a last round that has not come."""
        self._names, self._submissions, self._first, self._last = names, submissions, first, last
        self._never = never

    def __len__(self) -> int:
        return len(self._submissions)

    @overload
    def __getitem__(self, index: int) -> Lane: ...

    @overload
    def __getitem__(self, index: slice) -> Lanes: ...

    def __getitem__(self, index: int | slice) -> Lane | Lanes:
        if isinstance(index, slice):
            return Lanes(self._names, self._submissions[index], self._first, self._last, self._never)
        submission = int(self._submissions[index])
        last = int(self._last[submission])
        return Lane(submission, self._names[submission], int(self._first[submission]),
                    None if last == self._never else last)  # fmt: skip


@runtime_checkable
class Timeline(Protocol):
    """A view that can draw a window of rounds. Rounds are inclusive; a window of fewer rounds than columns has one
    column a round. Column c of n shows the rounds from `edges(...)[c]` to before `edges(...)[c + 1]`.
    """

    def lanes(self, first_round: int, last_round: int) -> Sequence[Lane]:
        """Return the requests that are there in some round of a window, in order of submission."""
        ...

    def timeline(
        self, first_round: int, last_round: int, columns: int, submissions: Sequence[int]
    ) -> tuple[bytes, ...]:
        """Return a lane a submission, a byte a column: the code in `CELLS` of the state that holds longest in it.

        The column in which a request ends says so, unless it is the only one that the request is in and it ended well.
        """
        ...

    def marks(self, first_round: int, last_round: int, columns: int) -> Mapping[str, tuple[int, ...]]:
        """Return, per mark of `MARKS`, in how many rounds of each column it stands. A mark that is missing is not
        known in this trace: decisions are neither recorded nor indexed. What is known ends at `decided_to`.
        """
        ...

    @property
    def decided_to(self) -> int:
        """The last round up to which `DECIDED_MARKS` are known; 0: nothing is."""
        ...


def edges(first_round: int, last_round: int, columns: int) -> Longs:
    """Return the first round of every column of a window, and the round behind it: one more than there are columns."""
    rounds = max(0, last_round + 1 - first_round)
    cells = max(0, min(columns, rounds))
    return first_round + np.arange(cells + 1, dtype=np.int64) * rounds // max(1, cells)


@dataclass(frozen=True, slots=True)
class StateRuns:
    """Runs of states of all requests, in order of (submission, round): a run holds until the next one.

    `keys` are (submission << 32) | first round, `codes` index `CELLS`. The last run of a request that ended is "".
    """

    keys: Longs
    codes: npt.NDArray[np.uint8]

    def lane(self, submission: int, at: Longs) -> bytes:
        """Return the state that holds longest in each column between the rounds `at`; "" only where it is alone.

        An end holds for one round and would be lost where a column has many: it is shown where it is (`timeline`).
        """
        low, high = np.searchsorted(self.keys, (submission << _ROUND_BITS, (submission + 1) << _ROUND_BITS))
        if low == high or len(at) < 2:
            return bytes(max(0, len(at) - 1))
        starts, codes = self.keys[low:high] & 0xFFFF_FFFF, self.codes[low:high]
        held = np.zeros((len(starts) + 1, len(CELLS)), np.int64)
        held[np.arange(1, len(starts)), codes[:-1]] = np.diff(starts)
        held = np.cumsum(held, axis=0)
        # Rounds before each edge, by state: those of whole runs, and the part of the run that the edge cuts.
        run = np.searchsorted(starts, at, side="right") - 1
        inside = run >= 0
        before = np.where(inside[:, None], held[np.maximum(run, 0)], 0)
        before[np.flatnonzero(inside), codes[run[inside]]] += at[inside] - starts[run[inside]]
        shown = np.diff(before, axis=0)
        shown[:, 0] = 0
        longest = np.argmax(shown, axis=1).astype(np.uint8)
        for run_ in np.flatnonzero(np.isin(codes, _ENDS)).tolist():
            column = int(np.searchsorted(at, starts[run_], side="right")) - 1
            if 0 <= column < len(longest) and (starts[0] < at[column] or codes[run_] == CODES["aborted"]):
                longest[column] = codes[run_]
        return bytes(longest)


def state_runs(keys: Longs, codes: npt.NDArray[np.uint8]) -> StateRuns:
    """Return runs from states at sorted keys: neighbours of one request that say the same become one run."""
    if not len(keys):
        return StateRuns(keys, codes)
    changed = np.concatenate([[True], (codes[1:] != codes[:-1]) | (np.diff(keys >> _ROUND_BITS) != 0)])
    return StateRuns(keys[changed], codes[changed])


def counted(rounds: npt.NDArray[Any], at: Longs) -> tuple[int, ...]:
    """Return how many of some rounds (rising, each once) stand in each column between the rounds `at`."""
    return tuple(np.diff(np.searchsorted(rounds, at)).tolist())
