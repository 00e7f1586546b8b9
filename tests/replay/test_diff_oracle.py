"""Recordings of the real scheduler side by side: equal ones, changed ones, ranks, and a pair on one time axis."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tsviz.replay.diff.axis import CannotMerge, axis_of, merge
from tsviz.replay.diff.compare import diff, diff_ranks, first_to_disagree
from tsviz.replay.diff.rows import Difference, _first_unequal
from tsviz.replay.diff.words import diff_words
from tsviz.replay.figures.requests import align, errors
from tsviz.replay.figures.run import RequestFigures, figures_of
from tsviz.trace.reader import open_bundle

oracle = pytest.mark.oracle


@oracle
def test_a_recording_equals_itself_made_again(record: Any, part_of: Any) -> None:
    """The same workload recorded twice has every round equal, the same inputs and no request changed."""
    found = diff(part_of(record("--pages", "65")), part_of(record("--pages", "65")))
    assert found.equal and found.inputs is None and found.config == ()
    assert found.equal_rounds == found.left_figures.rounds > 100
    assert found.requests.both == found.requests.same_order == 6
    assert all(delta.change("end_ns") == 0 for delta in found.requests.deltas)


@oracle
def test_another_budget_parts_where_the_chunk_is_cut(record: Any, part_of: Any) -> None:
    """Chunks of 128 for 2,048: r1 has 150 prompt tokens, so its first row is where the plans part, 150 and 128."""
    found = diff(part_of(record("--pages", "129")), part_of(record("--pages", "129", "--chunk", "128")))
    assert found.config == (("max_scheduled_tokens", "2048", "128"),)
    assert found.plans == Difference(found.equal_rounds + 1, "operations", 0, "input_tokens", "150", "128", "r1")
    assert found.rows is not None and found.rows.round == found.plans.round
    assert found.requests.both == 6 and any("the plans part in round" in line for line in diff_words(found))


@oracle
def test_another_pool_parts_first_in_a_counter_and_later_in_a_row(record: Any, part_of: Any) -> None:
    """64 and 128 empty pages differ from round 1 on; which request is scheduled differs later, and both are said."""
    found = diff(part_of(record("--pages", "65")), part_of(record("--pages", "129")))
    assert found.plans == Difference(1, "rounds", 0, "empty_pages", "64", "128")
    assert found.rows is not None and found.rows.round > 1
    assert found.left_figures.retractions > 0 == found.right_figures.retractions


@oracle
def test_another_workload_is_named_as_an_input(record: Any, part_of: Any) -> None:
    """Declared budgets for undeclared ones differ in the submission, in front of the plans that differ."""
    told = "poisson:requests=6,rate=100,prompt_tokens=150,output_tokens=80"
    left = part_of(record("--pages", "65", workload=told))
    right = part_of(record("--pages", "65", "--max-new", "undeclared", workload=told))
    found = diff(left, right)
    assert found.inputs is not None and found.inputs.table == "submissions"
    assert found.inputs.column == "max_new_tokens" and found.inputs.right == "0"
    assert found.plans is None or found.inputs.round <= found.plans.round


@oracle
def test_the_rank_that_has_a_page_fewer_disagrees_first(record: Any) -> None:
    """Of three ranks the second was built with 63 pages for 64: it parts from rank 0 in round 1, the third never."""
    bundle = open_bundle(record("--pages", "65", "--ranks", "3", "--perturb", "1:page_fewer"))
    ranks = diff_ranks(bundle)
    assert [(r.node, r.rank, r.plans is None) for r in ranks] == [("F", 1, False), ("F", 2, True)]
    first = first_to_disagree(ranks)
    assert first is not None and first.rank == 1
    assert first.plans == Difference(1, "rounds", 0, "empty_pages", "64", "63")
    assert ("num_device_pages", "65", "64") in first.config


@oracle
def test_a_rank_that_hears_an_event_late_is_named_with_the_event(record: Any) -> None:
    """Rank 1 gets a finish a round after rank 0: the input differs there, and the plans from the next round on."""
    bundle = open_bundle(record("--pages", "129", "--ranks", "2", "--perturb", "1:late_event:60"))
    (rank,) = diff_ranks(bundle)
    assert rank.config == () and rank.inputs is not None and rank.inputs.table == "events"
    assert rank.plans is None or rank.plans.round >= rank.inputs.round


@oracle
def test_figures_of_a_what_if_are_those_of_its_bundle(record: Any, part_of: Any, tmp_path: Path) -> None:
    """The run that a what-if logged and the bundle that it recorded answer every figure and request alike."""
    import importlib

    from tsviz.cli.main import main
    from tsviz.replay.whatif.knobs import parse_change
    from tsviz.replay.whatif.study import study

    source = record("--pages", "65")
    out = tmp_path / "changed"
    with pytest.raises(SystemExit) as ended:
        main(["whatif", str(source), "--set", "pages=81", "--out", str(out)])
    assert ended.value.code in (0, None)
    outcome = study(part_of(source), importlib.import_module("tsviz.scheduler.compat")).run([parse_change("pages=81")])
    figures, requests = figures_of(part_of(out))
    assert figures == outcome.figures and requests == outcome.requests


@oracle
def test_a_pair_is_merged_in_order_of_time(record: Any) -> None:
    """On the axis of a pair a request is submitted on both nodes before its transfer succeeds on P and lands on D."""
    bundle = open_bundle(record("--pages", "129", "--pd"))
    axis = axis_of([bundle])
    assert axis.kind == "virtual" and [label for label, _, _ in axis.parts] == ["P/0", "D/0"]
    moments = list(merge(axis, request="r2"))
    assert [m.time_ns for m in moments] == sorted(m.time_ns for m in moments)
    kinds = [(m.label, m.kind) for m in moments]
    for label, kind in (("P/0", "succeeded"), ("D/0", "remote_prefill_done")):
        at = kinds.index((label, kind))
        assert kinds.index(("P/0", "submit")) < at and kinds.index(("D/0", "submit")) < at
    every = list(merge(axis))
    assert sum(m.kind == "plan" for m in every) == sum(part.last_round for part in bundle.parts)


def _empty(*columns: str) -> Any:
    return pa.table({name: pa.array([], pa.int64()) for name in columns})


def _bundle(name: str, clock: str, wall_ns: int, monotonic_ns: int) -> Any:
    calls = pa.table({"seq": [0], "round": [1], "kind": ["plan"], "time_ns": [monotonic_ns + 5]})
    rounds = {"call_seq": [0], "prefill_rows": [2], "decode_rows": [1], "remote_prefill_rows": [0]}
    tables = {
        "calls": calls,
        "submissions": _empty("call_seq", "request", "prompt_tokens", "max_new_tokens"),
        "events": _empty("call_seq", "kind", "request", "op_id", "value", "token_count", "cause_round"),
        "rounds": pa.table(rounds | {"remote_decode_rows": [0], "scheduled_tokens": [1025]}),
    }
    part = SimpleNamespace(node=name, rank=0, clock=clock, table=tables.__getitem__)
    anchor = {"wall_ns": wall_ns, "monotonic_ns": monotonic_ns}
    return SimpleNamespace(name=name, path=Path(name), parts=[part], description={"clock_anchor": anchor})


def test_two_processes_are_put_on_the_wall_clock_by_their_anchors() -> None:
    """5 ns behind the anchors 1,000 and 990 of wall time are 1,005 and 995, whatever the monotonic clocks said."""
    axis = axis_of([_bundle("P", "monotonic", 1000, 70), _bundle("D", "monotonic", 990, 4000)])
    found = [(m.time_ns, m.label, m.words) for m in merge(axis)]
    words = "2 prefill, 1 decode rows, 1,025 tokens"
    assert axis.kind == "wall" and found == [(995, "D:D/0", words), (1005, "P:P/0", words)]


def test_a_virtual_clock_has_no_place_beside_a_monotonic_one() -> None:
    """Merging them is refused, naming both."""
    with pytest.raises(CannotMerge, match="P P/0: virtual, D D/0: monotonic"):
        axis_of([_bundle("P", "virtual", 0, 0), _bundle("D", "monotonic", 0, 0)])


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], None),
        ([1, 2, 3], [1, 9, 3], 1),
        ([1, None, 3], [1, None, 4], 2),
        ([1, None], [1, 2], 1),
        (["a", "b"], ["a", "c"], 1),
        ([[1, 2], [3]], [[1, 2], [4]], 1),
        ([[1, 2], [3]], [[1], [2, 3]], 0),
        ([[1], None], [[1], []], 1),
        ([[1], []], [[1], []], None),
    ],
)
def test_the_first_unequal_value_of_two_columns(left: list[Any], right: list[Any], expected: int | None) -> None:
    """Null equals null and nothing else; lists are equal by their elements, not by the whole run of numbers."""
    assert _first_unequal(pa.chunked_array([left]), pa.chunked_array([right])) == expected


def _request(submission: int, request: str, ttft_ns: int | None) -> RequestFigures:
    return RequestFigures(submission, request, 10, 5, 0, ttft_ns, None, 0, 0, None, None, None)


def test_requests_match_by_id_and_occurrence() -> None:
    """a, b, a against b, a, c: the first a matches, the second has no partner, c is only right."""
    left = (_request(0, "a", 10), _request(1, "b", 20), _request(2, "a", None))
    right = (_request(0, "b", 26), _request(1, "a", 13), _request(2, "c", 7))
    found = align(left, right)
    assert (found.both, found.same_order, found.only_left, found.only_right) == (2, 0, 1, 1)
    assert [(d.request, d.change("ttft_ns")) for d in found.deltas] == [("a", 3), ("b", 6), ("a", None), ("c", None)]
    apart = errors(found, "ttft_ns")
    assert (apart.requests, apart.only_one_side, apart.p50_ns, apart.max_ns) == (2, 1, 4.5, 6.0)
