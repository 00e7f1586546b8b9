"""How large a report is: a trace made of numbers that hardly pack, as long and as busy as the bound is stated for."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked
from tsviz.report.page import page
from tsviz.report.subject import Subject, SubjectPart
from tsviz.trace.catalogue import TABLES

from .conftest import NO_CODE
from .test_page import data_of

ROUNDS, REQUESTS = 10_000, 3_000
PACKED_CODE_BYTES = 2_100_000
"""More than plotly.js takes (test_library.py)."""


def _table(name: str, columns: dict[str, list[Any]]) -> pa.Table:
    """Return a table of these columns; others are null, or empty where they cannot be."""
    rows = len(next(iter(columns.values())))
    data = {f.name: columns.get(f.name, [None if f.nullable else _empty(f.type)] * rows) for f in TABLES[name].schema}
    return pa.Table.from_pydict(data, schema=TABLES[name].schema)


def _empty(kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_list(kind):
        return []
    return 0 if pa.types.is_integer(kind) else ""


class _Part:
    node, rank, derived_round = "F", 0, ROUNDS

    def tables(self) -> dict[str, pa.Table]:
        """Ten thousand rounds of random counters; three thousand requests that go through eight states each."""
        dice = random.Random(7)
        rounds = list(range(1, ROUNDS + 1))
        names = [f"request-{n:05d}" for n in range(REQUESTS)]
        begins = sorted(dice.randrange(1, ROUNDS - 900) for _ in names)
        after = (
            "Submitted",
            "Prefilling",
            "Decoding",
            "Retracted",
            "Prefilling",
            "Decoding",
            "Retracted",
            "Prefilling",
        )
        marks = [(n, s, begins[n] + 100 * s + dice.randrange(60), after[s]) for n in range(REQUESTS) for s in range(8)]
        marks.sort(key=lambda mark: mark[2])
        numbers = lambda high: [dice.randrange(high) for _ in rounds]  # noqa: E731
        return {
            "rounds": _table("rounds", {
                "round": rounds, "start_ns": [r * 10**7 + dice.randrange(10**6) for r in rounds],
                "waiting_requests": numbers(900), "prefilling_requests": numbers(900),
                "decoding_requests": numbers(900), "empty_pages": numbers(9000), "scheduled_tokens": numbers(9000),
                "retracted_requests": numbers(3),
            }),
            "submissions": _table("submissions", {
                "submission": list(range(REQUESTS)), "request": names, "round": begins,
                "prompt_tokens": [dice.randrange(9000) for _ in names],
            }),
            "states": _table("states", {
                "round": [m[2] for m in marks], "submission": [m[0] for m in marks],
                "request": [names[m[0]] for m in marks], "after": [m[3] for m in marks], "before": [""] * len(marks),
            }),
            "pool": _table("pool", {
                "round": rounds, "cached_pages": numbers(9000), "empty_blocks": numbers(300),
                "available_blocks": [300 + n for n in numbers(9000)], "active_blocks": numbers(9000),
            }),
        }  # fmt: skip


class _Bundle:
    name, parts = "long", (_Part(),)


def test_ten_thousand_rounds_and_three_thousand_requests_stay_under_five_megabytes() -> None:
    """Every round of 10,000 is in the file, every phase of 3,000 requests, and plotly.js; below 5 MB together."""
    locked = Locked(Catalog([_Bundle()]), Limits(seconds=None, rows=None))
    about = {"name": "long", "parts": [], "warnings": [], "workload": {}, "command": "", "schema": "1.0", "tokens": ""}
    part = SubjectPart("F", 0, (), ())
    text = page(Subject("long", about, lambda sql: locked.query(sql)[0].to_pylist(), (part,), "0"), NO_CODE)
    (data,) = data_of(text)
    assert (data["width"], len(data["rounds"])) == (1, ROUNDS)
    (lanes,) = [chart for chart in data["charts"] if chart["name"] == "gantt"]
    assert (len(lanes["names"]), sum(map(len, lanes["segments"]))) == (REQUESTS, 3 * 8 * REQUESTS)
    assert len(text.encode()) + PACKED_CODE_BYTES < 5_000_000
