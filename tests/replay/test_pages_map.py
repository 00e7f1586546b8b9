"""The pages map against the scheduler itself: its calls are made again, and every page is looked up in the twin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.replay.conftest import Record
from tests.trace.lives import ROLES
from tests.trace.lives import record as record_life
from tsviz.replay.live.pages import tier_of
from tsviz.replay.pages import large
from tsviz.replay.pages import values as v
from tsviz.replay.pages.large import LargePages
from tsviz.replay.pages.live import with_live
from tsviz.replay.pages.map import PagesHistory
from tsviz.replay.pages.values import PagesMap
from tsviz.replay.recorded import life_of
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.reexecution.run import Reexecution
from tsviz.replay.view import PartView, open_view
from tsviz.scheduler.scheduler import Scheduler
from tsviz.trace.reader import Part, open_bundle

INCIDENTS = Path(__file__).parents[2] / "traces"


@dataclass(frozen=True)
class Told:
    """What a map said that the twin denies, how many pages it left open, and how many it settled."""

    wrong: list[str]
    unknown: int
    settled: int


def pages_of(path: Path, node: str | None = None) -> PagesHistory | LargePages:
    """Return the pages of a part as a view opens them."""
    view = open_view(open_bundle(path), node)
    assert isinstance(view, PartView)
    return view.pages


def rounds_of(part: Part, twin: Any) -> Iterator[tuple[int, Scheduler]]:
    """Make the calls of a part again in the twin; yield each round and the scheduler behind its plan."""
    execution = Reexecution(part, twin)
    for executed in execution:
        if executed.call.kind == "plan" and executed.record is not None:
            yield executed.call.round, execution.scheduler.core


def compare(pages: PagesMap, scheduler: Scheduler, said: list[str]) -> Counter[str]:
    """Hold every page of a map against the pool and the index of the scheduler."""
    device, counts = scheduler.cache.device, Counter[str]()
    for group, codes in enumerate(pages.codes):
        packing = pages.groups[group].packing
        for page in range(1, len(codes)):
            parent = (page - 1) // packing + 1
            bound = parent < len(device.owner) and device.occupied[parent] and device.owner[parent] == group
            references = device.refs[group][page] if bound else 0
            cached = bool(references) and device.entries[group][page] is not None
            holders = references - cached
            told = pages.shares[group][page] + len(pages.tickets.get((group, page), ()))
            code, place = codes[page], f"round {pages.round} group {group} page {page}"
            counts[v.CODES[code]] += 1
            if code == v.UNKNOWN:
                if holders:
                    said.append(f"{place}: unknown, but {holders} hold it")
            elif code == v.CACHED and (holders or not cached):
                said.append(f"{place}: cached, but {holders} hold it, cached {cached}")
            elif code == v.EMPTY and references:
                said.append(f"{place}: empty, but {holders} hold it, cached {cached}")
            elif code == v.FREED and holders:
                said.append(f"{place}: freed, but {holders} hold it")
            elif told != holders:
                said.append(f"{place}: {told} hold it, but {holders} do")
    bindings = zip(pages.parents[1:], device.occupied[1:], device.owner[1:], strict=False)
    for parent, (bound, occupied, owner) in enumerate(bindings, 1):
        if bound != v.UNBOUND_OR_CACHED and bound != (owner if occupied else v.UNBOUND) and counts["freed"] == 0:
            said.append(f"round {pages.round} parent {parent}: bound to {bound}, but {owner} with {occupied} pages")
    return counts


def against(path: Path, twin: Any, node: str | None = None, *, decided: bool) -> Told:
    """Compare the map of every round of a part with the twin."""
    part = open_bundle(path).part(node)
    if decided and part.level == "plans":
        build_index(part)
    pages, wrong, counts = pages_of(path, node), list[str](), Counter[str]()
    source = "none" if not decided else "recorded" if part.level == "decisions" else "derived"
    for round_, scheduler in rounds_of(part, twin):
        found = pages.at(round_)
        assert found.source == source
        counts += compare(found, scheduler, wrong)
    unknown = counts.pop("unknown", 0)
    return Told(wrong, unknown, counts.total())


@pytest.mark.parametrize(
    ("incident", "node"),
    [("retract-and-grant", "F"), ("bounded-replay", "F"), ("readmission-seals", "F"), ("mixed-stall", "F"),
     ("prefill-decode-pair", "P"), ("prefill-decode-pair", "D")],
)  # fmt: skip
def test_with_decisions_every_page_of_an_incident_is_what_the_twin_says(incident: str, node: str, twin: Any) -> None:
    """Owners, shares, pins and cache of every page in every round, and nothing left unknown."""
    told = against(INCIDENTS / incident, twin, node, decided=True)
    assert told.wrong == []
    assert (told.unknown, told.settled > 0) == (0, True)


def test_packed_groups_are_told_apart(record: Record, twin: Any) -> None:
    """Three groups with 2, 4 and 1 pages a parent, a host tier: no claim is wrong, and under 1 % is left open."""
    path = record(
        "--groups", "full:8:k=2,sliding:16:w=96:k=4,state:16:k=1", "--prefix-page", "32", "--pages", "90",
        "--host-pages", "65", "--scheduler", "twin", "--level", "decisions",
        workload="shared_prefixes:requests=12",
    )  # fmt: skip
    told = against(path, twin, decided=True)
    assert told.wrong[:5] == []
    assert told.unknown < 0.01 * told.settled


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("decided", [True, False])
def test_random_lives_are_never_told_wrong(
    real: ModuleType, twin: Any, tmp_path: Path, role: str, decided: bool
) -> None:
    """Clears, aborts, failed loads, storage: what the map claims of a page, with decisions and without, is true.

    Seeds in which a call raised half-way are left out (300, 314): what it applied is recorded as far as known only.
    """
    for seed in range(301, 305):
        record_life(real, tmp_path / str(seed), seed, role=role)
        told = against(tmp_path / str(seed), twin, decided=decided)
        assert told.wrong[:5] == [], f"seed {seed}"


def test_live_state_leaves_nothing_unknown(twin: Any) -> None:
    """Laid over a map without decisions, the index settles every page, and its order is a permutation of the cache."""
    part = open_bundle(INCIDENTS / "head-of-line").part()
    pages = pages_of(INCIDENTS / "head-of-line")
    seen = 0
    for round_, scheduler in rounds_of(part, twin):
        snapshot, wrong = scheduler.snapshot(), list[str]()
        found = with_live(pages.at(round_), tier_of("device", snapshot.device, snapshot.config, [], []))
        counts = compare(found, scheduler, wrong)
        assert wrong == []
        assert counts["unknown"] == 0
        places = sorted(e.recency for e in (found.live or {}).values() if e.recency >= 0)
        assert places == list(range(len(places)))
        seen += len(places)
    assert seen > 0


def test_a_page_lives_as_the_incident_tells() -> None:
    """Page 1 of retract-and-grant: r1 takes it in round 2, is retracted in 101, the page is evicted for r6 at once."""
    path = INCIDENTS / "retract-and-grant"
    build_index(open_bundle(path).part())
    life = pages_of(path).life(0, 1, 1)
    told = [(event.round, event.what, event.request) for event in life.events[:7]]
    assert told == [
        (2, "taken", ""), (2, "placed", "r1"), (5, "published", ""), (101, "released", "r1"), (101, "evicted", ""),
        (101, "taken", ""), (101, "placed", "r6"),
    ]  # fmt: skip
    assert life.complete
    with pytest.raises(KeyError, match="no page 65 in group 0"):
        pages_of(path).life(0, 65, 1)


def test_the_pages_of_a_request_are_those_of_its_tables() -> None:
    """What lights up for a request are exactly the pages of the block tables that the recorded view shows."""
    path = INCIDENTS / "retract-and-grant"
    view, pages = open_view(open_bundle(path)), pages_of(path)
    compared = 0
    for round_ in range(1, view.head.rounds + 1, 7):
        for line in view.snapshot(round_).requests:
            tables = view.snapshot(round_, line.submission).tables
            shown = tuple(frozenset(p for p in table.pages if p) for table in tables) or (frozenset[int](),)
            assert pages.held(line.submission, round_) == shown
            compared += 1
    assert compared > 100


@pytest.mark.usefixtures("stretches")
@pytest.mark.parametrize("decided", [True, False])
@pytest.mark.parametrize(
    ("incident", "node"), [("retract-and-grant", "F"), ("bounded-replay", "F"), ("prefill-decode-pair", "D")]
)
def test_a_stretch_of_a_large_part_is_never_wrong(incident: str, node: str, decided: bool, twin: Any) -> None:
    """Owners, shares, pins and what it says of the cache are what the twin has, in every round of every stretch."""
    told = against(INCIDENTS / incident, twin, node, decided=decided)
    assert told.wrong[:5] == []
    assert told.settled > told.unknown


def test_the_life_of_a_page_goes_on_beyond_a_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Around a round a large part tells the events up to the end of the stretch, and finds those beyond both ends."""
    path = INCIDENTS / "retract-and-grant"
    build_index(open_bundle(path).part())
    whole = pages_of(path).life(0, 1, 1)
    monkeypatch.setattr(life_of, "LARGE_ROWS", 0)
    monkeypatch.setattr(large, "REACH_ROUNDS", 32)
    pages = pages_of(path)
    assert isinstance(pages, LargePages)
    told = pages.life(0, 1, 60)
    assert told.rounds == (28, 92) and told.tells((0, 1), 60) and not told.tells((0, 1), 28)
    assert [e for e in told.events if e.round > 28] == [e for e in whole.events if 28 < e.round <= 92]
    taken = sorted({e.round for e in whole.events if e.what in ("taken", "placed")})
    assert pages.event_beyond(0, 1, 60, 1) == next(r for r in taken if r > 92)
    assert pages.event_beyond(0, 1, 60, -1) == next(r for r in reversed(taken) if r < 28)
    assert pages.event_beyond(0, 1, open_bundle(path).part().last_round, 1) is None


