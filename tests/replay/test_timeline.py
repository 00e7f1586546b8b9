"""The timeline: lanes and marks of any window are what the rounds of it say one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.trace.lives import ROLES, record
from tsviz.replay.recorded.timeline import CELLS, Timeline, edges
from tsviz.replay.view import open_view
from tsviz.trace.reader import open_bundle


@pytest.mark.parametrize("role", ROLES)
def test_a_cell_is_the_state_that_holds_longest(real: ModuleType, tmp_path: Path, role: str) -> None:
    """In random windows every cell is a state that most of its column's rounds show, or the end of who was there."""
    rng = random.Random(role)
    for seed in range(100, 106):
        record(real, tmp_path / str(seed), seed, role=role)
        view = open_view(open_bundle(tmp_path / str(seed)))
        assert isinstance(view, Timeline)
        rounds = view.head.rounds
        states = [{q.submission: q.state for q in view.snapshot(r).requests} for r in range(1, rounds + 1)]
        for _ in range(20):
            first, last = sorted((rng.randint(1, rounds), rng.randint(1, rounds)))
            columns = rng.randint(1, 12)
            lanes = view.lanes(first, last)
            assert [lane.submission for lane in lanes] == sorted({s for r in states[first - 1 : last] for s in r})
            at = edges(first, last, columns).tolist()
            assert len(at) == min(columns, last - first + 1) + 1
            cells = view.timeline(first, last, columns, [lane.submission for lane in lanes])
            for lane, drawn in zip(lanes, cells, strict=True):
                for begin, end, code in zip(at, at[1:], drawn, strict=False):
                    shown = [states[r - 1].get(lane.submission, "") for r in range(begin, end)]
                    counts = Counter(state for state in shown if state)
                    ended = next((state for state in shown if state in ("finished", "aborted")), "")
                    if ended == "aborted" or (ended and lane.first_round < begin):
                        assert CELLS[code] == ended, (seed, lane, begin, end)
                        continue
                    assert counts[CELLS[code]] == max(counts.values(), default=0), (seed, lane, begin, end)


def test_one_column_a_round_shows_the_states_of_the_rounds(real: ModuleType, tmp_path: Path) -> None:
    """With room for every round a lane is the list of states; a lane of nobody is empty cells."""
    record(real, tmp_path / "b", 104)
    view = open_view(open_bundle(tmp_path / "b"))
    rounds = view.head.rounds
    lanes = view.lanes(1, rounds)
    drawn = view.timeline(1, rounds, 10_000, [*(lane.submission for lane in lanes), 10_000])
    for lane, cells in zip(lanes, drawn, strict=False):
        for round_ in range(1, rounds + 1):
            said = {q.submission: q.state for q in view.snapshot(round_).requests}.get(lane.submission, "")
            assert CELLS[cells[round_ - 1]] == said
        assert lane.first_round == 1 + cells.index(next(c for c in cells if c))
        ends = [r for r in range(1, rounds + 1) if CELLS[cells[r - 1]] in ("finished", "aborted")]
        assert lane.last_round in (ends or [None, rounds + 1])
    assert drawn[-1] == bytes(rounds)


def test_retractions_are_marked_where_plans_retracted(real: ModuleType, tmp_path: Path) -> None:
    """The retraction marks of one column a round stand exactly in the rounds whose plan retracted something."""
    retractions = returns = 0
    for seed in range(100, 110):
        record(real, tmp_path / str(seed), seed)
        view = open_view(open_bundle(tmp_path / str(seed)))
        rounds = view.head.rounds
        marks = view.marks(1, rounds, rounds)
        assert marks["retraction"] == tuple(int(view.snapshot(r).retracted > 0) for r in range(1, rounds + 1))
        assert sum(view.marks(1, rounds, 3)["retraction"]) == sum(marks["retraction"])
        for round_ in [r for r, there in enumerate(marks["readmission"], 1) if there]:
            before = {q.submission for q in view.snapshot(round_ - 1).requests if q.state == "retracted"}
            at = view.snapshot(round_)
            by_runtime = any(event.endswith("retracted by the runtime") for event in at.events)
            assert by_runtime or before & {row.submission for row in at.rows}
            returns += 1
        retractions += sum(marks["retraction"])
        assert "head_of_line" not in marks
        assert view.decided_to == 0
    assert retractions > 5
    assert returns > 2


def test_marks_that_decisions_tell_stand_where_they_are_recorded(request: pytest.FixtureRequest) -> None:
    """With decisions recorded, holds and capacity failures stand in the rounds of `holds` and `blockers`."""
    crowded: Callable[..., Path] = request.getfixturevalue("record")
    bundle = open_bundle(crowded("--scheduler", "twin", "--pages", "65", "--chunk", "64", "--max-rounds", "300"))
    view, part = open_view(bundle), bundle.parts[0]
    rounds = view.head.rounds
    marks = view.marks(1, rounds, rounds)
    for mark, table in (("head_of_line", "holds"), ("capacity", "blockers")):
        there = set(part.table(table)["round"].to_pylist())
        assert marks[mark] == tuple(int(r in there) for r in range(1, rounds + 1))
        assert sum(marks[mark]) > 0
    assert view.decided_to == rounds
