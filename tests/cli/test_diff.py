"""`tsviz diff` from the command line: exit codes, ranks, the merged view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle

WORK = ("--workload", "poisson:requests=12,rate=60,prompt_tokens=120,output_tokens=40", "--max-new", "undeclared")


def test_equal_traces_end_with_0_and_different_ones_with_5(tsviz: Any, recorded: Path, tmp_path: Path) -> None:
    """The code says whether the plans are equal; the row says round, table, column and both values."""
    equal = tsviz("diff", recorded, recorded, "--format", "json")
    assert equal.code == 0 and equal.json()[0]["outcome"] == "equal"
    other = tmp_path / "other"
    assert tsviz("record", *WORK, "--pages", "65", "--out", other).code == 0
    apart = tsviz("diff", recorded, other, "--format", "json")
    assert apart.code == 5
    row = apart.json()[0]
    assert row["outcome"] == "diverged" and row["round"] == row["equal_rounds"] + 1 and row["table"] and row["column"]


def test_figures_and_requests_of_two_traces(tsviz: Any, recorded: Path, tmp_path: Path) -> None:
    """Other tables compare the fleet and every request, and the code still tells of the divergence."""
    out = tmp_path / "changed"
    tsviz("whatif", recorded, "--set", "pages=257", "--out", out)
    figures = tsviz("diff", recorded, out, "--show", "figures", "--format", "json")
    rows = {row["figure"]: row for row in figures.json()}
    assert figures.code == 5 and rows["retractions"]["left"] > rows["retractions"]["right"] == 0
    assert len(tsviz("diff", recorded, out, "--show", "requests", "--format", "json").json()) == 20


def test_ranks_are_compared_with_rank_0(tsviz: Any, tmp_path: Path) -> None:
    """--ranks names the first that disagrees; two parts of one trace can be named instead."""
    out = tmp_path / "ranks"
    options = ("--pages", "65", "--ranks", "2", "--perturb", "1:page_fewer")
    assert tsviz("record", *WORK, *options, "--out", out).code == 0
    ranks = tsviz("diff", out, "--ranks", "--format", "json")
    assert ranks.code == 5 and ranks.json()[0]["first_to_disagree"] is True
    assert "rank 1 of F is the first to disagree" in ranks.err
    parts = tsviz("diff", f"{out}@F/0:1", f"{out}@F/1:1", "--format", "json")
    assert parts.code == 5 and parts.json()[0]["column"] == "empty_pages"


def test_a_pair_is_shown_on_one_time_axis(tsviz: Any, tmp_path: Path) -> None:
    """The merged view of a prefill and a decode node is in order of time, with the node of every moment."""
    out = tmp_path / "pair"
    assert tsviz("record", *WORK, "--pages", "129", "--pd", "--out", out).code == 0
    rows = tsviz("diff", out, "--show", "merged", "--format", "json").json()
    assert [r["time_ns"] for r in rows] == sorted(r["time_ns"] for r in rows)
    assert {r["node"] for r in rows} == {"P/0", "D/0"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected two traces"),
        (("--ranks",), "expected a node with several ranks"),
        (("--show", "merged", "--request", "nobody"), "expected moments of request 'nobody'"),
    ],
)
def test_what_makes_no_sense_ends_with_code_2(
    tsviz: Any, recorded: Path, arguments: tuple[str, ...], message: str
) -> None:
    """A missing trace, a trace without ranks and an unknown request are usage errors."""
    ended = tsviz("diff", recorded, *arguments)
    assert ended.code == 2 and message in ended.err
