"""When the turns of an agent session arrive: the first at its time, every other after a turn that it waits for.

* A turn waits for its agent's turn before, and its think time is the trace's.
* A sub-agent's first turn waits for the parent's turn before it.
* A parent's turn waits for the sub-agents that had come back by then: for the last turn of the one that ended last.
  (A request can name only one to wait for; in the trace the others had ended before that one.)
* A turn that cannot be scheduled is passed over: the next one waits for the last that can, the trace's time between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tsviz.engine.workloads.intake import Intake, sped_up
from tsviz.engine.workloads.weka_session import Agent, Session, Turn


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A turn that will run: its time in the trace (with the session's offset), and how it arrives."""

    turn: Turn
    time_ns: int
    arrival_ns: int | None
    after: str | None
    think_ns: int


def schedule(session: Session, offset_ns: int, intake: Intake, rows: int | None) -> Iterator[Scheduled]:
    """Yield the first `rows` turns in file order without those that cannot be scheduled, which `intake` counts."""
    options = intake.options

    def taken(turn: Turn) -> bool:
        return (rows is None or turn.row <= rows) and intake.wanted(0, turn.prompt_tokens, turn.output_tokens)

    def arrive(turn: Turn, previous: Turn | None, waits_for: Turn | None) -> Scheduled:
        time_ns = offset_ns + turn.start_ns
        if waits_for is None:
            return Scheduled(turn, time_ns, sped_up(time_ns, options, turn.place), None, 0)
        think_ns = turn.think_ns if waits_for is previous else max(0, turn.start_ns - waits_for.end_ns)
        return Scheduled(turn, time_ns, None, waits_for.name, sped_up(think_ns, options, turn.place))

    def run_subagent(agent: Agent, parent: Turn | None) -> Iterator[Scheduled]:
        waits_for = parent
        for previous, turn in zip((None, *agent.turns), agent.turns, strict=False):
            if taken(turn):
                yield arrive(turn, previous, waits_for)
                waits_for = turn
        if waits_for is not None and waits_for is not parent:
            away.append(waits_for)

    last: Turn | None = None
    away: list[Turn] = []
    for index, turn in enumerate((*session.parent.turns, None)):
        for agent in session.subagents_before(index):
            yield from run_subagent(agent, last)
        if turn is not None and taken(turn):
            back = [t for t in away if t.end_ns <= turn.start_ns]
            candidates = back if last is None else [last, *back]
            waits_for = max(candidates, key=lambda t: t.end_ns, default=None)
            yield arrive(turn, session.parent.turns[index - 1] if index else None, waits_for)
            last = turn
            away = [t for t in away if t not in back]
