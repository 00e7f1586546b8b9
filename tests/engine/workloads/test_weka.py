"""The importer of weka agent sessions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tsviz.engine.workloads.errors import WorkloadError
from tsviz.engine.workloads.model import Span, Workload, expand
from tsviz.engine.workloads.options import DEFAULTS, WorkloadOptions
from tsviz.engine.workloads.weka import load_weka

Make = Callable[..., Path]
SECOND = 1_000_000_000


def turn(t: float, prompt: int, output: int, ids: list[int], took: float = 1.0, think: float = 2.0) -> dict[str, Any]:
    """One request as upstream writes it, without the fields that nothing reads."""
    return {"t": t, "type": "n", "in": prompt, "out": output, "hash_ids": ids, "api_time": took, "think_time": think}


def subagent(t: float, duration_ms: int, *requests: dict[str, Any]) -> dict[str, Any]:
    """A sub-agent that came back at `t`."""
    own = {"t": t, "type": "subagent", "duration_ms": duration_ms, "requests": list(requests)}
    return {**own, "tool_tokens": 64, "system_tokens": 0}


def session(*requests: dict[str, Any], **changes: Any) -> str:
    """A session file with 64-token blocks and one leading block of tools and system prompt."""
    fields = {"id": "x", "block_size": 64, "hash_id_scope": "local", "tool_tokens": 40, "system_tokens": 24}
    return json.dumps({**fields, "requests": list(requests), **changes})


def load(path: Path, **options: Any) -> Workload:
    return load_weka(path, WorkloadOptions(**options))


TWO_TURNS = (turn(0, 100, 60, [1]), turn(4, 200, 10, [1, 2, 3], think=3))


def test_ids_stand_for_full_blocks_and_a_tail_has_none(put: Make) -> None:
    """200 tokens are three blocks of 64 and a tail of 8; the last turn's tail and output are its own."""
    last = load(put(session(*TWO_TURNS))).requests[-1]
    assert last.prompt[:3] == (Span(1, 0, 64), Span(2, 0, 64), Span(3, 0, 64))
    assert [s.length for s in last.prompt[3:]] == [8]
    assert (last.prompt_tokens, last.output_tokens) == (200, 10)
    assert last.prompt[3].source != last.output[0].source
    assert {last.prompt[3].source, last.output[0].source}.isdisjoint({1, 2, 3})


def test_a_turn_carries_the_prompt_and_the_answer_of_the_turn_before(put: Make) -> None:
    """The first 100 tokens of turn 2 are turn 1's prompt, the next 60 its output: generated pages can be hit."""
    first, second = load(put(session(*TWO_TURNS))).requests
    following = expand(second.prompt)
    assert (following[:100] == expand(first.prompt)).all()
    assert (following[100:160] == expand(first.output)).all()


