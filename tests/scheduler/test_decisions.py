"""Decisions against the plan they explain: identities that must hold in every round."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.scheduler.lives import Life, plain
from tsviz.scheduler import decisions as d
from tsviz.scheduler.plan import Plan
from tsviz.scheduler.scheduler import Scheduler
from tsviz.scheduler.states import FINISHED


class Told:
    """Everything an observer is told, by round."""

    def __init__(self) -> None:
        self.rounds: dict[int, list[tuple[int, d.Decision]]] = defaultdict(list)

    def __call__(self, round_number: int, stop: int, decision: d.Decision) -> None:
        self.rounds[round_number].append((stop, decision))


def scheduled_ids(plan: Plan) -> list[str]:
    """Requests with a row in any stream of the plan."""
    batches = [plan.batch, plan.remote_decode, plan.remote_prefill]
    return [row.request_id for batch in batches if batch is not None for row in batch.rows]


@pytest.mark.parametrize("first_seed", range(0, 40, 10))
def test_listening_changes_no_plan(first_seed: int) -> None:
    """A lifetime with an observer plans the same rounds as one without."""
    for seed in range(first_seed, first_seed + 10):
        silent, told = Life(seed), Life(seed, observer=Told())
        for number in range(25):
            first, second = silent.step(number), told.step(number)
            if first is None or second is None:
                assert first is second
                break
            assert plain(first) == plain(second)


@pytest.mark.parametrize("first_seed", range(0, 40, 10))
def test_every_live_request_has_one_cause_and_scheduled_means_a_row(first_seed: int) -> None:
    """After a round every live request has one cause of the list; it is `scheduled` iff it has a row."""
    for seed in range(first_seed, first_seed + 10):
        life = Life(seed, observer=Told())
        for number in range(25):
            plan = _step_and_look(life, number)
            if plan is None:
                break


def _step_and_look(life: Life, number: int) -> Plan | None:
    """A step whose verdicts are looked at before any event comes back."""
    seen: list[Plan] = []
    original = life.scheduler.next_plan

    def next_plan() -> Plan:
        plan = original()
        seen.append(plan)
        rows = set(scheduled_ids(plan))
        for request in life.scheduler.roster.live():
            verdict = request.verdict
            if request.state == FINISHED:
                continue
            assert verdict is not None and verdict.cause in d.CAUSES
            assert (verdict.cause == d.SCHEDULED) == (request.request_id in rows)
        return plan

    life.scheduler.next_plan = next_plan  # type: ignore[method-assign]
    try:
        return life.step(number)
    finally:
        life.scheduler.next_plan = original  # type: ignore[method-assign]


@pytest.mark.parametrize("first_seed", range(0, 40, 10))
def test_zeroed_pages_are_those_that_accepted_admissions_granted(first_seed: int) -> None:
    """Per round and group, pages to zero = the fresh pages of the admissions that stood."""
    for seed in range(first_seed, first_seed + 10):
        told = Told()
        life = Life(seed, observer=told)
        for number in range(25):
            plan = life.step(number)
            if plan is None:
                break
            last: dict[str, d.Admitted] = {}
            total: Counter[int] = Counter()
            for _, decision in told.rounds[life.scheduler.rounds]:
                if isinstance(decision, d.Admitted):
                    last[decision.request_id] = decision
            for admitted in last.values():
                total.update(dict(enumerate(admitted.fresh_pages)))
            zeroed = plan.zero_pages or ()
            assert [total[group] for group in range(len(zeroed))] == [len(pages) for pages in zeroed]


@pytest.mark.parametrize("first_seed", range(0, 120, 30))
def test_the_first_ranked_candidate_is_the_victim_and_is_quiescent(first_seed: int) -> None:
    """A retracted victim has rank 0 among the candidates of its iteration and nothing in flight."""
    found = 0
    for seed in range(first_seed, first_seed + 30):
        told = Told()
        life = Life(seed, observer=told)
        for number in range(25):
            if life.step(number) is None:
                break
        for decisions in told.rounds.values():
            for stop, decision in decisions:
                if not isinstance(decision, d.Iteration) or decision.outcome not in (
                    d.RETRACTED,
                    d.NOT_QUIESCENT,
                ):
                    continue
                found += 1
                ranked = [v for s, v in decisions if s == stop and isinstance(v, d.Victim) and v.rank == 0]
                assert [v.request_id for v in ranked] == [decision.victim_id]
                assert (ranked[0].in_flight == 0) == (decision.outcome == d.RETRACTED)
                assert not ranked[0].exempt
    assert found > 10


def test_a_refusal_that_repeats_is_the_same_object() -> None:
    """While the need of a blocked newcomer does not change, each round is told the identical `Refused`."""
    from tsviz.scheduler.config import Config, GroupConfig
    from tsviz.scheduler.scheduler import Submission

    told = Told()
    config = Config(
        prefix_granularity=2,
        max_scheduled_tokens=64,
        max_batch_size=8,
        num_device_pages=9,
        cache_groups=(GroupConfig("full", 2, 9),),
    )
    scheduler = Scheduler(config, observer=told)
    scheduler.submit([Submission("hold", [1, 2, 3, 4, 5, 6])])
    scheduler.next_plan()
    # 10 tokens and a decode slot need 6 of the 8 pages; `hold` keeps 4.
    scheduler.submit([Submission("big", [9] * 10)])
    for _ in range(2):
        scheduler.next_plan()
    refused = [
        decision
        for number in (2, 3)
        for _, decision in told.rounds[number]
        if isinstance(decision, d.Refused) and decision.request_id == "big"
    ]
    assert refused and all(one is refused[0] for one in refused)
    assert refused[0].need_pages == (6,)
    verdicts = [
        decision
        for decisions in told.rounds.values()
        for _, decision in decisions
        if isinstance(decision, d.Verdict) and decision.request_id == "big"
    ]
    assert [verdict.cause for verdict in verdicts] == [d.NOT_QUIESCENT] or verdicts[0].cause == d.CAPACITY


def test_all_causes_of_the_list_occur() -> None:
    """Random lifetimes meet every cause, so that none of the list is dead."""
    seen: set[str] = set()
    for seed in range(400):
        told = Told()
        life = Life(seed, observer=told)
        for number in range(25):
            if life.step(number) is None:
                break
        for decisions in told.rounds.values():
            seen.update(v.cause for _, v in decisions if isinstance(v, d.Verdict))
        if seen == set(d.CAUSES):
            return
    assert seen == set(d.CAUSES)
