"""The shipped incidents: each opens, verifies on both schedulers, and shows what its story says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tsviz.adapters.tokenspeed import PackageMissing, load_real
from tsviz.replay.recorded.snapshot import Snapshot
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.view import open_view
from tsviz.scheduler import compat
from tsviz.trace.reader import Bundle, open_bundle

TRACES = Path(__file__).resolve().parents[2] / "traces"
CATALOGUE: dict[str, dict[str, Any]] = json.loads((TRACES / "incidents.json").read_text())


def bundle(name: str) -> Bundle:
    """A shipped incident."""
    return open_bundle(TRACES / name)


def at(name: str, round_: int, node: str | None = None) -> Snapshot:
    """A shipped incident at a round."""
    return open_view(bundle(name), node).snapshot(round_)


def rows(name: str, table: str, node: str | None = None) -> list[dict[str, Any]]:
    """The rows of a table of a shipped incident."""
    found: list[dict[str, Any]] = bundle(name).part(node).table(table).to_pylist()
    return found


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_incident_is_complete(name: str) -> None:
    """An incident was closed, holds the round and the request that its catalogue entry points to, and no path."""
    entry, found = CATALOGUE[name], bundle(name)
    view = open_view(found, entry.get("node"), entry.get("rank"))
    assert found.end is not None
    assert 1 <= entry["round"] <= view.head.rounds
    if entry["request"] is not None:
        assert any(r.request == entry["request"] for r in view.snapshot(entry["round"]).requests)
    assert found.meta["command"][0] == "tsviz"
    assert not any(word.startswith("/") for word in found.meta["command"])


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_incident_verifies_with_the_twin(name: str) -> None:
    """The twin makes every recorded plan."""
    for part in bundle(name).parts:
        assert verify(part, compat).complete


@pytest.mark.oracle
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_incident_verifies_with_the_real_scheduler(name: str) -> None:
    """A fresh real scheduler makes every recorded plan."""
    try:
        real = load_real()
    except PackageMissing as error:
        pytest.skip(str(error))
    for part in bundle(name).parts:
        assert verify(part, real).complete


def test_the_live_lock_computes_nothing_new() -> None:
    """From round 2,522 on no prefill row reaches further than its request had been and nothing finishes, while rows
    are scheduled and requests retracted."""
    name = "mixed-undeclared-livelock"
    reached: dict[int, int] = {}
    last_rise = 0
    scheduled = 0
    for row in rows(name, "operations"):
        scheduled += row["round"] > 2522
        end = (row["begin_tokens"] or 0) + row["input_tokens"]
        if row["kind"] == "prefill" and end > reached.get(row["submission"], 0):
            reached[row["submission"]], last_rise = end, row["round"]
    finishes = [row["round"] for row in rows(name, "events") if row["kind"] == "finish"]
    retracted = sum(row["retracted_requests"] for row in rows(name, "rounds") if row["round"] > 2522)
    assert last_rise < 2522
    assert max(finishes) < 2522
    assert scheduled > 150
    assert retracted > 80


def test_the_long_prompt_holds_the_line() -> None:
    """While the report is prefilled, chunk by chunk of 2,048, no chat has a row although pages are empty."""
    for number in range(6, 12):
        snapshot = at("head-of-line", number)
        (row,) = snapshot.rows
        assert (row.request, row.input_tokens, row.completes) == ("report", 2048, False)
        assert snapshot.pool.empty_pages > 500
        assert snapshot.counts["waiting"] >= 2


def test_two_victims_for_one_grant() -> None:
    """In round 101 two requests lose their pages and the prompt of r6 is admitted whole."""
    snapshot = at("retract-and-grant", 101)
    (row,) = snapshot.rows
    assert snapshot.retracted == 2
    assert (row.request, row.begin_tokens, row.completes) == ("r6", 0, True)
    assert {r.request for r in snapshot.requests if r.state == "retracted"} == {"r1", "r3"}


def test_a_readmission_seals_the_door() -> None:
    """While r1 waits for readmission, requests that came after it wait too, and only r2 is scheduled."""
    snapshot = at("readmission-seals", 200)
    states = {r.request: r.state for r in snapshot.requests}
    assert states["r1"] == "retracted"
    assert [r.request for r in snapshot.rows] == ["r2"]
    assert sum(state == "waiting" for state in states.values()) >= 1


def test_the_mixed_stall_never_plans_again() -> None:
    """Both requests stay where they are and every later plan is empty; the run says that it stalled."""
    end = bundle("mixed-stall").end
    assert end is not None
    assert end["parts"]["F/0"]["reason"] == "stalled"
    sizes = [row["prefill_rows"] + row["decode_rows"] for row in rows("mixed-stall", "rounds")]
    assert sizes == [1] + [0] * (len(sizes) - 1)


def test_a_hit_feeds_a_window_again() -> None:
    """The second request hits 688 tokens (43 pages of 16); its first row starts 64 tokens earlier, all replay."""
    first = next(r for r in rows("bounded-replay", "operations") if r["request"] == "second")
    assert (first["begin_tokens"], first["replay_tokens"]) == (688 - 64, 64)
    assert first["input_tokens"] == 790 - 688 + 64


def test_headroom_escalates_until_nothing_is_left_to_exempt() -> None:
    """First admissions hold 4,096 tokens behind the prompt (8,192 after a retraction, or all that is left if less)."""
    name, block = "escalating-headroom", 64
    tables = [row for row in rows(name, "table_changes") if row["fresh"]]
    prefills = {(r["submission"], r["round"]): r["prefill_tokens"] for r in rows(name, "operations")}
    seen: dict[int, int] = {}
    headrooms: dict[int, list[int]] = {0: [], 1: []}
    for row in tables:
        retractions = seen.get(row["submission"], 0)
        seen[row["submission"]] = retractions + 1
        headrooms[retractions].append(row["length_slots"] * block - prefills[row["submission"], row["round"]])
    assert len(headrooms[0]) == 8
    assert all(4096 <= headroom < 4096 + block for headroom in headrooms[0])
    assert len(headrooms[1]) == 4
    assert sum(headroom > 4096 + block for headroom in headrooms[1]) == 3


def test_both_sides_give_back_what_a_failed_transfer_held() -> None:
    """q4 fails on P and on D, everything else finishes, and at the end no request is left on either side."""
    for node in ("P", "D"):
        failed = [row["request"] for row in rows("prefill-decode-pair", "events", node) if row["kind"] == "failed"]
        last = rows("prefill-decode-pair", "rounds", node)[-1]
        assert failed == ["q4"]
        assert last["prefilling_requests"] + last["decoding_requests"] + last["waiting_requests"] == 0