@pytest.mark.parametrize("incident", ["bounded-replay", "retract-and-grant"])
def test_the_pools_of_all_groups_are_the_pool(incident: str) -> None:
    """In every round the occupied and the active parents of the groups add up to what the scheduler counts."""
    bundle = open_bundle(INCIDENTS / incident)
    build_index(bundle.part())
    view, last = open_view(bundle), bundle.part().last_round
    assert isinstance(view, PartView)
    pools = [view.pages.group_pool(group, 1, last, last) for group in range(len(view.head.groups))]
    occupied = [sum(each) for each in zip(*(pool.occupied_parents for pool in pools), strict=True)]
    active = [sum(each) for each in zip(*(pool.active_parents for pool in pools), strict=True)]
    assert tuple(occupied) == view.pool_history(1, last, last)
    assert tuple(active) == view.active_history(1, last, last)
    (coarse,) = view.pages.group_pool(0, 1, last, 1).occupied_parents
    assert coarse == max(pools[0].occupied_parents)


@pytest.mark.usefixtures("stretches")
def test_the_pool_of_a_group_of_a_large_part_is_that_of_a_stretch() -> None:
    """64 rounds are told as of the whole part, as far as tables hold pages; for more it says how many it tells."""
    part = open_bundle(INCIDENTS / "retract-and-grant").part()
    view = open_view(open_bundle(INCIDENTS / "retract-and-grant"))
    assert isinstance(view, PartView) and isinstance(view.pages, LargePages)
    build_index(part)
    told = view.pages.group_pool(0, 100, 163, 64)
    assert told.active_parents == open_view(open_bundle(INCIDENTS / "retract-and-grant")).active_history(100, 163, 64)  # type: ignore[attr-defined]
    refused = view.pages.group_pool(0, 100, 164, 65)
    assert refused.active_parents == () and "at most 64 rounds" in refused.words
