"""A slice, and what a ring kept, of a recording of the real scheduler say of their rounds what the whole one says.

Expected values are those of the whole recording at the same rounds; requests are matched by the numbers that the cut
says it carries. Since when a verdict holds, and what was before the first round, only the whole knows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.trace.lives import record
from tsviz.query.catalog import Catalog
from tsviz.query.locked import Locked
from tsviz.replay.live.run import LiveRun
from tsviz.replay.live.state import live_state
from tsviz.replay.pages import values as v
from tsviz.replay.pages.live import with_live
from tsviz.replay.reexecution import keyframe_files
from tsviz.replay.reexecution.index import build_index, open_indexed
from tsviz.replay.ring.join import PartRing
from tsviz.replay.slice import write_slice
from tsviz.replay.view import open_view
from tsviz.replay.why.answer import facts_of, why
from tsviz.replay.why.facts import Said
from tsviz.replay.why.turns import Turns
from tsviz.trace import layout
from tsviz.trace.layout import RING_FILE
from tsviz.trace.reader import open_bundle
from tsviz.trace.ring import RingOptions
from tsviz.trace.whole import write_whole

ROUNDS = 4
RING = RingOptions(1.8e-6, None)
"""Segments of 450 ns, which is 64 calls on the clock of a lifetime."""


def host(config: Any) -> None:
    """Have a host tier."""
    config.num_host_pages, config.enable_l3_storage, config.enable_kv_cache_events = 40, False, False


def storage(config: Any) -> None:
    """Have a host tier and a storage tier."""
    config.num_host_pages, config.enable_l3_storage, config.enable_kv_cache_events = 40, True, False


LIVES: dict[int, dict[str, Any]] = {
    519: {"role": "Fused", "tokens": "identity", "steps": 240, "tune": storage},
    529: {"role": "D", "tokens": "identity", "steps": 240, "tune": host},
    522: {"role": "P", "tokens": "full", "steps": 240, "tune": storage},
}
"""By seed, recordings in which requests collide, wait, are retracted and copied: role, tokens and tiers."""
AWAY = 519
"""The one in whose rounds the retraction loop takes requests while others have not run."""


class Told:
    """What is told of a recording whose decisions were derived."""

    def __init__(self, path: Path) -> None:
        self.bundle = open_bundle(path)
        (self.part,) = self.bundle.parts
        self.index = build_index(self.part)
        assert self.index.divergence is None
        self.facts = facts_of(self.part, self.index)
        self.turns = Turns(self.facts)
        self.view: Any = open_view(self.bundle)
        self.live = LiveRun(self.part)

    def waiting(self, round_: int) -> dict[str, tuple[Any, ...]]:
        """Return what the relation `waiting` says of each request."""
        locked = Locked(Catalog([open_indexed(self.bundle.path)]))
        rows = locked.query(f"FROM waiting({round_})")[0].to_pylist()
        locked.close()
        return {row["request"]: tuple(row[n] for n in ("state", "next_row_round", "cause", "holder")) for row in rows}


@dataclass
class Seen:
    """What the comparisons met, so that none of them is of nothing."""

    retracted: int = 0
    out: int = 0
    cached: int = 0
    held: int = 0
    unknown: int = 0


def compare(whole: Told, cut: Told, numbers: Sequence[int], seen: Seen) -> None:
    """Assert that a cut to the end of the recording says of its first rounds what the whole says."""
    first, last = cut.part.meta["starts_at"], cut.part.last_round
    assert last == whole.part.last_round
    for round_ in range(first, min(first + ROUNDS, last + 1)):
        behind = whole.facts.behind_plan(round_), cut.facts.behind_plan(round_)
        live = cut.facts.live(round_)
        assert [numbers[s] for s in live] == whole.facts.live(round_)
        for submission in live:
            one, two = whole.facts.verdict(numbers[submission], round_), cut.facts.verdict(submission, round_)
            assert one is not None and two == from_cut(one, first, whole.facts.life.submitted[numbers[submission]])
            state = cut.facts.state(submission, round_, behind[1])
            assert state == whole.facts.state(numbers[submission], round_, behind[0])
            seen.retracted += state == "Retracted" and round_ == first
        held = [
            [(each.request, each.state, each.pages, each.blocks) for each in told.facts.holdings(round_, item)]
            for told, item in zip((whole, cut), behind, strict=True)
        ]
        assert held[0] == held[1]
        tickets, again = whole.facts.tickets(round_, behind[0]), cut.facts.tickets(round_, behind[1])
        # A store that the end of a request began is told there, and is in the next plan, of which a cut has its rows.
        assert [replace(each, since_round=0) for each in tickets] == [replace(each, since_round=0) for each in again]
        assert all(
            one.since_round in (two.since_round, two.since_round - 1) for one, two in zip(tickets, again, strict=True)
        )
        assert whole.view.outstanding(round_) == cut.view.outstanding(round_)
        seen.out += sum(ticket.since_round < first for ticket in tickets)
        seen.held += len(held[0])
        lines = [
            {line.request: (line.state, line.held_pages, line.group_pages, line.scheduled) for line in told.requests}
            for told in (whole.view.snapshot(round_), cut.view.snapshot(round_))
        ]
        assert lines[0] == lines[1]
        owners(whole, cut, round_, numbers)
    pages(whole, cut, first, seen)


def from_cut(said: Said, first: int, submitted: int) -> Said:
    """Return a verdict as a cut from round `first` tells it: from there on, and perhaps longer."""
    begun = said.since_round <= first
    return replace(said, since_round=max(said.since_round, first), at_least=bool(begun and submitted < first))


def owners(whole: Told, cut: Told, round_: int, numbers: Sequence[int]) -> None:
    """Assert that pages are held by the same requests and operations."""
    one, two = whole.view.pages.at(round_), cut.view.pages.at(round_)
    assert dict(one.tickets) == dict(two.tickets)
    for old, new in zip(one.owners, two.owners, strict=True):
        assert list(old) == [numbers[owner] if owner >= 0 else -1 for owner in new]


def pages(whole: Told, cut: Told, round_: int, seen: Seen) -> None:
    """Assert that the maps of both tiers are, page by page, those of the scheduler that made all rounds again."""
    found = whole.live.look((round_, None))
    assert found is not None
    tiers = live_state(found).tiers
    for tier, live in zip((lambda told: told.view.pages, lambda told: told.view.pages.host), tiers, strict=True):
        one, two = tier(whole).at(round_), tier(cut).at(round_)
        assert dict(one.tickets) == dict(two.tickets)
        for known, old, new in zip(with_live(one, live).codes, one.codes, two.codes, strict=True):
            assert [each for each in zip(known, new, strict=True) if each[1] not in (each[0], v.UNKNOWN)] == []
            assert [each for each in zip(known, old, strict=True) if each[1] not in (each[0], v.UNKNOWN)] == []
            seen.cached, seen.unknown = seen.cached + new.count(v.CACHED), seen.unknown + new.count(v.UNKNOWN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for all of this module, with a cache of its own."""
    made = tmp_path_factory.mktemp("cuts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TSVIZ_CACHE", str(made / "cache"))
        yield made


