"""What-ifs of recordings of the real scheduler: the baseline, changed knobs, grids and searches."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tsviz.replay.figures.run import figures_of
from tsviz.replay.whatif.cost import fit_costs
from tsviz.replay.whatif.knobs import BadKnob, parse_change
from tsviz.replay.whatif.source import CannotRetime
from tsviz.replay.whatif.study import study
from tsviz.replay.whatif.sweep import BadPredicate, Predicate, find_smallest, parse_axis, sweep
from tsviz.replay.whatif.turn import RefusedConfig

pytestmark = pytest.mark.oracle

POISSON = "poisson:requests=24,rate=60,prompt_tokens=120,output_tokens=60"
AGENTS = "agent_sessions:sessions=4,turns=3,prompt_tokens=80,output_tokens=30,prefix_tokens=64"


class Counting(SimpleNamespace):
    """A scheduler module that counts the schedulers that were built."""

    def __init__(self, module: Any) -> None:
        super().__init__(**{n: getattr(module, n) for n in dir(module) if not n.startswith("_")})
        self._inner, self.built = module.Scheduler, 0
        self.Scheduler = self._build

    def _build(self, config: Any) -> Any:
        self.built += 1
        return self._inner(config)


RUNS = {
    "retractions": (None, ("--pages", "65")),
    "mixed with a host tier": (POISSON, ("--pages", "65", "--host-pages", "129", "--max-new", "undeclared", "--mixed")),
    "results in flight": (POISSON, ("--pages", "129", "--overlap", "1")),
    "speculation": (POISSON, ("--pages", "129", "--width", "4", "--tokens", "identity")),
    "late acknowledgements": (POISSON, ("--pages", "65", "--host-pages", "129", "--page-us", "300", "--ack-ms", "30")),
    "lost acknowledgements": (POISSON, ("--pages", "65", "--host-pages", "129", "--lost-acks", "0.2")),
    "failed loads": (AGENTS, ("--pages", "65", "--host-pages", "129", "--failed-loads", "0.5")),
    "clients that give up": (POISSON, ("--pages", "65", "--abort-ms", "400")),
    "turns that follow turns": (AGENTS, ("--pages", "129", "--tokens", "identity")),
    "two groups": (POISSON, ("--groups", "full:16,sliding:16:w=64:replayable", "--pages", "129", "--chunk", "256")),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_baseline_of_a_simulated_run_is_that_run(name: str, record: Any, part_of: Any, twin: Any) -> None:
    """On a device whose costs the model can say, every figure of the re-timed baseline is the recorded one."""
    workload, options = RUNS[name]
    part = part_of(record(*options, workload=workload))
    made = study(part, twin)
    assert made.baseline.figures == replace(made.recorded, refused=made.baseline.figures.refused)
    for apart in (made.fit_error.ttft, made.fit_error.end):
        assert apart.max_ns == 0.0 and apart.only_one_side == 0


def test_unchanged_knobs_are_run_and_give_the_baseline(record: Any, part_of: Any, twin: Any) -> None:
    """A what-if that sets a knob to its recorded value builds a scheduler of its own and logs the same rows."""
    counting = Counting(twin)
    made = study(part_of(record("--pages", "65")), counting)
    assert counting.built == 1
    for changes in ((), (parse_change("pages=65"),)):
        outcome = made.run(changes)
        assert outcome.figures == made.baseline.figures
        before, after = made.baseline.run.log.tables(), outcome.run.log.tables()
        assert before.keys() == after.keys() and all(before[n].equals(after[n]) for n in before)
    assert counting.built == 3


def test_the_twin_and_the_real_scheduler_answer_alike(record: Any, part_of: Any, twin: Any) -> None:
    """The same what-if on the real scheduler and on the twin has the same figures."""
    real = pytest.importorskip("tokenspeed_scheduler")
    part = part_of(record("--pages", "65"))
    changes = [parse_change("pages=81"), parse_change("mixed=on")]
    assert study(part, twin).run(changes).figures == study(part, real).run(changes).figures


def test_the_costs_of_a_simulated_device_are_found(record: Any, part_of: Any) -> None:
    """8 ms a round and 20 us a token, the defaults, are fitted from the measurements of a recording."""
    cost = fit_costs(part_of(record("--pages", "65")))
    prices = {name: round(price) for name, price in cost.forward.prices}
    assert prices == {"round": 8_000_000, "chunk_tokens": 20_000, "decode_tokens": 20_000}
    assert cost.source == "forwards" and cost.pause.prices == () and cost.empty_round_ns == 8_000_000


def test_more_pages_end_the_retractions_and_free_the_time_that_they_took(record: Any, part_of: Any, twin: Any) -> None:
    """Six requests that need 1,890 tokens at most fit in 128 pages of 16: nothing is retracted or recomputed."""
    made = study(part_of(record("--pages", "65")), twin)
    assert made.recorded.retractions > 0 and made.recorded.recomputed_tokens > 0
    outcome = made.run([parse_change("pages=129")])
    assert outcome.figures.retractions == outcome.figures.recomputed_tokens == 0
    assert outcome.figures.elapsed_s < made.baseline.figures.elapsed_s
    assert {d.change("restarts") for d in made.compare(outcome).deltas} <= {0, -1, -2, -3}


def test_declared_budgets_remove_a_live_lock(record: Any, part_of: Any, twin: Any) -> None:
    """With chunks of 256 the six evict each other for ever; each with its budget declared, all six finish."""
    stuck = part_of(record("--pages", "65", "--chunk", "256", "--max-rounds", "600"))
    made = study(stuck, twin, unfinished_tokens=260, max_rounds=2000)
    assert made.baseline.figures.live_locked and made.baseline.figures.finished == 0
    outcome = made.run([parse_change("max_new=declared")])
    assert not outcome.figures.live_locked and outcome.figures.finished == 6
    assert outcome.figures.retractions == 0
    assert any("lower bound" in note for note in outcome.notes)


def test_a_pool_that_a_search_finds_has_no_retraction_when_recorded(record: Any, part_of: Any, twin: Any) -> None:
    """The smallest pool without a retraction, recorded anew with the real scheduler, has none; one page less has."""
    made = study(part_of(record("--pages", "65")), twin)
    axis, predicate = parse_axis("pages=65..257"), Predicate("retractions = 0", made.baseline.figures)
    search = find_smallest(made, (), axis, predicate)
    assert search.found is not None and search.before is not None and not search.exhaustive
    pages = search.found.cell.changes[0].value
    assert search.before.cell.changes[0].value == int(pages) - 1
    for size, expected in ((int(pages), True), (int(pages) - 1, False)):
        anew, _ = figures_of(part_of(record("--pages", str(size))))
        assert (anew.retractions == 0) is expected and anew.finished == 6


def test_a_scan_runs_every_value_and_counts_reversals(record: Any, part_of: Any, twin: Any) -> None:
    """Of 95 to 98 pages a scan runs all four; what holds below a value that does not is counted."""
    made = study(part_of(record("--pages", "65")), twin)
    search = find_smallest(made, (), parse_axis("pages=95..98"), Predicate("retractions = 0", made.recorded), scan=True)
    held = [trial.holds for trial in search.trials]
    assert search.exhaustive and len(held) == search.candidates == 4
    last_without = max((i for i, holds in enumerate(held) if not holds), default=-1)
    assert search.reversals == sum(held[:last_without])


def test_a_grid_runs_every_combination(record: Any, part_of: Any, twin: Any) -> None:
    """Two knobs of two values are four runs, the last knob fastest; a refused configuration keeps its words."""
    made = study(part_of(record("--pages", "65")), twin)
    cells = list(sweep(made, (), [parse_axis("pages=65,129"), parse_axis("mixed=off,on")]))
    said = [" ".join(map(str, cell.changes)) for cell in cells]
    assert said == ["pages=65 mixed=off", "pages=65 mixed=on", "pages=129 mixed=off", "pages=129 mixed=on"]
    refused = list(sweep(made, (), [parse_axis("prefix_page=17")]))
    assert refused[0].outcome is None and "block_granularity must divide" in refused[0].refusal


def test_without_measurements_the_times_between_plans_are_fitted(record: Any, part_of: Any, twin: Any) -> None:
    """A recording whose device was not measured is priced by its rounds and gives the same baseline."""
    part = part_of(record("--pages", "65"))
    part._loaded["forwards"] = part.table("forwards").slice(0, 0)
    made = study(part, twin)
    assert made.cost.source == "rounds" and made.baseline.figures == made.recorded


def test_requests_without_a_recorded_arrival_come_when_they_were_submitted(
    record: Any, part_of: Any, twin: Any
) -> None:
    """Where no cause was recorded the submit call is the arrival, and a note counts the requests."""
    part = part_of(record("--pages", "65"))
    submissions = part.table("submissions")
    for name in ("arrival_ns", "after", "think_ns"):
        index = submissions.schema.get_field_index(name)
        empty = submissions.schema.field(name).type
        submissions = submissions.set_column(index, submissions.schema.field(name), _nulls(len(submissions), empty))
    part._loaded["submissions"] = submissions
    made = study(part, twin)
    assert made.baseline.figures.rounds == made.recorded.rounds
    assert made.baseline.figures.retractions == made.recorded.retractions
    assert any("no recorded arrival" in note for note in made.source.notes)


def _nulls(count: int, kind: Any) -> Any:
    import pyarrow as pa

    return pa.nulls(count, kind)


def test_another_width_draws_by_the_recorded_acceptance(record: Any, part_of: Any, twin: Any) -> None:
    """Of a recording with width 4 and acceptance 0.7 the rate is learned; one of width 1 has none to learn from."""
    wide = study(part_of(record("--pages", "129", "--width", "4")), twin)
    assert wide.source.acceptance_rate is not None and 0.5 < wide.source.acceptance_rate < 0.9
    outcome = wide.run([parse_change("width=2")])
    assert outcome.figures.finished == 6 and any("drawn" in note for note in outcome.notes)
    narrow = study(part_of(record("--pages", "129")), twin)
    with pytest.raises(BadKnob, match="acceptance=RATE"):
        narrow.run([parse_change("width=4")])
    assert narrow.run([parse_change("width=4"), parse_change("acceptance=1")]).figures.finished == 6


def test_what_cannot_be_run_again_is_refused_with_its_reason(record: Any, part_of: Any, twin: Any) -> None:
    """A node of a pair and a config that the scheduler refuses end in typed errors."""
    pair = record("--pages", "65", "--pd")
    with pytest.raises(CannotRetime, match="role P"):
        study(part_of(pair, "P"), twin)
    made = study(part_of(record("--pages", "65")), twin)
    with pytest.raises(RefusedConfig, match="block_granularity must divide"):
        made.run([parse_change("prefix_page=17")])
    with pytest.raises(BadPredicate, match="retractionz"):
        Predicate("retractionz = 0", made.recorded)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pages", "expected KNOB=VALUE"),
        ("colour=red", "expected one of pages"),
        ("pages=1", "from 2 to 2,147,483,647, found '1'"),
        ("mixed=perhaps", "expected on or off"),
        ("max_new=0", "declared, undeclared or a whole number"),
        ("acceptance=2", "a number from 0 to 1"),
        ("groups=round:16", "expected one of full"),
    ],
)
def test_a_knob_says_what_it_takes(text: str, message: str) -> None:
    """A knob or value that does not exist is refused with what was expected."""
    with pytest.raises(BadKnob, match=message):
        parse_change(text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("pages=64..256:64", [64, 128, 192, 256]),
        ("pages=64..250:64", [64, 128, 192, 250]),
        ("pages=3..20:log", [3, 6, 12, 20]),
        ("pages=5,9", [5, 9]),
        ("pages=10..13", [10, 11, 12, 13]),
    ],
)
def test_an_axis_has_its_values_in_order(text: str, values: list[int]) -> None:
    """Steps reach the end of a range; log doubles; a short range has every number."""
    assert sorted({int(change.value) for change in parse_axis(text).changes}) == values
    assert [int(c.value) for c in parse_axis(text).changes] == values
