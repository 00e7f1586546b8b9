"""Following a ring: what is kept at each moment, what was dropped in between, and its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tsviz as library
from tests.cli.conftest import Tsviz, tsviz
from tests.trace.recording_process import recorded
from tests.trace.test_followers import step
from tsviz.replay.growth import Grown, growth
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.ring.follow import FollowedPart, RingFollower
from tsviz.replay.ring.keeping import Keeper
from tsviz.replay.ring.kept import KeptPart
from tsviz.scheduler import compat
from tsviz.trace import writer
from tsviz.trace.ring import RingOptions, ring_home
from tsviz.trace.whole import WholePart
from tsviz.trace.writer import BundleWriter

__all__ = ["tsviz"]


class Ring:
    """A ring that moves when it is waited for: a segment for every six rounds, of which the last two stay.

    Every segment is larger than all that is to be kept, so the oldest goes as soon as two newer ones are there.
    """

    def __init__(self, real: ModuleType, out: Path, monkeypatch: pytest.MonkeyPatch, triggers: tuple[str, ...]) -> None:
        monkeypatch.setattr(writer, "FLUSH_SECONDS", 0.0)
        monkeypatch.setattr(writer, "TAKE_SECONDS", 3600.0)  # the test takes, at moments that it chooses
        monkeypatch.setenv("TSVIZ_CACHE", str(out.with_name("cache")))
        self.out, self.home = out, ring_home(out)
        self._writer = BundleWriter(self.home, meta={}, tokens="identity", ring=RingOptions(None, 20_000, triggers))
        self._module, self._scheduler = recorded(real, self._writer)
        self.grow(12)
        self.keeper = Keeper(self.home)
        self.moves: list[Callable[[], object]] = []

    def grow(self, rounds: int) -> None:
        """Make so many rounds and commit them, six at a time."""
        for _ in range(rounds // 6):
            step(self._module, self._scheduler)
            self._writer._take_all()

    def drop(self) -> None:
        """Have the keeper drop what is beyond its limit."""
        while self.keeper.step():
            pass

    def run(self, rounds: int) -> None:
        """Make rounds, and drop."""
        self.grow(rounds)
        self.drop()

    def close(self) -> None:
        """End the recording."""
        self._writer.close({"error": None})

    def end(self) -> None:
        """End the recording, and have the keeper take the ring away."""
        self.close()
        self.keeper.finish("")

    def wait(self, _seconds: float) -> None:
        """Make the next move."""
        self.moves.pop(0)()


@pytest.fixture
def ring(real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ring]:
    """Return what makes a ring with these triggers."""
    return lambda *triggers: Ring(real, tmp_path / "out", monkeypatch, triggers)


def spans(seen: list[Grown]) -> list[tuple[int, int, bool]]:
    """Return first and last round of each look, and whether it was the last one."""
    parts = [now.bundle.parts[0] for now in seen]
    return [(part.meta.get("starts_at", 1), part.last_round, now.ended) for part, now in zip(parts, seen, strict=True)]


def test_a_ring_is_yielded_as_it_moves_and_what_it_dropped_in_between_is_told(ring: Callable[..., Ring]) -> None:
    """Rounds 37 to 49 came and went between two looks; every look verifies, and stays what it was."""
    moving = ring("crash")
    moving.moves = [lambda: moving.run(12), lambda: moving.run(12), lambda: moving.run(24), moving.close]
    seen = list(growth(moving.out, wait=moving.wait))
    assert spans(seen) == [(1, 12, False), (14, 24, False), (26, 36, False), (50, 60, False), (50, 60, True)]
    told = "N/0: {} dropped from the ring before they were looked at"
    rounds = ("round 13 was", "round 25 was", "rounds 37 to 49 were")
    assert [now.told for now in seen] == [(), *((told.format(words),) for words in rounds), ()]
    assert all(verify(now.bundle.parts[0], compat).complete for now in seen)


@pytest.mark.parametrize(("trigger", "last"), [("end", 48), ("crash", 24)])
def test_the_end_of_a_ring_that_was_taken_away_is_what_was_written_or_told(
    ring: Callable[..., Ring], trigger: str, last: int
) -> None:
    """The trace that its end wrote is the last look; without one it is said that nothing was kept."""
    moving = ring(trigger)

    def end() -> None:
        moving.grow(24)
        moving.end()

    moving.moves = [lambda: moving.run(12), end]
    seen = list(growth(moving.home, wait=moving.wait))
    assert spans(seen)[-1][1:] == (last, True)
    words = f"this is what was written to {moving.out}" if trigger == "end" else "was not looked at, and not kept"
    assert any(words in told for told in seen[-1].told)


def test_a_look_that_met_the_keeper_is_made_anew(ring: Callable[..., Ring], monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment is dropped while everything is read: nothing of the look before the drop is given out."""
    moving, looks = ring("crash"), []
    moving.grow(12)
    whole = KeptPart.joined

    def joined(part: KeptPart, **options: Any) -> WholePart:
        found = whole(part, **options)
        if type(part) is KeptPart:
            looks.append(found.meta.get("starts_at", 1))
            moving.drop()
        return found

    monkeypatch.setattr(KeptPart, "joined", joined)
    now = RingFollower(moving.home).grown()
    assert looks == [1, 14]
    assert now.told == ("N/0: rounds 1 to 13 were dropped from the ring before this began to follow",)
    moving.close()


