"""Relations over a slice: what the rounds before it decide is null, and nobody who ran before it is new."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Locked
from tsviz.replay.reexecution.index import build_index, open_indexed
from tsviz.replay.slice import write_slice
from tsviz.trace.reader import open_bundle

from .conftest import TRACES

FIRST, LAST = 90, 200
Ask = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Rounds 90 to 200 of the incident of retractions: r6 is out at its start, the five others decode."""
    out = tmp_path_factory.mktemp("slice") / "sl"
    whole = open_bundle(TRACES / "retract-and-grant")
    write_slice(whole, whole.parts[0], FIRST, LAST, out)
    locked = Locked(Catalog([open_bundle(Path(out))]))

    def rows(sql: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = locked.query(sql)[0].to_pylist()
        return found

    return rows


def test_all_six_lived_before_the_slice_and_one_held_no_pages(ask: Ask) -> None:
    """The last rows of five are in round 89; r6, retracted in round 84, has none, and 77 tokens of it had landed."""
    rows = ask("SELECT request, last_row_round, landed_tokens, state FROM carried ORDER BY request")
    assert [row["last_row_round"] for row in rows] == [89] * 5 + [None]
    assert rows[-1] == {"request": "r6", "last_row_round": None, "landed_tokens": 77, "state": "retracted"}
    assert {row["state"] for row in rows[:5]} == {"decoding"}


def test_what_rounds_before_the_slice_decide_is_null(ask: Ask) -> None:
    """First row, queue, first token, hit, retractions and recomputed tokens of all six."""
    names = "first_round, first_scheduled_ns, queue_ns, ttft_ns, hit_tokens, retractions, recomputed_tokens"
    assert {tuple(row.values()) for row in ask(f"SELECT {names} FROM requests")} == {(None,) * 7}


@pytest.mark.parametrize(("round_", "waiting"), [(50, []), (95, [("r6", "retracted", None, 101)])])
def test_who_decodes_does_not_wait(ask: Ask, round_: int, waiting: list[object]) -> None:
    """In round 95 r6 alone waits, and is not new; rounds before the slice have nobody."""
    rows = ask(f"SELECT request, state, since_round, next_row_round FROM waiting({round_})")
    assert [tuple(row.values()) for row in rows] == waiting


def test_who_is_retracted_inside_the_slice_waits_from_then_on(ask: Ask) -> None:
    """r1 and r3 are retracted in round 101 and come back inside: in round 110 slice and whole trace say the same."""
    back = {row["request"] for row in ask("FROM restarts")}
    whole = Locked(Catalog([open_bundle(TRACES / "retract-and-grant")]))
    sql = "SELECT request, since_round FROM waiting(110) WHERE since_round >= 90 ORDER BY request"
    told = [row for row in whole.query(sql)[0].to_pylist() if row["request"] in back]
    whole.close()
    assert [tuple(row.values()) for row in told] == [("r1", 101), ("r3", 101)]
    assert ask(sql) == told


def test_who_does_not_come_back_inside_a_slice_waits_where_decisions_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """r1 and r3, retracted in round 101, return in 164 and 196: rounds 90 to 105 tell of them with their index only."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    whole, out = open_bundle(TRACES / "retract-and-grant"), tmp_path / "sl"
    write_slice(whole, whole.parts[0], 90, 105, out)
    cut = open_bundle(out)
    build_index(cut.parts[0])
    sql = "SELECT request, since_round, waited_rounds, next_row_round FROM waiting(104) ORDER BY request"
    told = []
    for bundle in (cut, open_indexed(out)):
        locked = Locked(Catalog([bundle]))
        told.append([tuple(row.values()) for row in locked.query(sql)[0].to_pylist()])
        locked.close()
    assert told == [[], [("r1", 101, 4, None), ("r3", 101, 4, None)]]


def test_who_comes_back_inside_a_slice_waits_without_decisions_too(tmp_path: Path) -> None:
    """r5, with its last row in round 180, comes back in 267: it can have been away from 212 on."""
    whole, out = open_bundle(TRACES / "retract-and-grant"), tmp_path / "sl"
    write_slice(whole, whole.parts[0], 209, 270, out)
    locked = Locked(Catalog([open_bundle(out)]))
    rows = locked.query("SELECT request, since_round, next_row_round FROM waiting(214) ORDER BY request")[0].to_pylist()
    beyond = locked.query("FROM waiting(271)")[0].num_rows
    locked.close()
    assert [tuple(row.values()) for row in rows] == [("r3", 212, 249), ("r5", 212, 267)]
    assert beyond == 0  # the last round is 270


def test_a_run_that_a_slice_cuts_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In rounds 200 to 230 r1 lacks pages since 66, new-1 is sealed since 195, and new-2 comes in round 203."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    whole, out = open_bundle(TRACES / "readmission-seals"), tmp_path / "sl"
    write_slice(whole, whole.parts[0], 200, 230, out)
    build_index(open_bundle(out).parts[0])
    locked = Locked(Catalog([open_indexed(out)]))
    sql = "SELECT request, since_round, since_before FROM verdict_runs WHERE until_round = 230 ORDER BY submission"
    rows = [tuple(row.values()) for row in locked.query(sql)[0].to_pylist()]
    locked.close()
    assert rows[0] == ("r1", 200, True) and ("new-1", 200, True) in rows and ("new-2", 203, False) in rows


def test_who_is_retracted_with_its_last_row_before_the_slice_is_told_when_it_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """r5, whose last row is in round 180, holds pages at 209, loses them in 212 and has its next row in 267."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    whole, out = open_bundle(TRACES / "retract-and-grant"), tmp_path / "sl"
    write_slice(whole, whole.parts[0], 209, 270, out)
    build_index(open_bundle(out).parts[0])
    locked = Locked(Catalog([open_indexed(out)]))
    sql = "SELECT request, state, since_round, next_row_round FROM waiting(214) WHERE request = 'r5'"
    told = locked.query(sql)[0].to_pylist()
    rows = locked.query("SELECT round FROM operations WHERE request = 'r5' ORDER BY round LIMIT 2")[0].to_pylist()
    locked.close()
    assert [row["round"] for row in rows] == [180, 267]
    assert [tuple(row.values()) for row in told] == [("r5", "retracted", 212, 267)]


def test_a_prefill_of_who_ran_before_starts_over(ask: Ask) -> None:
    """r6 starts over in round 101; what it computes again is not known, and so the tax is not."""
    (row,) = ask("SELECT first, restart, recomputed_tokens FROM prefill_steps WHERE request = 'r6' AND round = 101")
    assert tuple(row.values()) == (False, True, None)
    (tax,) = ask("SELECT recomputed_tokens, tax FROM recompute_tax")
    assert tuple(tax.values()) == (None, None)
    told = ask("FROM request_timeline('r6') WHERE what = 'restart'")
    assert told[0]["says"] == "starts over at 0"


def test_a_trace_from_its_first_round_carries_nobody(shipped: Callable[[str], Locked]) -> None:
    """All its requests were submitted in recorded rounds."""
    assert shipped("retract-and-grant").query("FROM carried")[0].num_rows == 0
