"""Mirrored ranks of the real scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tsviz.engine.configs import SchedulerOptions, parse_groups
from tsviz.engine.ranks import Perturbation, PerturbationKind, run_ranks
from tsviz.engine.run import RunOptions
from tsviz.engine.simulated import SimulatedOptions
from tsviz.engine.summary import EndReason
from tsviz.engine.tier import StorageOptions
from tsviz.engine.workloads.model import Workload

pytestmark = pytest.mark.oracle

RANK = SchedulerOptions(
    parse_groups("full:4"),
    prefix_granularity=4,
    max_scheduled_tokens=32,
    max_batch_size=8,
    num_device_pages=25,
    num_host_pages=65,
    mixed=True,
)


@pytest.fixture
def crowd(ask: Any, together: Any) -> Workload:
    """Ten requests that do not fit at once."""
    return together(*[ask(f"r{i}", 13 + i, 14, declared=False, source=i % 4, at=i * 10_000_000) for i in range(10)])


def test_mirrored_ranks_plan_alike(logged_again: Callable[[], Any], crowd: Workload) -> None:
    """Ranks that are fed alike plan alike, to the row, and log the same calls."""
    ranks = [logged_again() for _ in range(3)]
    summary = run_ranks(ranks, RANK, crowd, RunOptions())
    assert (summary.reason, summary.finished) == (EndReason.DRAINED, 10)
    assert summary.retractions > 0
    assert ranks[0].rows() == ranks[1].rows() == ranks[2].rows()
    calls = [[c for c in rank.log if c[0] != "plan"] for rank in ranks]
    assert calls[0] == calls[1] == calls[2]


def test_a_page_fewer_ends_the_run_where_rows_part(logged_again: Callable[[], Any], crowd: Workload) -> None:
    """A rank with one page fewer parts from rank 0; the run ends, naming it, at the first result it cannot take."""
    ranks = [logged_again(), logged_again()]
    perturbation = Perturbation(PerturbationKind.PAGE_FEWER, rank=1)
    summary = run_ranks(ranks, RANK, crowd, RunOptions(max_rounds=2_000), perturbation)
    assert summary.reason is EndReason.RANK_FAILED
    assert summary.detail.startswith("rank 1, after ")
    assert ranks[0].rows()[-1] != ranks[1].rows()[-1]
    assert ranks[0].rows()[:-1] == ranks[1].rows()[:-1]


def test_an_event_a_round_late(logged_again: Callable[[], Any], crowd: Workload) -> None:
    """A rank that applies one store's acknowledgement a round late logs it one plan later than rank 0 does."""
    ranks = [logged_again(), logged_again()]
    perturbation = Perturbation(PerturbationKind.LATE_EVENT, rank=1, event="Stored")
    run_ranks(ranks, RANK, crowd, RunOptions(max_rounds=2_000), perturbation)

    def plans_before_first_store(rank: Any) -> int:
        plans = 0
        for call in rank.log:
            if call[0] == "plan":
                plans += 1
            elif call[0] == "advance" and any(e[:2] == ("WriteBackDoneEvent", first) for e in call[1]):
                return plans
        raise AssertionError("no store")

    first = ranks[0].events("WriteBackDoneEvent")[0][1]
    assert plans_before_first_store(ranks[1]) == plans_before_first_store(ranks[0]) + 1


def test_a_late_finish_is_refused(logged_again: Callable[[], Any], crowd: Workload) -> None:
    """A rank that hears of a finish a round late schedules the request once more than rank 0."""
    ranks = [logged_again(), logged_again()]
    perturbation = Perturbation(PerturbationKind.LATE_EVENT, rank=1, event="Finished")
    run_ranks(ranks, RANK, crowd, RunOptions(max_rounds=2_000), perturbation)
    finished = ranks[0].events("Finish")[0][1]
    decodes = [sum(r[0] == finished and r[2] < 0 for rows in rank.rows() for r in rows) for rank in ranks]
    assert decodes[1] == decodes[0] + 1


def test_a_storage_key_that_one_rank_misses(logged_again: Callable[[], Any], ask: Any, together: Any) -> None:
    """A rank without the first key of a prompt computes what rank 0 loads."""
    ranks = [logged_again(), logged_again()]
    run = RunOptions(device=SimulatedOptions(storage=StorageOptions(present_rate=1.0)), max_rounds=50)
    perturbation = Perturbation(PerturbationKind.MISSING_KEY, rank=1)
    run_ranks(ranks, replace(RANK, storage=True), together(ask("a", 21, 2)), run, perturbation)
    assert [rank.rows()[0] for rank in ranks] == [[("a", 1, 20)], [("a", 21, 0)]]


def test_rank_0_drives_and_is_not_perturbed(logged_again: Callable[[], Any], crowd: Workload) -> None:
    """Only a rank that is there, and not rank 0, can be perturbed."""
    for rank in (0, 2):
        with pytest.raises(ValueError, match=rf"rank in 1\.\.1, found {rank}"):
            run_ranks(
                [logged_again(), logged_again()],
                RANK,
                crowd,
                RunOptions(),
                Perturbation(PerturbationKind.PAGE_FEWER, rank=rank),
            )