def test_sql_follows_a_ring_row_by_row(
    ring: Callable[..., Ring], tsviz: Tsviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that stays while the ring moves is written once, whatever number its request has by then."""
    moving = ring("crash")
    moving.grow(12)

    def end() -> None:
        moving.run(24)
        moving.close()

    moving.moves = [moving.drop, end]
    monkeypatch.setitem(growth.__kwdefaults__, "wait", moving.wait)
    sql = "SELECT round, submission FROM operations WHERE round % 4 = 0 AND round >= (SELECT min(round) FROM rounds)"
    ended = tsviz("sql", moving.home, "--follow", "--format", "csv", sql)
    assert ended.code == 0
    assert [line.split(",")[0] for line in ended.out.split()] == [
        "round",
        "4",
        "8",
        "12",
        "16",
        "20",
        "24",
        "40",
        "44",
        "48",
    ]
    assert "tsviz: N/0: rounds 25 to 37 were dropped from the ring before they were looked at" in ended.err
    assert "N/0: finished, 48 rounds" in ended.err


def test_the_library_warns_of_what_was_dropped(ring: Callable[..., Ring], monkeypatch: pytest.MonkeyPatch) -> None:
    """`tsviz.follow` yields a Trace each time, and one that was yielded before answers as it did."""
    moving = ring("crash")
    moving.moves = [lambda: moving.run(36), moving.close]
    monkeypatch.setitem(growth.__kwdefaults__, "wait", moving.wait)
    with pytest.warns(UserWarning, match=r"rounds 13 to 37 were dropped from the ring before they were looked at"):
        traces = list(library.follow(moving.home))
    counts = [trace.sql("SELECT count(*) AS n FROM rounds")["n"][0].as_py() for trace in traces]
    assert counts == [12, 11, 11]


def test_the_screen_follows_a_part_of_a_ring(ring: Callable[..., Ring]) -> None:
    """Each view is of a bundle of its own, from its first kept round on; a part that is not there is named."""
    moving = ring("crash")
    part = FollowedPart(moving.home, None, None)
    path, key = part.path, part.key
    moving.run(12)
    view = part.view()
    assert (view.head.first_round, view.head.rounds, part.look().rounds) == (14, 24, 24)
    assert (part.path != path, part.key == key, FollowedPart(moving.home, "N", 0).key == key) == (True, True, True)
    with pytest.raises(KeyError, match="there are N/0"):
        FollowedPart(moving.home, "X", 1)
    moving.close()
    assert part.look().state == "finished"
