"""The Azure and BurstGPT importers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tsviz.engine.workloads.azure import load_azure
from tsviz.engine.workloads.burstgpt import load_burstgpt
from tsviz.engine.workloads.errors import WorkloadError
from tsviz.engine.workloads.options import DEFAULTS, WorkloadOptions

Make = Callable[..., Path]

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:15:46.6805900,374,44\r\n"
    "2023-11-16 18:15:50.9951690,396,109\r\n"
    "2023-11-16 18:15:51.2225670,879,55"
)
BURST = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "34601,GPT-4,15,115,130,Conversation log\n"
    "34640,ChatGPT,0,0,0,Conversation log\n"
    "34680,GPT-4,477,297,774,API log\n"
)


def test_azure_times_are_exact_to_their_seventh_decimal(put: Make) -> None:
    """Arrivals are differences to the first row: 50.9951690 - 46.6805900 = 4.3145790 s."""
    requests = load_azure(put(AZURE), DEFAULTS).requests
    assert [r.arrival_ns for r in requests] == [0, 4_314_579_000, 4_541_977_000]
    assert [(r.prompt_tokens, r.output_tokens) for r in requests] == [(374, 44), (396, 109), (879, 55)]


def test_azure_needs_no_carriage_returns_and_no_last_line_end(put: Make) -> None:
    """LF, CRLF, with and without a last line end, and a byte order mark all give three requests."""
    for text in (AZURE, AZURE + "\r\n", AZURE.replace("\r\n", "\n"), "\ufeff" + AZURE):
        assert len(load_azure(put(text), DEFAULTS).requests) == 3


@pytest.mark.parametrize("load", [load_azure, load_burstgpt])
def test_nothing_is_shared_where_the_trace_has_no_identity(put: Make, load: Callable[..., object]) -> None:
    """No source occurs twice among prompts and outputs, and the metadata says that identity was invented."""
    workload = load(put(AZURE if load is load_azure else BURST), DEFAULTS)
    sources = [s.source for r in workload.requests for s in (*r.prompt, *r.output)]  # type: ignore[attr-defined]
    assert len(sources) == len(set(sources)) > 0
    assert "unlike any other" in workload.meta["invented"]  # type: ignore[attr-defined]
    assert "CC-BY-4.0" in workload.meta["source"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("old", "new", "place", "field"),
    [
        ("18:15:50.9951690", "18:15:61.0", "line 3", "TIMESTAMP"),
        ("2023-11-16 18:15:50.9951690", "1700158550", "line 3", "TIMESTAMP"),
        ("18:15:50.9951690", "18:15:46.6805899", "line 3", "TIMESTAMP"),
        ("396", "-396", "line 3", "ContextTokens"),
        ("396", "396.0", "line 3", "ContextTokens"),
        ("396", "nan", "line 3", "ContextTokens"),
        ("396", "", "line 3", "ContextTokens"),
        ("396", "\u0663", "line 3", "ContextTokens"),
        ("109", "9" * 5000, "line 3", "GeneratedTokens"),
        ("109", "109,7", "line 3", "row"),
        ("396,109", "396", "line 3", "row"),
        ("396", '"396', "line 3", "row"),
        ("ContextTokens", "Context", "line 1", "ContextTokens"),
        ("ContextTokens", "GeneratedTokens", "line 1", "ContextTokens"),
        ("TIMESTAMP", "GeneratedTokens", "line 1", "TIMESTAMP"),
    ],
)
def test_a_bad_azure_row_names_its_place(put: Make, old: str, new: str, place: str, field: str) -> None:
    """Each damage is an error at its line and column."""
    with pytest.raises(WorkloadError) as caught:
        load_azure(put(AZURE.replace(old, new, 1)), DEFAULTS)
    assert (caught.value.place, caught.value.field) == (place, field)


def test_a_header_without_rows_is_an_error(put: Make) -> None:
    """A trace without a row is no workload."""
    with pytest.raises(WorkloadError, match="line 2: content: expected at least one row"):
        load_azure(put(AZURE.split("\r\n")[0]), DEFAULTS)


def test_burstgpt_skips_failed_calls_and_counts_them(put: Make) -> None:
    """The row of 0, 0, 0 is no request; times are seconds since the first row."""
    workload = load_burstgpt(put(BURST), DEFAULTS)
    assert [(r.request_id, r.arrival_ns) for r in workload.requests] == [
        ("row-0000001", 0),
        ("row-0000003", 79_000_000_000),
    ]
    assert workload.skipped == {"empty prompt and empty output": 1}


def test_burstgpt_is_read_by_column_name(put: Make) -> None:
    """The third edition's two more columns after Timestamp change nothing."""
    lines = BURST.splitlines()
    wide = [lines[0].replace("Timestamp,", "Timestamp,Session ID,Elapsed time,")]
    wide += [line.replace(",", ",17,3.5,", 1) for line in lines[1:]]
    narrow, other = (load_burstgpt(put(t), DEFAULTS).requests for t in (BURST, "\n".join(wide)))
    assert narrow == other


def test_burstgpt_rows_count_before_failures_are_skipped(put: Make) -> None:
    """Two rows are one request and one failure; speed 10 makes 79 s 7.9 s."""
    workload = load_burstgpt(put(BURST), WorkloadOptions(rows=2))
    assert (len(workload.requests), sum(workload.skipped.values())) == (1, 1)
    assert load_burstgpt(put(BURST), WorkloadOptions(speed=10)).requests[1].arrival_ns == 7_900_000_000


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("34680", "34639", "Timestamp"),
        ("34680", "nan", "Timestamp"),
        ("34680", "1e400", "Timestamp"),
        ("34680", "34_680", "Timestamp"),
        ("774", "775", "Total tokens"),
        ("477", "4.77", "Request tokens"),
        ("297", "-297", "Response tokens"),
    ],
)
def test_a_bad_burstgpt_row_names_its_place(put: Make, old: str, new: str, field: str) -> None:
    """Each damage of the fourth line is an error there."""
    with pytest.raises(WorkloadError) as caught:
        load_burstgpt(put(BURST.replace(old, new, 1)), DEFAULTS)
    assert (caught.value.place, caught.value.field) == ("line 4", field)


def test_the_total_may_be_absent(put: Make) -> None:
    """Only times and the two lengths are needed."""
    assert len(load_burstgpt(put("Timestamp,Request tokens,Response tokens\n0,5,6\n0.5,7,8\n"), DEFAULTS).requests) == 2
