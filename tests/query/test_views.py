"""Each shipped relation against numbers worked out by hand on the tiny trace (see `tiny.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tsviz.query.catalog import PLACE, Catalog
from tsviz.query.locked import Locked
from tsviz.query.views import SHIPPED, rounds_asked

from .fakes import FakeBundle, FakePart, table

Rows = Callable[[str], list[tuple[Any, ...]]]


def test_requests_times(ask_rows: Rows) -> None:
    """A request's times run from arrival (its submit call where unknown) over its first plan to its landings."""
    assert ask_rows(
        "SELECT request, submit_round, first_round, end_round, ended_by, queue_ns, ttft_ns, tpot_ns, end_ns"
        " FROM requests ORDER BY submission"
    ) == [
        # a: submitted 100, plan 1 at 1000; landings 2900, 3900, 4900: (4900 - 2900) / 2
        ("a", 1, 1, 5, "finish", 900, 2800, 1000.0, 4900),
        # b: plan 2 at 2000; landings 2900, 3900, 5900, 6900: (6900 - 2900) / 3
        ("b", 1, 2, 7, "finish", 1900, 2800, pytest.approx(4000 / 3), 6900),
        # c: arrived 3000, plan 5 at 5000, one landing at 5900
        ("c", 4, 5, 7, "abort", 2000, 2900, None, 6900),
        ("d", 4, None, None, None, None, None, None, None),
    ]


def test_requests_tokens(ask_rows: Rows) -> None:
    """A request's tokens, hits and restarts are counted; what never ran has zeros and no hit."""
    assert ask_rows(
        "SELECT accepted, prompt_tokens, generated_tokens, hit_tokens, retractions, recomputed_tokens"
        " FROM requests ORDER BY submission"
    ) == [(True, 8, 3, 0, 0, 0), (True, 4, 4, 0, 1, 3), (True, 4, 1, 2, 0, 0), (False, 99, 0, None, 0, 0)]


def test_prefill_steps(ask_rows: Rows) -> None:
    """A prefill row computes [begin + replay, begin + input); b's second start computes 2, 3 and 4 again."""
    assert ask_rows(
        "SELECT round, request, start_tokens, end_tokens, complete, first, restart, recomputed_tokens"
        ' FROM prefill_steps ORDER BY round, "row"'
    ) == [
        (1, "a", 0, 6, False, True, False, 0),
        (2, "a", 6, 8, True, False, False, 0),
        (2, "b", 0, 4, True, True, False, 0),
        (5, "b", 2, 6, True, False, True, 3),
        (5, "c", 2, 4, True, True, False, 0),
    ]


def test_restarts(ask_rows: Rows) -> None:
    """A restart is placed between the last row before and the first after, at the round that retracted."""
    assert ask_rows("SELECT * EXCLUDE (trace, node, rank) FROM restarts") == [(1, "b", 3, 4, 5, "capacity", 2, 3)]


def _only(operations: list[dict[str, Any]], **tables: list[dict[str, Any]]) -> Locked:
    defaults = {"request": "x", "kind": "prefill", "slot": 1, "input_tokens": 1}
    data = {"operations": table("operations", [defaults | row for row in operations])}
    data |= {name: table(name, rows) for name, rows in tables.items()}
    return Locked(Catalog([FakeBundle("t", [FakePart(data)])]))


def _step(round_: int, begin: int, fed: int, of: int, slot: int = 1) -> dict[str, Any]:
    return {"round": round_, "begin_tokens": begin, "input_tokens": fed, "prefill_tokens": of, "slot": slot}


def test_what_was_computed_is_remembered_over_two_restarts() -> None:
    """With 20 tokens 19 are computed at the retraction; a second restart counts against these, not the last chunk."""
    locked = _only([_step(1, 0, 8, 16), _step(2, 8, 8, 16), _step(9, 4, 6, 20), _step(12, 4, 16, 20)])
    rows = locked.query("SELECT round, restart, recomputed_tokens FROM prefill_steps ORDER BY round")[0].to_pylist()
    # round 9: [4,10) all below 19; round 12: [4,20) of which [4,19)
    assert [tuple(r.values()) for r in rows] == [(1, False, 0), (2, False, 0), (9, True, 6), (12, True, 15)]


def test_a_chunk_in_another_slot_starts_over() -> None:
    """A chunk that goes on at the same position in another slot is a restart that recomputes nothing."""
    locked = _only([_step(1, 0, 8, 16), _step(5, 8, 8, 16, slot=2)])
    rows = locked.query("SELECT restart, recomputed_tokens FROM prefill_steps ORDER BY round")[0].to_pylist()
    assert [tuple(r.values()) for r in rows] == [(False, 0), (True, 0)]


