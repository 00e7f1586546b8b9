"""Workloads written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tsviz.engine.workloads.errors import WorkloadError
from tsviz.engine.workloads.model import Workload, expand
from tsviz.engine.workloads.options import WorkloadOptions
from tsviz.engine.workloads.registry import load

A = {"id": "a", "arrival_ms": 3, "prompt_tokens": 16, "output_tokens": 4}


def plain(folder: Path, *rows: dict[str, object], options: WorkloadOptions | None = None) -> Workload:
    file = folder / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return load(f"plain:{file}", options or WorkloadOptions())


def test_a_request_is_taken_as_it_stands(tmp_path: Path) -> None:
    """A row becomes one request with the lengths, the arrival in nanoseconds and the declared budget."""
    (request,) = plain(tmp_path, A).requests
    assert (request.request_id, request.prompt_tokens, request.output_tokens) == ("a", 16, 4)
    assert (request.arrival_ns, request.max_new_tokens) == (3_000_000, 4)


def test_equal_part_names_are_equal_tokens(tmp_path: Path) -> None:
    """Two prompts that start with the same named part share its tokens and nothing behind it."""
    rows = [
        {"id": name, "arrival_ms": 0, "prompt": [["system", 8], [name, 8]], "output_tokens": 1} for name in ("a", "b")
    ]
    first, second = (expand(r.prompt) for r in plain(tmp_path, *rows).requests)
    assert np.array_equal(first[:8], second[:8])
    assert not np.array_equal(first[8:], second[8:])


def test_a_request_can_wait_for_another(tmp_path: Path) -> None:
    """`after` and `think_ms` make a request that arrives so long after the other one ended."""
    _, second = plain(
        tmp_path, A, {"id": "b", "after": "a", "think_ms": 5, "prompt_tokens": 1, "output_tokens": 1}
    ).requests
    assert (second.arrival_ns, second.after, second.think_ns) == (None, "a", 5_000_000)


def test_a_budget_of_its_own_wins(tmp_path: Path) -> None:
    """`max_new_tokens` in a row wins over the option."""
    options = WorkloadOptions(max_new="undeclared")
    first, second = plain(tmp_path, A, {**A, "id": "b", "max_new_tokens": 9}, options=options).requests
    assert (first.max_new_tokens, second.max_new_tokens) == (0, 9)


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({**A, "id": 7}, "id"),
        ({**A, "prompt": [["x", 1]]}, "prompt"),
        ({"id": "b", "arrival_ms": 0, "output_tokens": 1}, "prompt"),
        ({**A, "after": "a"}, "arrival_ms"),
        ({"id": "b", "after": "nobody", "prompt_tokens": 1, "output_tokens": 1}, "after"),
        ({**A, "colour": 1}, "colour"),
        ({**A, "output_tokens": -1}, "output_tokens"),
        ({"id": "b", "arrival_ms": 0, "prompt": [["x"]], "output_tokens": 1}, "prompt[0]"),
        ({"id": "b", "after": "b", "prompt_tokens": 1, "output_tokens": 1}, "after"),
        ({**A, "id": "\ud800"}, "id"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: dict[str, object], field: str) -> None:
    """A row that makes no sense is an error that names file, line and field."""
    with pytest.raises(WorkloadError) as caught:
        plain(tmp_path, {**A, "id": "first"}, row)
    assert caught.value.place == "line 2"
    assert caught.value.field == field
    assert "rows.jsonl" in caught.value.file


@pytest.mark.parametrize(
    ("row", "field"),
    [({"id": "b", "arrival_ms": 1e18}, "arrival_ms"), ({"id": "b", "after": "first", "think_ms": -1}, "think_ms")],
)
def test_a_time_out_of_range_names_both_bounds(tmp_path: Path, row: dict[str, object], field: str) -> None:
    """Times lie from 0 to below 2^61 ns, which is 2,305,843,009,213 ms and some, or 73 years: both ends are said."""
    with pytest.raises(WorkloadError) as caught:
        plain(tmp_path, {**A, "id": "first"}, {"prompt_tokens": 1, "output_tokens": 1, **row})
    assert caught.value.field == field
    assert "expected a time from 0 to below 2305843009213 (73 years)" in str(caught.value)