@pytest.fixture(scope="module")
def wholes(folder: Path) -> Callable[[int], Told]:
    """The recordings of `LIVES` by their seed, each made once."""
    real = pytest.importorskip("tokenspeed_scheduler")

    @cache
    def made(seed: int) -> Told:
        record(real, folder / f"{seed}", seed, **LIVES[seed])
        return Told(folder / f"{seed}")

    return made


@pytest.mark.parametrize("seed", LIVES)
def test_a_slice_says_what_the_whole_recording_says(wholes: Callable[[int], Told], folder: Path, seed: int) -> None:
    """States, verdicts, who holds what, operations out, lines and pages, at random cuts."""
    whole, rng, seen = wholes(seed), random.Random(seed), Seen()
    for first in rng.sample(range(6, whole.part.last_round - 4), 2):
        out = folder / f"{seed}-{first}"
        done = write_slice(whole.bundle, whole.part, first, whole.part.last_round, out)
        cut = Told(out)
        compare(whole, cut, done.submissions, seen)
    assert min(seen.cached, seen.held) > 0, seen
    assert seen.unknown <= seen.cached // 10, seen


def test_waiting_says_of_a_slice_what_it_says_of_the_whole(wholes: Callable[[int], Told], folder: Path) -> None:
    """Who was retracted in front of the slice and who never ran, with its next row, cause and holder."""
    whole = wholes(AWAY)
    wanted = {"Retracted", "Submitted"}
    first = next(r for r in range(8, 99) if states(whole, r) >= wanted and whole.facts.tickets(r, 0))
    done = write_slice(whole.bundle, whole.part, first, whole.part.last_round, folder / "waiting")
    waits, cut, seen = whole.waiting(first), Told(folder / "waiting"), Seen()
    assert {row[0] for row in waits.values()} == {"new", "retracted"}
    assert cut.waiting(first) == waits
    compare(whole, cut, done.submissions, seen)
    assert min(seen.retracted, seen.out) > 0, seen


