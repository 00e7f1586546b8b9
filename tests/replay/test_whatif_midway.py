"""Knobs that are turned in the middle of a recording of the real scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from tsviz.replay.whatif.knobs import BadKnob, parse_change
from tsviz.replay.whatif.source import CannotRetime
from tsviz.replay.whatif.study import study
from tsviz.trace.reader import Part

pytestmark = pytest.mark.oracle

POISSON = "poisson:requests=24,rate=60,prompt_tokens=120,output_tokens=60"
AGENTS = "agent_sessions:sessions=4,turns=3,prompt_tokens=80,output_tokens=30,prefix_tokens=64"
RUNS = {
    "retractions": (None, ("--pages", "65")),
    "results in flight": (POISSON, ("--pages", "65", "--overlap", "1", "--max-new", "undeclared")),
    "late acknowledgements": (POISSON, ("--pages", "65", "--host-pages", "129", "--page-us", "300", "--ack-ms", "30")),
    "speculation": (POISSON, ("--pages", "129", "--width", "4", "--tokens", "identity")),
    "clients that give up": (POISSON, ("--pages", "65", "--abort-ms", "400")),
    "turns that follow turns": (AGENTS, ("--pages", "129", "--tokens", "identity")),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_wherever_nothing_is_turned_the_run_is_the_recorded_one(
    name: str, share: float, record: Any, part_of: Any, twin: Any
) -> None:
    """The recorded calls up to a round and the closed loop behind it give every recorded figure and no other times."""
    workload, options = RUNS[name]
    part = part_of(record(*options, workload=workload))
    made = study(part, twin, at_round=max(1, round(share * part.last_round)))
    assert made.baseline.figures == made.recorded
    assert made.fit_error.ttft.max_ns == made.fit_error.end.max_ns == 0.0


def _first_retraction(part: Part) -> int:
    rounds = part.table("rounds")
    return next(
        number
        for number, count in zip(rounds["round"].to_pylist(), rounds["retracted_requests"].to_pylist(), strict=True)
        if count
    )


def test_a_pool_that_grows_before_it_was_short_is_as_if_it_had_been_large(record: Any, part_of: Any, twin: Any) -> None:
    """No admission is short before the first retraction: 128 pages from there on give what 128 from the start give."""
    part = part_of(record("--pages", "65"))
    changes = [parse_change("pages=129")]
    from_the_start = study(part, twin).run(changes)
    for at_round in (2, _first_retraction(part) // 2):
        assert study(part, twin, at_round=at_round).run(changes).figures == from_the_start.figures


def test_a_pool_that_grows_late_ends_the_retractions_from_there_on(record: Any, part_of: Any, twin: Any) -> None:
    """Grown behind some of the retractions, those have happened and no other does."""
    part = part_of(record("--pages", "65"))
    rounds = part.table("rounds")
    at_round = _first_retraction(part) + 1
    before = sum(rounds["retracted_requests"].to_pylist()[: at_round - 1])
    outcome = study(part, twin, at_round=at_round).run([parse_change("pages=129")])
    assert 0 < before < sum(rounds["retracted_requests"].to_pylist())
    assert outcome.figures.retractions == before and outcome.figures.finished == 6


def test_knobs_turned_in_front_of_round_1_are_those_of_a_run_from_the_start(
    record: Any, part_of: Any, twin: Any
) -> None:
    """Budget, batch, mixed mode and pool turned before any call was made equal a scheduler that was built with them."""
    part = part_of(record("--pages", "65"))
    early, start = (study(part, twin, at_round=at, max_rounds=900) for at in (1, None))
    for text in ("chunk=64", "batch=2", "batch=80", "mixed=on", "pages=81"):
        changes = [parse_change(text)]
        assert early.run(changes).figures == start.run(changes).figures, text


def test_a_smaller_batch_holds_from_the_turn_on(record: Any, part_of: Any, twin: Any) -> None:
    """With two rows from round 40 on no later batch has more, and those before are the recorded ones."""
    part = part_of(record("--pages", "129"))
    outcome = study(part, twin, at_round=40).run([parse_change("batch=2")])
    rounds = outcome.run.log.tables()["rounds"]
    rows = [p + d for p, d in zip(*(rounds[n].to_pylist() for n in ("prefill_rows", "decode_rows")), strict=True)]
    recorded = part.table("rounds")
    before = [p + d for p, d in zip(*(recorded[n].to_pylist() for n in ("prefill_rows", "decode_rows")), strict=True)]
    assert rows[:39] == before[:39] and max(before) > 2 and max(rows[39:]) == 2


def test_what_cannot_be_turned_in_the_middle_is_refused(record: Any, part_of: Any, twin: Any, real: Any) -> None:
    """A pool that shrinks, another knob, a round that is not there, and the real scheduler."""
    part = part_of(record("--pages", "65"))
    made = study(part, twin, at_round=20)
    with pytest.raises(BadKnob, match="can only grow"):
        made.run([parse_change("pages=33")])
    with pytest.raises(BadKnob, match="overlap can be turned from round 1 only"):
        made.run([parse_change("overlap=1")])
    with pytest.raises(CannotRetime, match="expected one of 1 to"):
        study(part, twin, at_round=100_000)
    with pytest.raises(CannotRetime, match="only the twin"):
        study(part, real, at_round=20)
