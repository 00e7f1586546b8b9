"""Compact bases: they tell of any round what the recorded tables, read whole, tell of it."""

from __future__ import annotations

import random
import time
from itertools import groupby
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from tests.docs.tour import ROOT
from tests.trace.lives import ROLES, record
from tsviz.replay.recorded import bases, life_of
from tsviz.replay.recorded.bases import bases_directory, make_bases
from tsviz.replay.recorded.block_tables import RecordedTables
from tsviz.replay.recorded.distinct import Starts, distinct
from tsviz.replay.recorded.held import held_pages
from tsviz.replay.recorded.source_bases import BasedTables
from tsviz.replay.view import PartView, open_view
from tsviz.trace.catalogue import TABLES
from tsviz.trace.reader import open_bundle
from tsviz.trace.tables import TABLE_CHANGES


@pytest.mark.parametrize("seed", range(40))
def test_distinct_rounds_give_every_round_back(seed: int) -> None:
    """However the rows are cut into chunks, each round's rows are those of the piece that holds it."""
    rng = random.Random(seed)
    rows: list[tuple[int, int, int]] = []
    last: list[tuple[int, int]] = []
    for round_ in range(1, 40):
        if rng.random() < 0.4:
            last = [(rng.randint(0, 1), rng.randint(0, 1)) for _ in range(rng.randint(0, 3))]
        rows += [(round_, a, b) for a, b in last]
    chunks, at = [], 0
    while at < len(rows):
        size = rng.randint(1, 12)
        part = np.array(rows[at : at + size], np.int64)
        chunks.append((part[:, 0], {"a": part[:, 1], "b": part[:, 2]}))
        at += size
    starts = Starts()
    kept = list(distinct(chunks, starts))
    a, b = ([int(v) for _, columns in kept for v in columns[name]] for name in "ab")
    wanted = {r: [(a, b) for _, a, b in group] for r, group in groupby(rows, lambda row: row[0])}
    assert starts.rounds == sorted(set(starts.rounds))
    for round_ in range(1, 45):
        piece = int(np.searchsorted(starts.rounds, round_, side="right")) - 1
        low = starts.rows[piece]
        high = starts.rows[piece + 1] if piece + 1 < len(starts.rows) else len(a)
        assert list(zip(a[low:high], b[low:high], strict=True)) == wanted.get(round_, []), round_
    changed = sum(wanted.get(r, []) != wanted.get(r - 1, []) for r in range(1, 41))
    assert len(starts.rounds) <= changed + 1


@pytest.mark.parametrize("seed", range(60))
def test_held_pages_are_those_of_the_tables(seed: int) -> None:
    """Behind every change, of growing tables as of rewritten ones, as many pages are held as the tables hold."""
    rng = random.Random(seed)
    plain = seed % 2 == 0
    rows, sizes, page = [], {}, 0
    for round_ in range(1, 30):
        for submission in rng.sample(range(3), rng.randint(0, 3)):
            for group in rng.sample(("full", "sliding"), rng.randint(1, 2)):
                size = sizes.get((submission, group), 0)
                fresh = size == 0 or rng.random() < 0.1
                first = 0 if fresh else size if plain or rng.random() < 0.5 else rng.randint(0, size + 1)
                count = rng.randint(0, 3)
                pages = [page := page + 1 for _ in range(count)] if plain else rng.choices(range(6), k=count)
                length = first + count if plain or rng.random() < 0.7 else rng.randint(0, first + count)
                sizes[submission, group] = length
                rows.append({
                    "round": round_, "group": group, "request": f"r{submission}", "submission": submission,
                    "fresh": fresh, "first_slot": first, "pages": pages, "length_slots": length,
                })  # fmt: skip
    changes = pa.Table.from_pylist(rows, TABLE_CHANGES.schema)
    config = {"cache_groups": [{"group_id": g, "block_granularity": 4} for g in ("full", "sliding")]}
    tables = RecordedTables(changes, config)
    codes = np.array([("full", "sliding").index(row["group"]) for row in rows], np.int64)
    held = held_pages(changes, codes, 2)
    everyone = np.arange(3)
    for round_ in range(31):
        assert [tuple(row) for row in held.at(everyone, round_).tolist()] == [
            tables.counts(s, round_) for s in range(3)
        ]


