"""The state of any request at any round, as far as recorded facts tell it, for many requests at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.lifetimes import NEVER, Lifetimes, Longs, keys

from .lives import Lives
from .retractions import Absence
from .spans import Spans
from .timeline import CODES, StateRuns, state_runs

Codes = npt.NDArray[np.uint8]
_LAST = 0xFFFF_FFFF


class Absences:
    """Retractions of all requests, to be asked by (submission, round)."""

    def __init__(self, found: Sequence[Absence]) -> None:
        ordered = sorted((a.submission, a.since, min(a.back, _LAST)) for a in found)
        columns = np.array(ordered, np.int64).reshape(-1, 3)
        submission, since, back = columns[:, 0], columns[:, 1], columns[:, 2]
        self.since_keys: Longs = (submission << 32) | since
        self.back_keys: Longs = (submission << 32) | back
        """Where each ends; one that never ends at the largest round."""
        self._reach: Longs = np.maximum.accumulate(self.back_keys) if len(back) else self.back_keys

    def gone(self, submissions: Longs, rounds: Longs | int) -> npt.NDArray[np.bool_]:
        """Return, per submission, whether it is retracted at the round."""
        wanted = (submissions << 32) | rounds
        if not len(self.since_keys):
            return np.zeros(len(wanted), np.bool_)
        position = np.searchsorted(self.since_keys, wanted, side="right") - 1
        reach = self._reach[np.maximum(position, 0)]
        found: npt.NDArray[np.bool_] = (position >= 0) & (reach > wanted) & (reach >> 32 == submissions)
        return found

    def begun(self, submissions: Longs, round_: int) -> Longs:
        """Return, per submission, how many of its retractions have happened by a round."""
        low = np.searchsorted(self.since_keys, submissions << 32)
        found: Longs = np.searchsorted(self.since_keys, (submissions << 32) | round_, side="right") - low
        return found

    def of(self, submission: int) -> Longs:
        """Return the rounds in which a submission was retracted, in order."""
        low, high = np.searchsorted(self.since_keys, (submission << 32, (submission + 1) << 32))
        return self.since_keys[low:high] & np.int64(_LAST)

    def readmitted(self, starts: Longs) -> Longs:
        """Return the rounds in which a retracted request came back, of those in which tables start (as keys)."""
        rounds: Longs = np.unique(self.back_keys[np.isin(self.back_keys, starts)] & _LAST)
        return rounds


class RequestStates:
    """States by (submission, round)."""

    def __init__(self, life: Lifetimes | Lives, absent: Absences, role: str) -> None:
        """`role` is that of the scheduler: on P and D a request bootstraps before it waits."""
        self._life, self._absent, self._fused = life, absent, role == "Fused"
        self._kind_codes = np.array([CODES[kind] for kind in _BY_KIND.values()], np.uint8)
        self._kind = np.full(len(life.op_kind), _OTHER, np.uint8)
        for code, kind in enumerate(_BY_KIND):
            self._kind[life.op_kind == kind] = code
        self._complete = (life.op_kind == "prefill") & (life.op_begin + life.op_input == life.op_prefill)
        self._end = np.array([CODES.get(kind, 0) for kind in life.end_kind], np.uint8)

    def at(self, submissions: Longs, rounds: Longs | int, rows: Longs | None = None) -> Codes:
        """Return the codes of the states; `rows` are the last operations at the rounds, if they are known already.

        Every submission must have been accepted and be there: submitted, and ended at most in that round.
        """
        life = self._life
        rows = life.op_rows.last(submissions, rounds) if rows is None else rows
        waiting = np.full(len(submissions), CODES["waiting"], np.uint8)
        if not self._fused:
            waiting[life.bootstrapped[submissions] > rounds] = CODES["bootstrapping"]
        states = waiting
        ran = np.flatnonzero(rows >= 0)
        if len(ran):
            kind = self._kind[rows[ran]]
            states[ran] = self._kind_codes[kind]
            states[ran[self._complete[rows[ran]]]] = CODES["prefill_done"]
            remote = ran[kind == _REMOTE]
            at = rounds if isinstance(rounds, int) else rounds[remote]
            states[remote[life.remote_done[submissions[remote]] <= at]] = CODES["prefill_done"]
        states[self._absent.gone(submissions, rounds)] = CODES["retracted"]
        ended = life.end_round[submissions] <= rounds
        states[ended] = self._end[submissions[ended]]
        return states

    def runs(self) -> StateRuns:
        """Return the runs of states of every accepted request."""
        life = self._life
        there = np.flatnonzero(life.accepted).astype(np.int64)
        ended = there[life.end_round[there] != NEVER]
        changes = [keys(there, life.submitted[there]), keys(ended, life.end_round[ended]), self._absent.since_keys]
        changes += [self._absent.back_keys, life.op_rows.keys[self._moved()]]
        for rounds in (life.bootstrapped, life.remote_done):
            known = there[rounds[there] != NEVER]
            changes.append(keys(known, rounds[known]))
        wanted = np.unique(np.concatenate(changes))
        submissions, rounds_ = wanted >> 32, wanted & _LAST
        inside = (rounds_ >= life.submitted[submissions]) & (rounds_ <= life.end_round[submissions])
        inside &= life.accepted[submissions] & (rounds_ != _LAST)
        wanted = wanted[inside]
        codes = self.at(wanted >> 32, wanted & _LAST)
        behind = keys(ended, life.end_round[ended] + 1)
        order = np.argsort(joined := np.concatenate([wanted, behind]), kind="stable")
        return state_runs(joined[order], np.concatenate([codes, np.zeros(len(behind), np.uint8)])[order])

    def _moved(self) -> npt.NDArray[np.bool_]:
        """Return which rows, in order of (submission, round), are not of the same kind as the one before."""
        rows = self._life.op_rows
        order = slice(None) if isinstance(rows, Spans) else rows.order
        kind, complete = self._kind[order], self._complete[order]
        first = np.ones(len(kind), np.bool_)
        first[1:] = (kind[1:] != kind[:-1]) | (complete[1:] != complete[:-1])
        first[1:] |= np.diff(rows.keys >> 32) != 0
        return first


_BY_KIND = {"prefill": "prefilling", "remote_prefill": "remote", "remote_decode": "remote", "decode": "decoding"}
_REMOTE, _OTHER = 1, 3
"""Positions in it: that of a remote prefill, and what a kind that is not known is taken for."""
