"""A recording that is followed: what is known of it commit by commit is what opening it there tells, and stays so."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from bench.growing import Growing
from tests.docs.tour import ROOT
from tests.trace.lives import ROLES, record
from tsviz.replay.follow import Follower
from tsviz.replay.part_view import PartView
from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.replay.stops.story import RoundStory, Stop
from tsviz.replay.view import open_view
from tsviz.scheduler import compat
from tsviz.trace import grown, grown_table
from tsviz.trace.catalogue import DECISIONS, TABLES
from tsviz.trace.compact import compact_part
from tsviz.trace.errors import Damaged
from tsviz.trace.grouped import grouped
from tsviz.trace.grown import GrowingTables
from tsviz.trace.hot import HotTables
from tsviz.trace.reader import open_bundle


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have groups of a few batches, and read a few commits at once."""
    monkeypatch.setattr(grown_table, "GROUP_ROWS", 40)
    monkeypatch.setattr(grown, "LOT_ROWS", 200)


def told(view: RecordedView, rng: random.Random, some: int = 8) -> list[Any]:
    """Return what a view says of some rounds and of windows of rounds; the same for the same `rng`."""
    assert isinstance(view, PartView)
    rounds, count = view.head.rounds, view.head.requests
    found: list[Any] = [view.head]
    for round_ in rng.choices(range(1, rounds + 1), k=some):
        who = rng.choice((None, *range(count)))
        found += [view.snapshot(round_, who), view.records(round_, who), view.outstanding(round_)]
        found.append(view.next_mark(round_, who, rng.choice((1, -1))))
    for columns in (1, 7, rounds):
        found += [tuple(view.lanes(1, rounds)), view.timeline(1, rounds, columns, range(count))]
        found += [view.marks(1, rounds, columns), view.pool_history(1, rounds, columns)]
    return [*found, view.device(1, rounds)]


@pytest.mark.parametrize("role", ROLES)
def test_what_is_followed_is_what_is_opened(real: ModuleType, tmp_path: Path, role: str) -> None:
    """Random lifetimes, some commits at a time: each view equals one opened there, and says the same at the end."""
    rng = random.Random(role)
    for seed in (200, 201) if role == "Fused" else (200,):
        record(real, tmp_path / f"{seed}", seed, role=role, tokens=rng.choice(("full", "identity")))
        growing = Growing(tmp_path / f"{seed}", tmp_path / f"{seed}-grown")
        part = open_bundle(tmp_path / f"{seed}").parts[0]
        follower, at, kept = Follower(tmp_path / f"{seed}-grown", part.node, part.rank), 0, []
        while at < growing.rounds:
            for _ in range(rng.randint(1, 6)):
                at += rng.randint(1, 16)
                growing.commit(at)
            view, which = follower.view(), rng.random()
            opened = open_view(open_bundle(tmp_path / f"{seed}-grown"))
            said = told(view, random.Random(which))
            assert said == told(opened, random.Random(which)), (seed, at)
            kept.append((view, which, said))
        growing.close()
        assert all(told(view, random.Random(which)) == said for view, which, said in kept)
        assert len(kept) > 1