@pytest.mark.parametrize("role", ROLES)
def test_bases_and_whole_tables_show_the_same(real: ModuleType, tmp_path: Path, role: str) -> None:
    """Every snapshot, step, lane and mark of random lifetimes is the same from compact bases as from whole tables."""
    rng = random.Random(role)
    for seed in range(100, 110):
        record(real, tmp_path / str(seed), seed, role=role, tokens=rng.choice(("full", "identity")))
        bundle = open_bundle(tmp_path / str(seed))
        part = bundle.parts[0]
        assert part.cold is not None
        whole = PartView(bundle, part)
        based = PartView(bundle, part, source=BasedTables(part, part.cold, make_bases(part)))
        rounds, count = whole.head.rounds, whole.head.requests
        assert based.head == whole.head
        for round_ in rng.sample(range(1, rounds + 1), rounds):
            for selected in (None, *rng.sample(range(count), min(3, count))):
                assert based.snapshot(round_, selected) == whole.snapshot(round_, selected), (seed, round_, selected)
        for round_ in rng.sample(range(1, rounds + 1), min(rounds, 30)):
            who = rng.choice((None, *range(count)))
            assert based.records(round_, who) == whole.records(round_, who)
            assert based.outstanding(round_) == whole.outstanding(round_)
        assert based.device(1, rounds) == whole.device(1, rounds)
        for _ in range(60):
            at, step, who = rng.randint(0, rounds + 1), rng.choice((1, -1)), rng.choice((None, *range(count)))
            assert based.next_mark(at, who, step) == whole.next_mark(at, who, step), (seed, at, who, step)
        for columns in (1, 7, rounds):
            assert tuple(based.lanes(1, rounds)) == tuple(whole.lanes(1, rounds))
            assert based.timeline(1, rounds, columns, range(count)) == whole.timeline(1, rounds, columns, range(count))
            assert based.marks(1, rounds, columns) == whole.marks(1, rounds, columns)
            assert based.pool_history(1, rounds, columns) == whole.pool_history(1, rounds, columns)


def test_damaged_bases_are_built_anew(real: ModuleType, tmp_path: Path) -> None:
    """Whatever file of the bases is cut, changed or lost: they are built again and tell the same."""
    record(real, tmp_path / "b", 104)
    bundle = open_bundle(tmp_path / "b")
    part = bundle.parts[0]
    make_bases(part)
    whole = PartView(bundle, part)
    wanted = [whole.snapshot(r, 2) for r in range(1, whole.head.rounds + 1)]
    directory = bases_directory(part)
    for path in sorted(directory.iterdir()):
        sound = path.read_bytes()
        for damage in (b"", sound[:-9], bytes(len(sound)), sound[:4] + bytes(len(sound) - 60) + sound[-56:], None):
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage)
            assert part.cold is not None
            view = PartView(bundle, part, source=BasedTables(part, part.cold, make_bases(part)))
            assert [view.snapshot(r, 2) for r in range(1, whole.head.rounds + 1)] == wanted, path.name


def test_a_large_trace_answers_while_its_bases_are_built(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the bases are there a snapshot has all but requests, and says so; then all is as with whole tables."""
    monkeypatch.setattr(life_of, "LARGE_ROWS", 0)
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    record(real, tmp_path / "b", 104)
    bundle = open_bundle(tmp_path / "b")
    whole = PartView(bundle, bundle.parts[0])
    view = open_view(bundle, wait=False)
    assert isinstance(view, PartView)
    rounds = view.head.rounds
    for round_ in range(1, rounds + 1):
        early, wanted = view.snapshot(round_, 2), whole.snapshot(round_, 2)
        if early.preparing is None:
            break
        assert (early.rows, early.events, early.pool, early.counts) == (
            wanted.rows, wanted.events, wanted.pool, wanted.counts,
        )  # fmt: skip
        assert (early.requests, early.tables) == ((), ())
        assert len(view.lanes(1, rounds)) == 0
        assert view.pool_history(1, rounds, 9) == whole.pool_history(1, rounds, 9)
    else:
        assert round_ == rounds
    for _ in range(600):
        if view.preparing is None:
            break
        assert not view.preparing.error
        time.sleep(0.1)
    assert [view.snapshot(r, 2) for r in range(1, rounds + 1)] == [whole.snapshot(r, 2) for r in range(1, rounds + 1)]
    assert tuple(view.lanes(1, rounds)) == tuple(whole.lanes(1, rounds))
    assert view.marks(1, rounds, 5) == whole.marks(1, rounds, 5)
    assert view.outstanding(rounds // 2) == whole.outstanding(rounds // 2)
    assert [view.pages.at(r) for r in range(1, rounds + 1)] == [whole.pages.at(r) for r in range(1, rounds + 1)]
    assert open_view(bundle, wait=False).snapshot(3).preparing is None


def test_bases_are_built_in_a_draft_that_the_next_build_removes(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft of bases is held by the process that fills it, and one that nobody holds goes with the next build."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("TSVIZ_CACHE", str(cache))
    record(real, tmp_path / "b", 104)
    part = open_bundle(tmp_path / "b").parts[0]
    drafts: list[str] = []

    def killed(_part: object, _store: object, directory: Path, _progress: object) -> None:
        drafts.extend(path.name for path in cache.iterdir())
        directory.rename(cache / "draft-tsviz-held-left")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bases, "build_bases", killed)
        with pytest.raises(KeyboardInterrupt):
            make_bases(part)
    assert len(drafts) == 1
    assert drafts[0].startswith("draft-tsviz-held-")
    assert [path.name for path in cache.iterdir()] == ["draft-tsviz-held-left"]
    make_bases(part)
    assert list(cache.iterdir()) == [bases_directory(part)]


def test_rows_of_all_tables_make_a_part_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is large with one row more than the limit in all its tables together, however few were scheduled."""
    part = open_bundle(ROOT / "traces" / "head-of-line").parts[0]
    rows = sum(part.rows(name) for name in TABLES)
    monkeypatch.setattr(life_of, "LARGE_ROWS", rows)
    assert not life_of.is_large(part)
    monkeypatch.setattr(life_of, "LARGE_ROWS", rows - 1)
    assert life_of.is_large(part)
    assert part.rows("operations") < rows - 1