@pytest.mark.parametrize("scale", [1, 2, 3, 8, 10, 64])
def test_scaling_keeps_lengths_and_what_is_carried(put: Make, scale: int) -> None:
    """At every scale lengths are max(1, n // scale), and turn 2 goes on from the end of turn 1's prompt."""
    first, second = load(put(session(*TWO_TURNS)), scale=scale).requests
    assert [r.prompt_tokens for r in (first, second)] == [100 // scale, 200 // scale]
    assert [r.output_tokens for r in (first, second)] == [max(1, 60 // scale), max(1, 10 // scale)]
    both = [*expand(first.prompt), *expand(first.output)]
    assert expand(second.prompt)[: len(both)].tolist() == both


def test_what_the_next_turn_does_not_say_is_fresh(put: Make) -> None:
    """The next prompt ends 28 tokens after this one, so of an output of 60 the first 28 are known."""
    first, second = load(put(session(turn(0, 100, 60, [1]), turn(4, 128, 10, [1, 2])))).requests
    assert (expand(second.prompt)[100:128] == expand(first.output)[:28]).all()
    assert [(s.start, s.length) for s in first.output] == [(36, 28), (0, 32)]


def test_a_turn_whose_blocks_are_not_carried_on_has_a_fresh_tail_and_output(put: Make) -> None:
    """Where the next turn goes another way after block 1, nothing of it is in this turn."""
    first, second = load(put(session(turn(0, 150, 60, [1, 2]), turn(4, 300, 10, [1, 3, 4, 5])))).requests
    assert first.prompt[:2] == (Span(1, 0, 64), Span(2, 0, 64))
    theirs = {s.source for s in second.prompt}
    assert theirs.isdisjoint({s.source for s in (*first.prompt[1:], *first.output)})


def test_a_turn_comes_after_the_turn_before_ended_and_think_time(put: Make) -> None:
    """Only the first has an arrival; speed divides think times as it does arrivals."""
    first, second = load(put(session(*TWO_TURNS), "s.json")).requests
    assert (first.arrival_ns, first.after, first.think_ns) == (0, None, 0)
    assert (second.arrival_ns, second.after, second.think_ns) == (None, "s/parent/00001", 3 * SECOND)
    assert load(put(session(*TWO_TURNS)), speed=4).requests[1].think_ns == 750_000_000


def test_sessions_are_apart_in_time_and_share_no_ids(put: Make, tmp_path: Path) -> None:
    """Equal ids of two sessions are different tokens; the second starts session_gap_s later."""
    put(session(*TWO_TURNS), "a.json")
    put(session(*TWO_TURNS), "b.json")
    workload = load(tmp_path, session_gap_s=2.5, speed=5)
    assert [(r.request_id, r.arrival_ns) for r in workload.requests] == [
        ("a/parent/00001", 0),
        ("b/parent/00001", SECOND // 2),
        ("a/parent/00002", None),
        ("b/parent/00002", None),
    ]
    a, b = (r for r in workload.requests if r.arrival_ns is not None)
    assert {s.source & (2**40 - 1) for s in a.prompt}.isdisjoint({s.source & (2**40 - 1) for s in b.prompt})
    assert (workload.meta["sessions"], workload.meta["files"], workload.meta["file"]) == (2, 2, tmp_path.name)


def test_a_common_system_prompt_can_be_invented_and_is_said(put: Make, tmp_path: Path) -> None:
    """With share_system the leading 64 tokens of all sessions are equal and no more; the metadata says so."""
    put(session(*TWO_TURNS), "a.json")
    put(session(*TWO_TURNS), "b.json")
    workload = load(tmp_path, share_system=True)
    a, b = (r.prompt for r in workload.requests if r.arrival_ns is None)
    assert a[0] == b[0]
    assert {s.source for s in a[1:]}.isdisjoint({s.source for s in b[1:]})
    assert workload.meta["share_system"] is True
    assert "same in all sessions" in str(workload.meta["invented"])
    assert "same in all sessions" not in str(load(tmp_path).meta["invented"])


SUB_1 = subagent(30, 20_000, turn(0, 130, 5, [50, 51], took=2), turn(4, 140, 5, [50, 51], took=6, think=1))
SUB_2 = subagent(40, 28_000, turn(0, 130, 5, [50, 52], took=20))
FAMILY = (turn(0, 64, 5, [1], took=9), SUB_1, SUB_2, turn(42, 128, 5, [1, 2], think=30))


def test_subagents_start_when_they_had_to_and_the_parent_waits_for_the_last(put: Make) -> None:
    """Back at 30 s after 20 s: started at 10 s, 1 s after the parent. The second ends at 12 + 20 = 32 s, 10 before 42.

    The first ends at 10 + 4 + 6 = 20 s, so the parent's next turn waits for the second.
    """
    requests = {r.request_id: r for r in load(put(session(*FAMILY), "s.json")).requests}
    assert {name: (r.after, r.think_ns / SECOND) for name, r in requests.items()} == {
        "s/parent/00001": (None, 0),
        "s/sub-001/00001": ("s/parent/00001", 1),
        "s/sub-002/00001": ("s/parent/00001", 3),
        "s/sub-001/00002": ("s/sub-001/00001", 1),
        "s/parent/00002": ("s/sub-002/00001", 10),
    }
    assert list(requests) == [
        "s/parent/00001",
        "s/sub-001/00001",
        "s/sub-002/00001",
        "s/sub-001/00002",
        "s/parent/00002",
    ]


def test_subagents_of_a_parent_share_its_id_space(put: Make) -> None:
    """Block 50 leads both sub-agents and is one and the same."""
    requests = {r.request_id: r for r in load(put(session(*FAMILY), "s.json")).requests}
    assert requests["s/sub-001/00001"].prompt[0] == requests["s/sub-002/00001"].prompt[0] == Span(50, 0, 64)


def test_a_parent_does_not_wait_for_a_subagent_that_is_still_away(put: Make) -> None:
    """A turn at 20 s comes after the parent's last one; only the one at 42 s waits for what ended at 32 s."""
    rows = (FAMILY[0], SUB_2, turn(20, 128, 5, [1, 2], took=1, think=11), turn(42, 192, 5, [1, 2, 3], think=21))
    requests = {r.request_id: r for r in load(put(session(*rows), "s.json")).requests}
    assert (requests["s/parent/00002"].after, requests["s/parent/00002"].think_ns) == ("s/parent/00001", 11 * SECOND)
    assert requests["s/parent/00003"].after == "s/sub-001/00001"


def test_a_turn_without_output_is_skipped_and_the_next_waits_for_the_one_before(put: Make) -> None:
    """Turn 3 at 9 s waits for turn 1, which ended at 1 s: 8 s."""
    rows = (turn(0, 64, 5, [1]), turn(4, 128, 0, [1, 2]), turn(9, 192, 5, [1, 2, 3]))
    workload = load(put(session(*rows), "s.json"))
    assert [(r.request_id, r.after, r.think_ns) for r in workload.requests] == [
        ("s/parent/00001", None, 0),
        ("s/parent/00003", "s/parent/00001", 8 * SECOND),
    ]
    assert workload.skipped == {"empty output": 1}


def test_rows_counts_requests_in_file_order(put: Make, tmp_path: Path) -> None:
    """The first four rows are the parent's first, two of the first sub-agent, one of the second; then the next file."""
    put(session(*FAMILY), "a.json")
    put(session(*TWO_TURNS), "b.json")
    assert sorted(r.request_id for r in load(tmp_path, rows=4).requests) == [
        "a/parent/00001",
        "a/sub-001/00001",
        "a/sub-001/00002",
        "a/sub-002/00001",
    ]
    assert load(tmp_path, rows=6).meta["input_rows"] == 6
    assert load(tmp_path, rows=5).meta["sessions"] == 1


@pytest.mark.parametrize(
    ("text", "place", "field"),
    [
        (session(turn(0, 128, 5, [1])), "request 1", "hash_ids"),
        (session(turn(0, 127, 5, [1, 2])), "request 1", "hash_ids"),
        (session(turn(0, 64, 5, [2**22])), "request 1", "hash_ids[0]"),
        (session(turn(0, 128, 5, [1, 2]), turn(1, 128, 5, [2, 1])), "request 2", "hash_ids[0]"),
        (session(turn(5, 64, 5, [1]), turn(4, 64, 5, [1])), "request 2", "t"),
        (session(turn(float("inf"), 64, 5, [1])), "session", "JSON"),
        (session(turn(0, -64, 5, [])), "request 1", "in"),
        (session({**turn(0, 64, 5, [1]), "out": 1.5}), "request 1", "out"),
        (session({**turn(0, 64, 5, [1]), "type": "x"}), "request 1", "type"),
        (session({"type": "n"}), "request 1", "t"),
        (session(7), "request 1", "request"),  # type: ignore[arg-type]
        (session(), "session", "requests"),
        (session(*TWO_TURNS, requests={}), "session", "requests"),
        (session(*TWO_TURNS, block_size=0), "session", "block_size"),
        (session(*TWO_TURNS, block_size="64"), "session", "block_size"),
        (session(*TWO_TURNS, hash_id_scope="global"), "session", "hash_id_scope"),
        (session(*TWO_TURNS, tool_tokens=None), "session", "tool_tokens"),
        (session(subagent(1, 1)), "request 1", "requests"),
        (session(subagent(1, 1, SUB_1)), "request 1, sub-agent request 1", "type"),
        (session(subagent(1, -1, turn(0, 64, 5, [1]))), "request 1", "duration_ms"),
        ("{}", "session", "hash_id_scope"),
        ("[]", "session", "JSON"),
        (session(*TWO_TURNS)[:-5], "session", "JSON"),
    ],
)
def test_a_bad_session_names_its_request_and_field(put: Make, text: str, place: str, field: str) -> None:
    """Each damage is an error at its request."""
    path = put(text)
    with pytest.raises(WorkloadError) as caught:
        load_weka(path, DEFAULTS)
    assert (caught.value.file, caught.value.place, caught.value.field) == (str(path), place, field)


def test_options_that_do_not_fit_are_errors(put: Make) -> None:
    """A scale above a block, and a window, which sessions do not have."""
    path = put(session(*TWO_TURNS))
    for options in ({"scale": 65}, {"start_s": 1.0}, {"window_s": 1.0}):
        with pytest.raises(WorkloadError, match="workload options: option: "):
            load(path, **options)