def test_a_recording_is_followed_to_its_end_when_it_was_compacted(real: ModuleType, tmp_path: Path) -> None:
    """Its hot tables are gone when the last commits are read: every round is there, the recording is not live."""
    record(real, tmp_path / "a", 300, role="Fused", tokens="identity")
    growing = Growing(tmp_path / "a", tmp_path / "b")
    part = open_bundle(tmp_path / "a").parts[0]
    follower = Follower(tmp_path / "b", part.node, part.rank)
    growing.commit(growing.rounds // 2)
    assert follower.view().head.live
    for round_ in range(growing.rounds // 2 + 1, growing.rounds + 1):
        growing.commit(round_)
    growing.close()
    compact_part(next((tmp_path / "b" / "parts").iterdir()))
    view, opened = follower.view(), open_view(open_bundle(tmp_path / "b"))
    assert not view.head.live
    assert told(view, random.Random(1)) == told(opened, random.Random(1))


def stops_of(view: PartView, round_: int) -> list[Stop]:
    """Return the stops of a round, which is told from the inside."""
    story = view.story(round_)
    assert isinstance(story, RoundStory)
    return list(story.stops())


def test_decisions_are_told_while_they_are_recorded(tmp_path: Path) -> None:
    """Of a recording with decisions causes, stories and why are known up to each commit, as opening it there tells."""
    record(compat, tmp_path / "a", 11, level=DECISIONS)
    growing = Growing(tmp_path / "a", tmp_path / "b")
    follower, asked = Follower(tmp_path / "b", "N", 0), 0
    for last in (growing.rounds // 3, growing.rounds):
        growing.commit(last)
        view, opened = follower.view(), open_view(open_bundle(tmp_path / "b"))
        assert isinstance(view, PartView) and isinstance(opened, PartView)
        assert view.head.frontier.last_round == last
        for round_ in range(last // 2, last + 1, 5):
            assert stops_of(view, round_) == stops_of(opened, round_)
            waiting = [line for line in view.snapshot(round_).requests if not line.scheduled]
            for line in waiting[:2]:
                assert view.why(line.submission, round_) == opened.why(line.submission, round_)
                asked += 1
    assert asked > 5


def _whole(store: HotTables, name: str) -> pa.Table:
    batches = list(store.batches(TABLES[name]))
    whole = pa.Table.from_batches(batches, TABLES[name].schema).unify_dictionaries().combine_chunks()
    return _plain(whole)


def _plain(rows: pa.Table) -> pa.Table:
    """Return a table with its words as strings."""
    fields = [pa.field(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in rows.schema]
    return rows.cast(pa.schema(fields)).combine_chunks()


def test_rows_by_batch_are_those_of_the_table(tmp_path: Path) -> None:
    """Each table whole, by key, by number and by column is what was committed, then and still when more was."""
    growing, found = Growing(ROOT / "traces" / "mixed-undeclared-livelock", tmp_path / "b"), []
    (hot,) = (tmp_path / "b").glob("parts/*/hot")
    tables, rng = GrowingTables(hot, {"operations": ("submission",)}), random.Random(1)
    for at in range(1, 170, 9):
        growing.commit(at)
        if at % 4 == 0:
            tables.refresh()
            while tables.read_on() is not None:
                pass
            found.append((tables.frozen(), {name: _whole(HotTables(hot), name) for name in TABLES}))
    for store, whole in found:
        assert all(_whole(store, name).equals(whole[name]) for name in TABLES)
        for name in ("operations", "rounds", "table_changes"):
            columns = [c for c in TABLES[name].names if c == "round" or rng.random() < 0.6]
            rows = grouped(store, TABLES[name], columns)
            expected = whole[name].select(rows.schema.names)
            assert rows.rows == expected.num_rows
            assert rows.column("round").tolist() == expected["round"].to_pylist()
            for _ in range(4):
                low, high = sorted(rng.choices(range(rows.rows + 1), k=2))
                assert _plain(rows.slice(low, high)).equals(expected.slice(low, high - low).combine_chunks())
                first, last = sorted(rng.choices(range(store.last_round + 2), k=2))
                key = expected["round"].to_numpy()
                between = expected.filter(pa.array((key >= first) & (key <= last)))
                assert _plain(rows.between(first, last)).equals(between.combine_chunks())
    assert len(found) > 3


def test_bytes_that_changed_since_they_were_read_are_told(tmp_path: Path) -> None:
    """A byte of a batch that was read before contradicts its CRC when the batch is decoded again."""
    growing = Growing(ROOT / "traces" / "mixed-undeclared-livelock", tmp_path / "b")
    growing.commit(300)
    (hot,) = (tmp_path / "b").glob("parts/*/hot")
    tables = GrowingTables(hot, {})
    tables.refresh()
    tables.read_on()
    path = hot / "operations.arrows"
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(bytes(data))
    rows = grouped(tables.frozen(), TABLES["operations"], ["round", "slot"])
    with pytest.raises(Damaged, match=r"operations\.arrows.*CRC"):
        rows.between(1, 300)
