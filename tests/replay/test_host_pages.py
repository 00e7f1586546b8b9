"""The host pages against the scheduler itself: its calls are made again, and every page is looked up in the twin."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.replay.test_pages_map import INCIDENTS, rounds_of
from tests.trace.lives import ROLES
from tests.trace.lives import record as record_life
from tsviz.replay.live.pages import tier_of
from tsviz.replay.pages import values as v
from tsviz.replay.pages.large import LargePages
from tsviz.replay.pages.live import with_live
from tsviz.replay.pages.values import PagesMap
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.view import PartView, open_view
from tsviz.scheduler.scheduler import Scheduler
from tsviz.trace.reader import open_bundle

SMALL = "readmission-seals"
"""An incident with a host pool of 128 pages, of which 38 stores and loads fill and read some."""


def pages_of(path: Path, node: str | None = None, *, decided: bool) -> Any:
    """Return the pages of a part as a view opens them, with decisions or without."""
    part = open_bundle(path).part(node)
    if decided and part.level == "plans":
        build_index(part)
    view = open_view(open_bundle(path), node)
    assert isinstance(view, PartView)
    return view.pages


def denied(pages: PagesMap, scheduler: Scheduler) -> tuple[list[str], Counter[str]]:
    """Return what a map says of host pages that the twin denies, and how many pages are what."""
    tier, wrong, counts = scheduler.cache.host, list[str](), Counter[str]()
    assert tier is not None
    for group, codes in enumerate(pages.codes):
        packing = pages.groups[group].packing
        for page in range(1, len(codes)):
            parent = (page - 1) // packing + 1
            bound = parent < len(tier.owner) and tier.occupied[parent] and tier.owner[parent] == group
            references = tier.refs[group][page] if bound else 0
            cached = bool(references) and tier.entries[group][page] is not None
            code, operations = codes[page], len(pages.tickets.get((group, page), ()))
            sound = {
                v.UNKNOWN: references == cached, v.FREED: references <= 1, v.EMPTY: references == 0,
                v.CACHED: cached and references == 1,
            }.get(code, references - cached == operations)  # fmt: skip
            if not sound:
                found = f"{references} references, cached {cached}"
                wrong.append(f"round {pages.round} group {group} page {page}: {v.CODES[code]}, but {found}")
            counts[v.CODES[code]] += 1
    return wrong, counts


def against(path: Path, twin: Any, node: str | None = None, *, decided: bool) -> tuple[list[str], Counter[str]]:
    """Compare the host pages of every round of a part with the twin."""
    host = pages_of(path, node, decided=decided).host
    wrong, counts = list[str](), Counter[str]()
    for round_, scheduler in rounds_of(open_bundle(path).part(node), twin):
        more, these = denied(host.at(round_), scheduler)
        wrong, counts = wrong + more, counts + these
    return wrong, counts


def test_with_decisions_every_host_page_is_what_the_twin_says(twin: Any) -> None:
    """Filled, kept, read and evicted pages in every round of an incident; none is left unknown."""
    wrong, counts = against(INCIDENTS / SMALL, twin, decided=True)
    assert wrong == []
    assert counts["unknown"] == 0
    assert min(counts[name] for name in ("loading", "cached", "pinned")) > 0


@pytest.mark.usefixtures("stretches")
@pytest.mark.parametrize("decided", [True, False])
def test_a_stretch_of_a_large_part_is_never_wrong_about_host_pages(decided: bool, twin: Any) -> None:
    """What a stretch says of them is true, with decisions and without; what was kept before it is left open."""
    assert isinstance(pages_of(INCIDENTS / SMALL, decided=decided), LargePages)
    wrong, counts = against(INCIDENTS / SMALL, twin, decided=decided)
    assert wrong == []
    assert counts["unknown"] > 0


@pytest.mark.parametrize("role", ROLES)
def test_random_lives_are_never_told_wrong(real: ModuleType, twin: Any, tmp_path: Path, role: str) -> None:
    """Clears, aborts, failed loads, storage: what is said of a host page, with decisions, is true."""
    for seed in range(301, 304):
        record_life(real, tmp_path / str(seed), seed, role=role)
        if pages_of(tmp_path / str(seed), decided=True).host is not None:
            assert against(tmp_path / str(seed), twin, decided=True)[0][:5] == [], f"seed {seed}"


@pytest.mark.parametrize("tokens", ["full", "identity"])
def test_a_copy_of_what_was_there_already_is_not_kept(real: ModuleType, twin: Any, tmp_path: Path, tokens: str) -> None:
    """Load 0 fetches a page from storage into the host page 2, and store 1 copies it to host page 4 before it lands.

    Both are acknowledged in front of round 9: with hashes it is known which of them the host keeps, and without a page
    of another such pair is left open; in no round a page is said to be what the twin denies.
    """

    def storage(config: Any) -> None:
        config.num_host_pages, config.enable_l3_storage, config.enable_kv_cache_events = 40, True, False

    record_life(real, tmp_path / "life", 603, role="Fused", tokens=tokens, steps=200, tune=storage)
    pairs = open_bundle(tmp_path / "life").part().table("transfers").to_pylist()
    loaded, stored = ([r for r in pairs if r["op_id"] == op and r["group_index"] == 1] for op in (0, 1))
    assert loaded[0]["from_storage"] and loaded[0]["src_page"] == 2
    assert any(r["dst_page"] == 4 and r["src_page"] == loaded[0]["dst_page"] for r in stored)
    wrong, counts = against(tmp_path / "life", twin, decided=True)
    assert wrong == [] and counts["cached"] > 0
    assert (counts["unknown"] == 0) == (tokens == "full")


def test_live_state_settles_host_pages(twin: Any) -> None:
    """Laid over a map without decisions the host index of the twin leaves no page unknown, and says what it counts."""
    host = pages_of(INCIDENTS / "smollm2-live", decided=False).host
    seen = 0
    for round_, scheduler in rounds_of(open_bundle(INCIDENTS / "smollm2-live").part(), twin):
        snapshot = scheduler.snapshot()
        assert snapshot.host is not None
        found = with_live(host.at(round_), tier_of("host", snapshot.host, snapshot.config, [], []))
        wrong, counts = denied(found, scheduler)
        assert wrong == [] and counts["unknown"] == 0
        seen += counts["cached"]
    assert seen > 0


def test_a_host_page_lives_as_the_incident_tells() -> None:
    """The first store of the incident, its acknowledgement, and the load that reads the page again, by their rows."""
    part = open_bundle(INCIDENTS / SMALL).part()
    transfers, events = part.table("transfers").to_pylist(), part.table("events").to_pylist()
    back = next(row for row in transfers if row["kind"] == "load_back")
    page = back["src_page"]
    store = next(row for row in reversed(transfers) if row["kind"] == "write_back" and row["dst_page"] == page
                 and row["round"] < back["round"])  # fmt: skip
    answered = {row["op_id"]: row["round"] for row in events if row["op_id"] is not None}
    pages = pages_of(INCIDENTS / SMALL, decided=True)
    life = pages.host.life(0, page, 1)
    told = [(event.round, event.what) for event in life.events]
    expected = [(store["round"], "loading"), (answered[store["op_id"]], "acknowledged"), (back["round"], "pinned"),
                (answered[back["op_id"]], "acknowledged")]  # fmt: skip
    assert [each for each in told if each in expected] == expected
    shown = pages.host.at(back["round"])
    assert shown.codes[0][page] == v.PINNED and shown.tickets[0, page] == (back["op_id"],)
    request = shown.names[shown.owners[0][page]]
    assert request in {row["request"] for row in part.table("submissions").to_pylist()}
    assert page in pages.host.held(shown.owners[0][page], back["round"])[0]
    with pytest.raises(KeyError, match="no host page 129 in group 0"):
        pages.host.life(0, 129, 1)
