"""State as data: snapshots change nothing, at any stop."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.scheduler.lives import Life, plain
from tsviz.scheduler import decisions as d
from tsviz.scheduler.scheduler import Scheduler
from tsviz.scheduler.snapshot import Snapshot


def _plans(life: Life, rounds: int = 30) -> list[Any]:
    out = []
    for number in range(rounds):
        plan = life.step(number)
        if plan is None:
            break
        out.append(plain(plan))
    return out


@pytest.mark.parametrize("first_seed", range(0, 40, 10))
def test_restoring_between_calls_changes_no_plan(first_seed: int) -> None:
    """A scheduler replaced by its restored snapshot at random calls plans the same rounds."""
    for seed in range(first_seed, first_seed + 10):
        dice = Random(seed)

        def swap(life: Life, dice: Random = dice) -> None:
            if dice.random() < 0.3:
                life.scheduler = Scheduler.restore(life.scheduler.snapshot())

        swapped = Life(seed)
        swapped.between = swap
        assert _plans(swapped) == _plans(Life(seed))


class _Teller:
    """Keeps what it is told, and takes a snapshot at chosen decisions."""

    def __init__(self, at: frozenset[int] = frozenset()) -> None:
        self.told: list[tuple[int, int, d.Decision]] = []
        self.at = at
        self.scheduler: Scheduler | None = None
        self.snapshots: list[tuple[int, Snapshot]] = []

    def __call__(self, round_number: int, stop: int, decision: d.Decision) -> None:
        self.told.append((round_number, stop, decision))
        if self.scheduler is not None and len(self.told) in self.at and self.scheduler.building:
            self.snapshots.append((len(self.told), self.scheduler.snapshot()))


@pytest.mark.parametrize("seed", range(30, 42))
def test_a_snapshot_inside_a_round_continues_with_the_same_plan_and_decisions(seed: int) -> None:
    """Restored inside a round, the twin builds it alike and tells exactly what was still to come."""
    teller = _Teller(frozenset(Random(seed).sample(range(2, 900), 40)))
    life = Life(seed, observer=teller, snapshot_at_stops=True)
    teller.scheduler = life.scheduler
    for number in range(25):
        before = len(teller.snapshots)
        begin = len(teller.told)
        plan = life.step(number)
        if plan is None:
            break
        for told, snapshot in teller.snapshots[before:]:
            assert snapshot.plan is not None and snapshot.stop > 0 and told > begin
            again = _Teller()
            restored = Scheduler.restore(snapshot, observer=again)
            assert plain(restored.next_plan()) == plain(plan)
            expected = [item for item in teller.told[told:] if item[0] == snapshot.rounds + 1]
            while expected and not isinstance(expected[-1][2], d.Pool):
                expected.pop()  # told by the events after the round
            assert again.told == expected
    assert teller.snapshots


def test_a_snapshot_inside_a_round_must_be_asked_for() -> None:
    """Without `snapshot_at_stops` the twin keeps no start of the round, and says so."""
    seen: list[str] = []
    life = Life(1)

    def observer(_round: int, _stop: int, _decision: d.Decision) -> None:
        if life.scheduler.building and not seen:
            with pytest.raises(RuntimeError, match="snapshot_at_stops"):
                life.scheduler.snapshot()
            seen.append("asked")

    life.scheduler = Scheduler(life.config, observer=observer)
    life.step(0)
    life.step(1)
    assert seen == ["asked"]
