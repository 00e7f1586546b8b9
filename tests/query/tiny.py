"""A trace of six rounds, made by hand; its numbers are worked out in the comments.

Prefix page 2, one group `full`. a (8 tokens) prefills in two chunks, b (4) waits behind the first; both decode; b is
retracted by round 4 and starts over in round 5, where c (4, hit of 2 with 1 replayed) comes in; d was refused.

    round 1   a [0,6) of 8                        b waits: head of line
    round 2   a [6,8) of 8, b [0,4) of 4
    round 3   a, b decode                         first token of both landed at 2,900
    round 4   a decodes                           b retracted with 4 + 2 tokens, 5 of them computed
    round 5   b [2,6) of 6, c [2,4) of 4          a finished in front of it
    round 6   b, c decode
    (7)       b finished, c aborted               no plan was asked for
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .fakes import table

A, B, C, D = ({"request": r, "submission": n} for n, r in enumerate("abcd"))


def _call(seq: int, round_: int, kind: str, time_ns: int) -> dict[str, Any]:
    return {"seq": seq, "round": round_, "kind": kind, "time_ns": time_ns, "outcome": "ok"}


CALLS = [
    _call(0, 1, "submit", 100),
    _call(1, 1, "plan", 1000),
    _call(2, 2, "plan", 2000),
    _call(3, 3, "advance", 2900),
    _call(4, 3, "plan", 3000),
    _call(5, 4, "advance", 3900),
    _call(6, 4, "submit", 3950),
    _call(7, 4, "plan", 4000),
    _call(8, 5, "advance", 4900),
    _call(9, 5, "plan", 5000),
    _call(10, 6, "advance", 5900),
    _call(11, 6, "plan", 6000),
    _call(12, 7, "advance", 6900),
]

SUBMISSIONS = [
    {"call_seq": 0, "round": 1, **A, "prompt_tokens": 8, "max_new_tokens": 3, "accepted": True},
    {"call_seq": 0, "round": 1, **B, "prompt_tokens": 4, "max_new_tokens": 4, "accepted": True},
    {"call_seq": 6, "round": 4, **C, "prompt_tokens": 4, "accepted": True, "arrival_ns": 3000},
    {"call_seq": 6, "round": 4, **D, "prompt_tokens": 99, "accepted": False},
]


def _landed(seq: int, round_: int, who: dict[str, Any]) -> dict[str, Any]:
    return {"call_seq": seq, "round": round_, "kind": "extend_result", **who, "token_count": 1}


EVENTS = [
    _landed(3, 3, A),
    _landed(3, 3, B),
    _landed(5, 4, A),
    _landed(5, 4, B),
    _landed(8, 5, A),
    {"call_seq": 8, "round": 5, "kind": "finish", **A},
    _landed(10, 6, B),
    _landed(10, 6, C),
    {"call_seq": 10, "round": 6, "kind": "write_back_done", "submission": -1, "op_id": 0},
    _landed(12, 7, B),
    {"call_seq": 12, "round": 7, "kind": "finish", **B},
    {"call_seq": 12, "round": 7, "kind": "abort", **C},
]


def _round(
    number: int, prefill: int, decode: int, tokens: int, waiting: int, empty: int, **more: int
) -> dict[str, Any]:
    return {
        "round": number,
        "start_ns": 1000 * number,
        "prefill_rows": prefill,
        "decode_rows": decode,
        "scheduled_tokens": tokens,
        "waiting_requests": waiting,
        "empty_pages": empty,
        "digest_structural": 2**64 - number,
        **more,
    }


ROUNDS = [
    _round(1, 1, 0, 6, 1, 8),
    _round(2, 2, 0, 6, 0, 5),
    _round(3, 0, 2, 2, 0, 3),
    _round(4, 0, 1, 1, 2, 5, retracted_requests=1),
    _round(5, 2, 0, 7, 0, 5),
    _round(6, 0, 2, 2, 0, 5),
]


def _prefill(
    round_: int, row: int, who: dict[str, Any], slot: int, begin: int, fed: int, of: int, replay: int = 0
) -> dict[str, Any]:
    return {
        "round": round_,
        "row": row,
        "kind": "prefill",
        **who,
        "slot": slot,
        "begin_tokens": begin,
        "input_tokens": fed,
        "replay_tokens": replay,
        "prefill_tokens": of,
    }


def _decode(round_: int, row: int, who: dict[str, Any], slot: int, of: int) -> dict[str, Any]:
    return {"round": round_, "row": row, "kind": "decode", **who, "slot": slot, "input_tokens": 1, "prefill_tokens": of}


OPERATIONS = [
    _prefill(1, 0, A, 1, 0, 6, 8),
    _prefill(2, 0, A, 1, 6, 2, 8),
    _prefill(2, 1, B, 2, 0, 4, 4),
    _decode(3, 0, A, 1, 8),
    _decode(3, 1, B, 2, 4),
    _decode(4, 0, A, 1, 8),
    _prefill(5, 0, B, 2, 2, 4, 6),
    _prefill(5, 1, C, 3, 1, 3, 4, replay=1),
    _decode(6, 0, B, 2, 6),
    _decode(6, 1, C, 3, 4),
]


def _change(
    round_: int, who: dict[str, Any], first: int, pages: list[int], length: int, *, fresh: bool = False
) -> dict[str, Any]:
    return {
        "round": round_,
        "group": "full",
        **who,
        "fresh": fresh,
        "first_slot": first,
        "pages": pages,
        "length_slots": length,
    }


TABLE_CHANGES = [
    _change(1, A, 0, [1, 2, 3], 3, fresh=True),
    _change(2, A, 3, [4], 4),
    _change(2, B, 0, [5, 6], 2, fresh=True),
    _change(3, A, 4, [8], 5),
    _change(3, B, 2, [9], 3),
    _change(4, A, 0, [0], 5),
    _change(5, B, 0, [5, 7, 10], 3, fresh=True),
    _change(5, C, 0, [5, 6], 2, fresh=True),
]

ZEROED = [
    {"round": round_, "group": "full", "page": page}
    for round_, pages in ((1, (1, 2, 3)), (2, (4, 5, 6)), (3, (8, 9)), (5, (7, 10)))
    for page in pages
]

TRANSFERS = [
    {"round": 4, "op_id": 0, "kind": "write_back", "source_pinned": False, "src_page": 5, "dst_page": 1},
    {"round": 4, "op_id": 0, "kind": "write_back", "source_pinned": False, "src_page": 6, "dst_page": 2},
    {"round": 5, "op_id": 1, "kind": "load_back", "src_page": 1, "dst_page": 7, "from_storage": True},
]


def tiny() -> dict[str, pa.Table]:
    """Return the recorded tables of the trace."""
    return {
        "calls": table("calls", CALLS),
        "submissions": table("submissions", SUBMISSIONS),
        "events": table("events", EVENTS),
        "rounds": table("rounds", ROUNDS),
        "operations": table("operations", OPERATIONS),
        "table_changes": table("table_changes", TABLE_CHANGES),
        "zeroed": table("zeroed", ZEROED),
        "transfers": table("transfers", TRANSFERS),
    }
