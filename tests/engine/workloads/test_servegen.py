"""Requests drawn from ServeGen's statistics."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest

from tsviz.engine.workloads.draws import gap, stream
from tsviz.engine.workloads.errors import WorkloadError
from tsviz.engine.workloads.model import Workload
from tsviz.engine.workloads.options import DEFAULTS, WorkloadOptions
from tsviz.engine.workloads.servegen import load_servegen

Make = Callable[..., Path]
Client = Callable[..., Path]

TRACE = "0,0,0,,0,0\n600,2.0,1.0,Weibull,1.0,0.5\n1200,1.0,1.4,Gamma,0.5,2.0\n"
TABLES = {
    "0": {"input_tokens": "{}", "output_tokens": "{}", "reason_ratio": "{}"},
    "600": {"input_tokens": "{10: 0.25, 30: 0.75}", "output_tokens": "{200: 1.0}", "reason_ratio": "{0.5: 1.0}"},
}


@pytest.fixture
def client(put: Make) -> Client:
    """Write both files of one client and return the path of its trace."""

    def write(trace: str = TRACE, tables: object = TABLES, name: str = "chunk-1") -> Path:
        put(tables if isinstance(tables, str) else json.dumps(tables), f"{name}-dataset.json")
        return put(trace, f"{name}-trace.csv")

    return write


def load(path: Path, **options: Any) -> Workload:
    return load_servegen(path, WorkloadOptions(**options))


@pytest.mark.parametrize(("law", "shape"), [("Gamma", 0.5), ("Gamma", 1.2), ("Weibull", 1.0), ("Weibull", 1.3)])
def test_gaps_have_the_mean_and_the_spread_of_their_law(law: str, shape: float) -> None:
    """The mean is as asked; CV is 1/sqrt(k) for Gamma, sqrt(G(1+2/k)/G(1+1/k)^2 - 1) for Weibull.

    With 40,000 draws and CV below 1.5 the mean is off by under 1.5/sqrt(40,000) = 0.75 % a deviation: 4 % is beyond 5.
    """
    random = stream(1, "test")
    draws = [gap(random, law, shape, 3.0) for _ in range(40_000)]
    cv = 1 / math.sqrt(shape)
    if law == "Weibull":
        cv = math.sqrt(math.gamma(1 + 2 / shape) / math.gamma(1 + 1 / shape) ** 2 - 1)
    assert fmean(draws) == pytest.approx(3.0, rel=0.04)
    assert pstdev(draws) / fmean(draws) == pytest.approx(cv, rel=0.06)


def test_a_window_has_as_many_requests_as_its_rate_says(client: Client) -> None:
    """Weibull with shape 1 is Poisson: 2/s for 600 s are 1,200, deviation sqrt(1,200) = 35; five are 173."""
    workload = load(client())
    assert abs(len(workload.requests) - 1200) < 173
    assert (workload.meta["start_s"], workload.meta["window_s"]) == (600.0, 600.0)
    arrivals = [r.arrival_ns or 0 for r in workload.requests]
    assert arrivals == sorted(arrivals)
    assert all(0 <= ns < 600 * 10**9 for ns in arrivals)


def test_lengths_come_from_the_tables_of_their_time(client: Client) -> None:
    """Only 10 and 30 occur, 30 in 75 %: of 1,200, deviation sqrt(0.75 x 0.25 / 1,200) = 1.25 %; five are 6.25 %."""
    requests = load(client()).requests
    assert {r.prompt_tokens for r in requests} == {10, 30}
    assert {r.output_tokens for r in requests} == {200}
    assert fmean(r.prompt_tokens == 30 for r in requests) == pytest.approx(0.75, abs=0.0625)


def test_the_seed_decides_and_a_wider_window_changes_nothing(client: Client) -> None:
    """The same seed gives the same requests, another other ones; more time only adds to them."""
    path = client()
    assert load(path, seed=1) == load(path, seed=1)
    assert load(path, seed=1).requests != load(path, seed=2).requests
    first = load(path).requests
    assert load(path, window_s=1200).requests[: len(first)] == first
    assert [r.arrival_ns for r in load(path, rows=5).requests] == [r.arrival_ns for r in first[:5]]


def test_a_part_of_a_window_is_cut_from_it(client: Client) -> None:
    """From 700 s on for 100 s are exactly the requests of the whole window that lie there."""
    path = client()
    whole = [r.arrival_ns or 0 for r in load(path).requests]
    part = [r.arrival_ns for r in load(path, start_s=700, window_s=100).requests]
    assert part == [ns - 100 * 10**9 for ns in whole if 100 * 10**9 <= ns < 200 * 10**9]


def test_clients_of_a_folder_are_merged_in_order_of_time(client: Client, tmp_path: Path) -> None:
    """Two clients give the requests of both; no source occurs twice."""
    alone = len(load(client(name="chunk-1")).requests)
    other = len(load(client(name="chunk-2")).requests)
    workload = load(tmp_path)
    assert len(workload.requests) == alone + other
    assert workload.meta["clients"] == "chunk-1, chunk-2"
    sources = [r.prompt[0].source for r in workload.requests]
    assert len(set(sources)) == len(sources)
    arrivals = [r.arrival_ns or 0 for r in workload.requests]
    assert arrivals == sorted(arrivals)


def test_an_output_of_no_tokens_is_skipped_and_counted(client: Client) -> None:
    """A table that has only length 0 gives no request and a count of all that were drawn."""
    workload = load(client(tables={"0": {"input_tokens": "{5: 1.0}", "output_tokens": "{0: 1.0}"}}))
    assert workload.requests == ()
    assert workload.skipped == {"empty output": workload.meta["input_rows"]}


@pytest.mark.parametrize(
    ("trace", "place", "field"),
    [
        ("0,1,1,Gamma,1\n", "line 1", "row"),
        ("0,1,1,Gamma,1,1,1\n", "line 1", "row"),
        ("x,1,1,Gamma,1,1\n", "line 1", "window start"),
        ("600,0,0,,0,0\n600,1,1,Gamma,1,1\n", "line 2", "window start"),
        ("0,nan,1,Gamma,1,1\n", "line 1", "rate"),
        ("0,-1,1,Gamma,1,1\n", "line 1", "rate"),
        ("0,1e9,1,Gamma,1,1\n", "line 1", "rate"),
        ("0,1,1,Pareto,1,1\n", "line 1", "pattern"),
        ("0,1,1,,1,1\n", "line 1", "pattern"),
        ("0,1,1,Gamma,0,1\n", "line 1", "first shape parameter"),
        ("0,1,1,Weibull,1e-5,1\n", "line 1", "first shape parameter"),
        ("0,1,1,Gamma,1,0\n", "line 1", "second shape parameter"),
        ('0,1,1,"Gamma,1,1\n', "line 1", "row"),
        ("0,0,0,,0,0\n", "all windows", "rate"),
    ],
)
def test_a_bad_window_names_its_line(client: Client, trace: str, place: str, field: str) -> None:
    """Each damage of the trace is an error at its line."""
    with pytest.raises(WorkloadError) as caught:
        load_servegen(client(trace=trace), DEFAULTS)
    assert (caught.value.place, caught.value.field) == (place, field)


GOOD = {"input_tokens": "{10: 1.0}", "output_tokens": "{10: 1.0}"}


@pytest.mark.parametrize(
    ("tables", "place", "field"),
    [
        ({}, "whole file", "content"),
        ({"x": GOOD}, "window x", "window start"),
        ({"0": []}, "window 0", "tables"),
        ({"0": {**GOOD, "input_tokens": None}}, "window 0", "input_tokens"),
        ({"0": {**GOOD, "input_tokens": "__import__('os')"}}, "window 0", "input_tokens"),
        ({"0": {**GOOD, "input_tokens": "{10}"}}, "window 0", "input_tokens"),
        ({"0": {**GOOD, "input_tokens": "{-10: 1.0}"}}, "window 0", "input_tokens"),
        ({"0": {**GOOD, "input_tokens": "{10: nan}"}}, "window 0", "input_tokens[10]"),
        ({"0": {**GOOD, "output_tokens": "{10: 0.5}"}}, "window 0", "output_tokens"),
        ({"0": {**GOOD, "output_tokens": "{}"}}, "table for window 600", "output_tokens"),
        ({"900": GOOD}, "table for window 600", "window start"),
        ("{", "whole file", "JSON"),
    ],
)
def test_a_bad_table_names_its_window(client: Client, tables: object, place: str, field: str) -> None:
    """Each damage of the dataset is an error at its window."""
    with pytest.raises(WorkloadError) as caught:
        load_servegen(client(tables=tables), DEFAULTS)
    assert (caught.value.place, caught.value.field) == (place, field)


def test_silence_and_wrong_files_are_errors(client: Client, put: Make) -> None:
    """A silent time names the nearest window; a file must be a trace with its dataset beside it."""
    path = client()
    with pytest.raises(WorkloadError, match="nearest window: 1200"):
        load(path, start_s=5000)
    with pytest.raises(WorkloadError, match=r"NAME-trace\.csv"):
        load(path.with_name("chunk-1-dataset.json"))
    with pytest.raises(WorkloadError, match=r"chunk-9-dataset\.json.*no such file"):
        load(put(TRACE, "chunk-9-trace.csv"))
