"""`tsviz whatif` from the command line: tables, sentences, exit codes, and a bundle that opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
TRACES = Path(__file__).parents[2] / "traces"


def _files(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def test_a_knob_is_turned_and_every_figure_compared(tsviz: Any, recorded: Path) -> None:
    """More pages: fewer retractions than the recorded ones, which the baseline has too; the trace is not touched."""
    before = _files(recorded)
    ended = tsviz("whatif", recorded, "--set", "pages=257", "--format", "json")
    assert ended.code == 0, ended.err
    rows = {row["figure"]: row for row in ended.json()}
    assert rows["retractions"]["recorded"] == rows["retractions"]["baseline"] > 0
    assert rows["retractions"]["what_if"] == 0 and rows["retractions"]["change_percent"] == -100
    assert rows["finished"]["change"] == 0
    assert "cost model, fitted to" in ended.err and "re-timed baseline against the recording" in ended.err
    assert _files(recorded) == before


def test_the_schedulers_own_names_are_knobs_too(tsviz: Any, recorded: Path) -> None:
    """max_scheduled_tokens is chunk."""
    by_name, by_option = (
        tsviz("whatif", recorded, "--set", f"{name}=64", "--format", "json")
        for name in ("max_scheduled_tokens", "chunk")
    )
    assert by_name.json() == by_option.json()


def test_the_changed_run_is_a_bundle_that_verifies_and_differs(tsviz: Any, recorded: Path, tmp_path: Path) -> None:
    """What --out wrote opens, is verified by the real scheduler in every round, and diffs from its origin."""
    out = tmp_path / "changed"
    assert tsviz("whatif", recorded, "--set", "pages=257", "--out", out).code == 0
    assert tsviz("verify", out).code == 0
    assert tsviz("info", out, "--format", "json").json()["parts"][0]["retractions"] == 0
    assert tsviz("diff", recorded, out).code == 5
    taken = tsviz("whatif", recorded, "--set", "pages=257", "--out", out)
    assert taken.code == 2 and "expected a path outside every bundle" in taken.err


def test_an_unchanged_run_equals_its_origin_round_by_round(tsviz: Any, recorded: Path, tmp_path: Path) -> None:
    """A recording of nothing changed, made by the twin in closed loop, diffs equal to the real recording."""
    out = tmp_path / "same"
    assert tsviz("whatif", recorded, "--out", out).code == 0
    ended = tsviz("diff", recorded, out, "--format", "json")
    assert ended.code == 0, ended.err
    assert ended.json()[0]["outcome"] == "equal"


def test_a_knob_is_turned_in_the_middle(tsviz: Any, recorded: Path) -> None:
    """--at makes the recorded calls up to a round again; what it cannot turn or record is refused with code 2."""
    ended = tsviz("whatif", recorded, "--at", "30", "--set", "pages=257", "--format", "json")
    assert ended.code == 0, ended.err
    rows = {row["figure"]: row for row in ended.json()}
    assert rows["retractions"]["what_if"] < rows["retractions"]["baseline"] == rows["retractions"]["recorded"]
    for arguments, message in (
        (("--set", "pages=33"), "a pool can only grow"),
        (("--set", "batch=8", "--scheduler", "real"), "only the twin"),
        (("--out", recorded.parent / "x"), "a bundle has one configuration"),
    ):
        refused = tsviz("whatif", recorded, "--at", "30", *arguments)
        assert refused.code == 2 and message in refused.err


def test_requests_and_fit_are_tables_of_their_own(tsviz: Any, recorded: Path) -> None:
    """--show requests has a row a request with changes; --show fit the prices and the errors."""
    requests = tsviz("whatif", recorded, "--set", "pages=257", "--show", "requests", "--format", "json").json()
    assert len(requests) == 20 and {"ttft_ms_change", "restarts_change"} <= requests[0].keys()
    fit = tsviz("whatif", recorded, "--show", "fit", "--format", "json").json()
    assert {"of": "forward", "name": "round_ns"}.items() <= fit[1].items() and round(fit[1]["value"]) == 8_000_000


def test_a_sweep_has_a_row_a_cell_and_a_search_says_what_it_ran(tsviz: Any, recorded: Path) -> None:
    """Two knobs of two values are four rows; a search by halving names the values that it ran."""
    grid = tsviz("whatif", recorded, "--sweep", "pages=65,257", "--sweep", "mixed=off,on", "--format", "json")
    assert [(row["pages"], row["mixed"]) for row in grid.json()] == [
        ("65", "off"), ("65", "on"), ("257", "off"), ("257", "on"),
    ]  # fmt: skip
    found = tsviz("whatif", recorded, "--sweep", "pages=65..257", "--find", "smallest", "--where", "retractions = 0")
    assert found.code == 0 and "of 193 values: pages=65 no" in found.err and "smallest found: pages=" in found.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "colour=red"), "expected one of pages"),
        (("--set", "prefix_page=17"), "the scheduler refuses this configuration"),
        (("--at", "9", "--set", "groups=full:32"), "groups can be turned from round 1 only"),
        (("--sweep", "pages=65..70", "--find", "smallest"), "--find needs --where"),
        (("--sweep", "pages=65..70", "--find", "smallest", "--where", "1) FROM x; SELECT (1"), "no condition"),
        (("--sweep", "pages=70..65"), "expected a range that rises"),
        (("--set", "pages=99999999999999"), "expected a whole number from 2 to 2,147,483,647"),
    ],
)
def test_what_makes_no_sense_ends_with_code_2(
    tsviz: Any, recorded: Path, arguments: tuple[str, ...], message: str
) -> None:
    """Bad knobs, values, conditions and combinations are usage errors that say what was expected."""
    ended = tsviz("whatif", recorded, *arguments)
    assert ended.code == 2 and message in ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize("arguments", [
    ("--sweep", "pages=65..2"), ("--sweep", "pages=65..70", "--find", "smallest", "--where", "nosuch = 1"),
])  # fmt: skip
def test_a_bad_grid_or_condition_is_refused_before_anything_runs(
    tsviz: Any, recorded: Path, arguments: tuple[str, ...]
) -> None:
    """What the baseline would say on standard error is not there: the refusal is all there is."""
    ended = tsviz("whatif", recorded, *arguments)
    assert ended.code == 2
    assert ended.err.startswith("error: ")


def test_the_answer_says_who_gains_and_who_loses(tsviz: Any) -> None:
    """Declared budgets end both retractions: r1 ends sooner, the six others later, and the causes say what for."""
    ended = tsviz(
        "whatif", TRACES / "readmission-seals", "--set", "max_new=declared", "--show", "causes", "--format", "json"
    )
    assert ended.code == 0, ended.err
    assert "finished 7 of 7; retractions 2 -> 0; in all 2.715 s -> 3.171 s (+16.8 %)" in ended.err
    assert "requests by end: 1 sooner, most r1 2.699 s -> 1.206 s (-55.3 %); 6 later, most r2" in ended.err
    rows = {(row["span"], row["cause"]): row for row in ended.json()}
    # What `tsviz blame` says of the recording itself, which the baseline reproduces to the nanosecond.
    assert rows["ttft", "sealed_by_readmission"]["baseline_ms"] == 1555.78
    assert rows["ttft", "sealed_by_readmission"]["what_if_ms"] == 0
    assert rows["ttft", "capacity"]["change_ms"] > 5_000


def test_a_stall_and_its_cure_are_said_in_words(tsviz: Any) -> None:
    """The stall is named, `newcomer` gets a first token with a larger budget, and both end."""
    ended = tsviz("whatif", TRACES / "mixed-stall", "--set", "chunk=8")
    assert "baseline: a permanent stall" in ended.err and "2 requests have not ended" in ended.err
    assert "what-if (chunk=8): every request ends" in ended.err and "finished 0 -> 2 of 2" in ended.err
    assert "requests by first token: 0 sooner; 0 later; 1 got there not before (newcomer)" in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mixed-stall@3", "--set", "chunk=8"), "--at 3 turns a knob in front of a round"),
        (("mixed-stall", "--show", "causes", "--at", "2"), "a run with --at has two"),
        (("mixed-stall", "--show", "causes", "--scheduler", "real"), "expected the twin"),
        (("prefill-decode-pair", "--set", "pages=513"), "record it with the knob turned"),
    ],
)
def test_what_it_cannot_answer_says_what_can(tsviz: Any, arguments: tuple[str, ...], message: str) -> None:
    """A round behind the trace, two configurations, another scheduler and a node of a pair end with 2 and a way out."""
    trace, *rest = arguments
    ended = tsviz("whatif", TRACES / trace, *rest)
    assert ended.code == 2 and message in ended.err