def states(told: Told, round_: int) -> set[str]:
    """Return the states of the requests that live at the plan of a round, in front of it."""
    return {told.facts.state(submission, round_, 0) for submission in told.facts.live(round_)}


def test_what_a_ring_kept_says_what_the_whole_recording_says(wholes: Callable[[int], Told], folder: Path) -> None:
    """The same of a ring without decisions that dropped one segment, then two."""
    real = pytest.importorskip("tokenspeed_scheduler")
    record(real, home := folder / "x.ring", AWAY, ring=RING, **LIVES[AWAY])
    whole, seen = wholes(AWAY), Seen()
    ring = PartRing(home, home / "parts" / "N.0", layout.read_json(home / RING_FILE))
    for dropped in (1, 2):
        ring.advance()
        kept, ids = ring._join(ring.segments(), gaps=True)
        write_whole(out := folder / f"kept{dropped}", ring.description, [kept], {})
        compare(whole, Told(out), ids.tolist(), seen)
    assert min(seen.out, seen.held) > 0, seen


def test_verdicts_begin_anew_whatever_index_the_keyframe_came_of(
    wholes: Callable[[int], Told], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a keyframe behind every plan, made by who tells verdicts: nobody who lives is without one in a slice."""
    monkeypatch.setenv("TSVIZ_CACHE", str(folder / "keyframes"))
    monkeypatch.setattr(keyframe_files, "_SECONDS", 0.0)
    monkeypatch.setattr(keyframe_files, "_SHARE", 0)
    whole, first = Told(wholes(AWAY).bundle.path), 25
    done = write_slice(whole.bundle, whole.part, first, first + 1, folder / "verdicts")
    cut = Told(folder / "verdicts")
    for submission in cut.facts.live(first):
        old, new = whole.facts.verdict(done.submissions[submission], first), cut.facts.verdict(submission, first)
        submitted = whole.facts.life.submitted[done.submissions[submission]]
        assert old is not None and new == from_cut(old, first, submitted)


def test_why_says_that_a_request_was_away_where_a_slice_begins(wholes: Callable[[int], Told], folder: Path) -> None:
    """Of a request that the retraction loop took two rounds before the slice it is known that it was; not more."""
    whole = wholes(AWAY)
    gone = next(row for row in whole.facts.between("retractions", 1, 999) if row["outcome"] == "retracted")
    first = gone["round"] + 2
    assert "retracted in round" in why(whole.facts, whole.turns, gone["victim"], first).paragraph
    write_slice(whole.bundle, whole.part, first, first + 2, folder / "away")
    cut = Told(folder / "away")
    said = why(cut.facts, cut.turns, gone["victim"], first).paragraph
    assert f"It was retracted before round {first:,}, where this trace begins" in said
    assert f"It has had none since round {first:,}, where this trace begins, or longer (at least " in said
