"""Shrinking: the same smallest run every time, the best so far when stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tsviz.replay.minimize.order import PASSES
from tsviz.replay.minimize.shrink import DoesNotHold, Minimized, Step, Stopped, minimize
from tsviz.replay.minimize.starts import starts
from tsviz.replay.scenario.predicates import Absent, named_predicate
from tsviz.replay.scenario.predicates_text import parse_predicate
from tsviz.replay.scenario.read import read_scenario
from tsviz.replay.scenario.scenario import Scenario
from tsviz.trace.reader import Part

from .apart_runs import calm, locked, record, request, run, scenario


def shrink(part: Part, condition: str, runs: int = 100_000, steps: list[Step] | None = None) -> Minimized:
    """Minimize on the twin, stopping after so many runs."""
    seen: list[Step] = [] if steps is None else steps
    return minimize(
        part, read_scenario(part), parse_predicate(condition), lambda made, _stop: run(made), PASSES, starts=starts,
        stop=lambda: len(seen) >= runs, progress=seen.append,
    )  # fmt: skip


@pytest.fixture
def crowded(tmp_path: Path) -> Part:
    """The live-lock at double size, with two more requests that have nothing to do with it."""
    big = locked()
    doubled = tuple(
        request(r.request_id, i + 1, 2 * r.prompt_tokens, r.output_tokens) for i, r in enumerate(big.requests)
    )
    extra = (request("x", 8, 4, 1), request("y", 9, 4, 1))
    made = scenario((*extra, *doubled), 260, num_device_pages=17, max_scheduled_tokens=4)
    return record(made, tmp_path / "crowded").parts[0]


def test_the_live_lock_loses_what_it_does_not_need(crowded: Part) -> None:
    """Bystanders go and prompts shrink, and what is left still locks on its own run."""
    found = shrink(crowded, "livelock>40")
    names = len(found.scenario.requests)
    assert found.finished
    assert 3 <= names <= 4
    assert sum(r.prompt_tokens for r in found.scenario.requests) <= 33 + 8
    assert not isinstance(named_predicate("livelock", 40).check(run(found.scenario)), Absent)


def test_shrinking_is_the_same_every_time(tmp_path: Path) -> None:
    """Two searches over one trace end with the same scenario after the same number of runs."""
    part = record(locked(), tmp_path / "t").parts[0]
    first, second = shrink(part, "livelock>40"), shrink(part, "livelock>40")
    assert (first.scenario, first.runs) == (second.scenario, second.runs)


def test_an_sql_condition_shrinks_to_one_request(tmp_path: Path) -> None:
    """That some prefill row computes two tokens needs one request with a prompt of two."""
    part = record(calm(), tmp_path / "t").parts[0]
    found = shrink(part, "exists (from operations where kind = 'prefill' and input_tokens = 2)")
    (left,) = found.scenario.requests
    assert (left.prompt_tokens, left.output_tokens, left.arrival_ns) == (2, 1, 0)


def test_whoever_stops_has_the_best_so_far(crowded: Part) -> None:
    """A search that is stopped early gives what it had accepted, marked as not finished."""
    steps: list[Step] = []
    shrink(crowded, "livelock>40", steps=steps)
    at = next(i for i, step in enumerate(steps) if step.held) + 3
    found = shrink(crowded, "livelock>40", runs=at)
    assert not found.finished
    assert found.accepted >= 1


def test_a_search_that_never_held_says_so(crowded: Part) -> None:
    """Stopped before anything smaller held, there is nothing to give."""
    with pytest.raises(Stopped):
        shrink(crowded, "livelock>40", runs=0)


def test_a_condition_that_does_not_hold_is_refused(tmp_path: Path) -> None:
    """A calm trace has no live-lock to shrink, and the refusal says how long its longest standstill was."""
    part = record(calm(), tmp_path / "t").parts[0]
    with pytest.raises(DoesNotHold, match="on the recording: livelock: at most"):
        shrink(part, "livelock")


def test_a_config_that_the_scheduler_refuses_does_not_hold(tmp_path: Path) -> None:
    """A candidate with a batch of none raises ValueError, which counts as a run without the finding."""
    part = record(locked(), tmp_path / "t").parts[0]

    def break_it(search: object) -> None:
        best = search.current()  # type: ignore[attr-defined]
        assert not search.attempt(best.with_config(max_batch_size=0), "no batch")  # type: ignore[attr-defined]

    def runner(made: Scenario, _stop: object) -> object:
        return run(made)

    found = minimize(
        part, replace(read_scenario(part)), parse_predicate("livelock>40"), runner, (break_it,),  # type: ignore[arg-type]
        starts=lambda *_: (), stop=lambda: False, progress=lambda _: None,
    )  # fmt: skip
    assert found.scenario.scheduler.max_batch_size == 4