def test_who_lost_its_pages_and_is_still_away_has_not_started_over() -> None:
    """Retracted in rounds 3 and 6 and back in round 5 alone: one start over, two losses of its pages."""
    turns = [{"round": r, "victim": "x", "outcome": "retracted"} for r in (3, 6)]
    submitted = [{"request": "x", "round": 1, "accepted": True}]
    locked = _only([_step(1, 0, 8, 8), _step(5, 0, 9, 9)], submissions=submitted, retractions=turns)
    asked = "SELECT retractions, (SELECT count(*) FROM retractions WHERE victim = 'x') AS lost FROM requests"
    assert locked.query(asked)[0].to_pylist() == [{"retractions": 1, "lost": 2}]


def test_a_restart_that_the_runtime_asked_for() -> None:
    """A Retract event between two rows is the cause of the restart and its round is known."""
    events = [{"round": 3, "kind": "retract", "request": "x", "submission": 0}]
    locked = _only([_step(1, 0, 8, 8), _step(4, 0, 9, 9)], events=events)
    rows = locked.query("SELECT last_row_round, retracted_from_round, restart_round, cause FROM restarts")[0]
    assert [tuple(r.values()) for r in rows.to_pylist()] == [(1, 3, 4, "event")]


@pytest.mark.parametrize(
    ("at_round", "expected"),
    [
        (1, [("b", "new", 1, 1, 2)]),
        (2, []),
        (3, []),
        (4, [("b", "retracted", 4, 1, 5), ("c", "new", 4, 1, 5)]),
        (5, []),
    ],
)
def test_waiting(ask_rows: Rows, at_round: int, expected: list[tuple[Any, ...]]) -> None:
    """Behind a plan wait those without a row yet and those retracted that start over later; never the refused."""
    sql = f"SELECT request, state, since_round, waited_rounds, next_row_round FROM waiting({at_round})"
    assert ask_rows(sql) == expected


def test_waiting_agrees_with_the_scheduler(ask_rows: Rows) -> None:
    """On the tiny trace the rows of waiting(r) are as many as the scheduler counted."""
    counted = ask_rows("SELECT round, waiting_requests FROM rounds ORDER BY round")
    assert counted == [(r, len(ask_rows(f"FROM waiting({r})"))) for r in range(1, 7)]


def test_latencies(ask_rows: Rows) -> None:
    """ttft is over 2800, 2800, 2900; tpot over 1000 and 4000/3."""
    assert ask_rows("SELECT requests, mean_ns, p50_ns, p90_ns, p99_ns, max_ns FROM ttft") == [
        (3, pytest.approx(8500 / 3), 2800, 2900, 2900, 2900)
    ]
    assert ask_rows("SELECT requests, mean_ns, max_ns FROM tpot") == [
        (2, pytest.approx(7000 / 6), pytest.approx(4000 / 3))
    ]


def test_hit_rate(ask_rows: Rows) -> None:
    """2 of 8 + 4 + 4 prompt tokens were hit, one of them fed again."""
    assert ask_rows("SELECT * EXCLUDE (trace, node, rank) FROM hit_rate") == [(3, 16, 2, 1, 2 / 16, 1 / 16)]


def test_recompute_tax(ask_rows: Rows) -> None:
    """Prefill rows computed 6 + 2 + 4 + 4 + 2 = 18 positions, 3 of them for the second time."""
    assert ask_rows("SELECT * EXCLUDE (trace, node, rank) FROM recompute_tax") == [
        (1, 1, 18, 3, 1, pytest.approx(3 / 18))
    ]


def test_budget_use(ask_rows: Rows) -> None:
    """A round's forward rows are chunks, replay and decodes; the share is of the budget, or of the largest round."""
    columns = "round, chunk_tokens, replay_tokens, decode_tokens, scheduled_tokens, share"
    assert ask_rows(f"SELECT {columns} FROM budget_use(budget_tokens := 8)") == [
        (1, 6, 0, 0, 6, 6 / 8),
        (2, 6, 0, 0, 6, 6 / 8),
        (3, 0, 0, 2, 2, 2 / 8),
        (4, 0, 0, 1, 1, 1 / 8),
        (5, 6, 1, 0, 7, 7 / 8),
        (6, 0, 0, 2, 2, 2 / 8),
    ]
    assert ask_rows("SELECT share FROM budget_use() WHERE round = 3") == [(2 / 7,)]


def test_retraction_rounds(ask_rows: Rows) -> None:
    """Round 4 retracted one request, and b is the one that starts over behind it."""
    assert ask_rows(
        "SELECT round, start_ns, retracted_requests, waiting_requests, empty_pages, possible_victims"
        " FROM retraction_rounds"
    ) == [(4, 4000, 1, 2, 5, ["b"])]


def test_hol_holds(ask_rows: Rows) -> None:
    """Only in round 1 is the last prefill row incomplete while someone waits: a needs 2 more, b waits."""
    assert ask_rows(
        "SELECT round, request, start_tokens, end_tokens, left_tokens, waiting_requests FROM hol_holds"
    ) == [(1, "a", 0, 6, 2, 1)]


