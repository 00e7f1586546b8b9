"""The requests of a round: where each is, how far, and what it holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsviz.replay.decided.view import DecidedView
from tsviz.replay.recorded.snapshot import BlockTable, RequestLine
from tsviz.replay.recorded.source import Source
from tsviz.replay.recorded.states import Codes, RequestStates
from tsviz.replay.recorded.timeline import CELLS, CODES
from tsviz.replay.rows.lifetimes import Longs

_HOLD_NOTHING = [CODES[state] for state in ("waiting", "bootstrapping", "retracted", "finished", "aborted")]


class RequestLines:
    """Lines and block tables of requests, by round."""

    def __init__(self, source: Source, states: RequestStates, decided: DecidedView | None, begin: int) -> None:
        """`decided` adds causes; the trace begins in round `begin`."""
        self._source, self._life, self._states, self._decided = source, source.life, states, decided
        self._begin = begin

    def of_round(self, number: int, scheduled: set[int]) -> tuple[RequestLine, ...]:
        """Return the requests that are there at a round, of which `scheduled` have a row in it."""
        life = self._life
        there = life.live(number)
        last, landed = life.op_rows.last(there, number), life.landed(there, number)
        states, retractions = self._states.at(there, number, last), self._source.absent.begun(there, number)
        held = dict(zip(*self._holding(there, states, number), strict=True))
        lines = []
        names = [life.names[submission] for submission in there.tolist()]
        causes = [None] * len(there) if self._decided is None else self._decided.causes(there, names, number)
        for submission, name, row, generated, code, gone, cause in zip(
            there.tolist(), names, last.tolist(), landed.tolist(), states.tolist(), retractions.tolist(), causes,
            strict=True,
        ):  # fmt: skip
            state = CELLS[code]
            pages = held.get(submission, ())
            lines.append(
                RequestLine(
                    request=name,
                    submission=submission,
                    state=state,
                    computed_tokens=self._computed(submission, row, generated, state),
                    prompt_tokens=int(life.prompt[submission]),
                    generated_tokens=generated,
                    max_new_tokens=int(life.max_new[submission]),
                    held_pages=sum(pages),
                    age_rounds=number - int(life.submitted[submission]),
                    scheduled=submission in scheduled,
                    retractions=gone,
                    cause=cause if state not in ("finished", "aborted") else None,
                    group_pages=pages,
                    carried=bool(life.submitted[submission] < self._begin),
                )
            )
        return tuple(lines)

    def _holding(self, there: Longs, states: Codes, number: int) -> tuple[list[int], Sequence[tuple[int, ...]]]:
        """Return the requests that hold pages, by their states, and how many each by group."""
        holding = there[~np.isin(states, _HOLD_NOTHING)]
        return holding.tolist(), self._source.held(holding, number)

    def _computed(self, submission: int, row: int, generated: int, state: str) -> int:
        life = self._life
        if row < 0 or state == "retracted":
            return 0
        if life.op_kind[row] == "prefill":
            return int(life.op_begin[row] + life.op_input[row])
        return int(life.prompt[submission]) + max(0, generated - 1)

    def tables(self, submission: int, number: int, zeroed: dict[str, frozenset[int]]) -> tuple[BlockTable, ...]:
        """Return the block tables of a submission that holds some behind the plan of a round, which zeroed pages."""
        if not 0 <= submission < self._life.count:
            return ()
        there = self._life.end_round[submission] > number
        gone = bool(self._source.absent.gone(np.array([submission], np.int64), number)[0])
        return self._source.tables(submission, number, zeroed) if there and not gone else ()
