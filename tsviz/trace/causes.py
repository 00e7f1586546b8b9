"""Which plan an event answers: results in the order of their rows, acknowledgements by operation id.

Forward results of a request land in the order in which its rows were planned, so the cause of a result needs no help
from the engine; what-if re-times by it (architecture.md, section 5, `calls`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence


class Causes:
    """Open rows and operations of one scheduler."""

    __slots__ = ("_operations", "_remote", "_rows", "_start", "_unsure")

    def __init__(self) -> None:
        self._rows: dict[int, deque[int]] = {}
        self._remote: dict[int, int] = {}
        self._operations: dict[int, int] = {}
        self._start: dict[int, int] = {}
        self._unsure: set[int] = set()

    def lose(self, submissions: Iterable[int]) -> None:
        """Forget what is out: rows of these submissions were planned unseen, and their results have no cause now."""
        self._rows.clear()
        self._remote.clear()
        self._unsure.update(submissions)

    def planned(self, round_: int, start_ns: int, submissions: Sequence[int]) -> None:
        """Note that forward rows of `submissions` are out since this round."""
        self._start[round_] = start_ns
        rows = self._rows
        for submission in submissions:
            queue = rows.get(submission)
            if queue is None:
                rows[submission] = deque((round_,))
            else:
                queue.append(round_)
        # Only the causes that can still be named are kept: rows and operations older than this are looked up once.
        if len(self._start) > 1 << 16:
            keep = set(self._operations.values()) | set(self._remote.values()) | {q[0] for q in rows.values() if q}
            newest = round_ - (1 << 15)
            self._start = {r: t for r, t in self._start.items() if r >= newest or r in keep}

    def planned_remote(self, round_: int, submissions: Sequence[int]) -> None:
        """Note remote rows (a peer's prefill or decode)."""
        for submission in submissions:
            self._remote[submission] = round_

    def planned_operation(self, round_: int, op_id: int) -> None:
        """Note a store or load."""
        self._operations[op_id] = round_

    def result(self, submission: int) -> int | None:
        """Return the round whose row this result answers; None if no row is out."""
        queue = self._rows.get(submission)
        return queue.popleft() if queue and submission not in self._unsure else None

    def results(self, submissions: Sequence[int]) -> list[int | None]:
        """Return what `result` does, for results that land one behind the other."""
        if self._unsure:
            return [self.result(submission) for submission in submissions]
        rows = self._rows
        return [queue.popleft() if (queue := rows.get(submission)) else None for submission in submissions]

    def remote(self, submission: int) -> int | None:
        """Return the round of the remote row that a PD event answers."""
        return self._remote.get(submission)

    def operation(self, op_id: int) -> int | None:
        """Return the round of the operation that is acknowledged."""
        return self._operations.pop(op_id, None)

    def start_ns(self, round_: int) -> int | None:
        """Return when the plan of that round was asked for."""
        return self._start.get(round_)

    def retracted(self, submission: int) -> None:
        """Forget the rows of a request that the runtime retracted: what they computed is lost."""
        if queue := self._rows.get(submission):
            queue.clear()

    def ran(self, submission: int) -> bool:
        """Return whether a request that did not end had a row."""
        return submission in self._rows or submission in self._remote or submission in self._unsure

    def ended(self, submission: int) -> None:
        """Forget a request that ended; its late results have no cause."""
        self._rows.pop(submission, None)
        self._remote.pop(submission, None)
        self._unsure.discard(submission)