@pytest.mark.parametrize(
    ("request_id", "at_round", "expected"),
    [
        ("a", 3, [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 2), (4, 8, 3)]),
        ("a", 4, [(0, 0, 4), (1, 2, 1), (2, 3, 1), (3, 4, 2), (4, 8, 3)]),  # slot 0 became a hole
        ("a", 5, []),  # ended in front of round 5
        ("b", 4, [(0, 5, 2), (1, 6, 2), (2, 9, 3)]),
        ("b", 6, [(0, 5, 5), (1, 7, 5), (2, 10, 5)]),  # started anew in round 5
        ("nobody", 6, []),
    ],
)
def test_block_table(ask_rows: Rows, request_id: str, at_round: int, expected: list[tuple[int, int, int]]) -> None:
    """A block table is the latest write of every slot since it last started anew, up to its length."""
    assert ask_rows(f"SELECT slot, page, since_round FROM block_table('{request_id}', {at_round})") == expected


def test_block_table_that_shrank() -> None:
    """Slots at or behind the length of the latest change are no longer part of the table."""
    change = {"group": "g", "request": "x"}
    changes = [
        {**change, "round": 1, "fresh": True, "pages": [4, 5, 6], "length_slots": 3},
        {**change, "round": 2, "pages": [7], "length_slots": 2},
    ]
    locked = _only([], table_changes=changes)
    assert locked.query("SELECT slot, page FROM block_table('x', 2)")[0].to_pylist() == [
        {"slot": 0, "page": 7},
        {"slot": 1, "page": 5},
    ]


def test_page_life(ask_rows: Rows) -> None:
    """Page 6 goes from b, whose new table leaves it, to c; page 1 ends as a hole of a."""
    assert ask_rows("SELECT round, what, request, slot FROM page_life('full', 6)") == [
        (2, "taken", None, None),
        (2, "placed", "b", 1),
        (5, "replaced", "b", 1),
        (5, "placed", "c", 1),
        (7, "owner_ended", "b", None),
        (7, "owner_ended", "c", None),
    ]
    assert ask_rows("SELECT round, what, request, slot FROM page_life('full', 1)") == [
        (1, "taken", None, None),
        (1, "placed", "a", 0),
        (4, "replaced", "a", 0),
        (5, "owner_ended", "a", None),
    ]
    assert ask_rows("FROM page_life('other', 1)") == []


def test_pool_timeline(ask_rows: Rows) -> None:
    """A round's pool row counts the pages that it took, stored and loaded."""
    assert ask_rows(
        "SELECT round, empty_pages, taken_pages, stored_pages, loaded_pages, retracted_requests FROM pool_timeline"
    ) == [(1, 8, 3, 0, 0, 0), (2, 5, 3, 0, 0, 0), (3, 3, 2, 0, 0, 0), (4, 5, 0, 2, 0, 1), (5, 5, 2, 0, 1, 0),
          (6, 5, 0, 0, 0, 0)]  # fmt: skip


def test_transfers_open(ask_rows: Rows) -> None:
    """Op 0 is open from round 4 until round 6 acknowledges it; op 1 never is acknowledged."""
    columns = "op_id, kind, open_rounds, pages, source_pinned, storage_pages, acknowledged_round"
    assert ask_rows(f"SELECT {columns} FROM transfers_open(5)") == [
        (0, "write_back", 1, 2, False, 0, 6),
        (1, "load_back", 0, 1, None, 1, None),
    ]
    assert ask_rows(f"SELECT {columns} FROM transfers_open(6)") == [(1, "load_back", 1, 1, None, 1, None)]
    assert ask_rows(f"SELECT {columns} FROM transfers_open()") == [(1, "load_back", 1, 1, None, 1, None)]


@pytest.mark.parametrize("relation", SHIPPED, ids=lambda r: r.name)
def test_columns_and_examples(relation: Any, ask_rows: Rows) -> None:
    """Every shipped relation has the documented columns in that order, and its example runs."""
    call = relation.name
    if relation.parameters is not None:
        call += f"({', '.join('NULL' for p in relation.parameters if ':=' not in p)})"
    assert [row[0] for row in ask_rows(f"DESCRIBE FROM {call}")] == [*PLACE, *(name for name, _ in relation.columns)]
    ask_rows(relation.example)


def test_a_round_that_is_asked_stands_as_a_number_at_its_place() -> None:
    """A round that is worked out, in another place, or in a text is not one; a macro's name has no case."""
    sql = "FROM Waiting(5) JOIN block_table('waiting(7)', 9) b ON true, waiting(2 + 3), (SELECT 'waiting(8)')"
    assert rounds_asked(sql) == [("waiting", 5), ("block_table", 9)]
    assert rounds_asked("SELECT waiting, 99 FROM requests") == []
