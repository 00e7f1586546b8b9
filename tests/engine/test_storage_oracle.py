"""The storage tier in front of the real scheduler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tsviz.engine.configs import SchedulerOptions, parse_groups
from tsviz.engine.run import RunOptions, run_workload
from tsviz.engine.simulated import SimulatedOptions
from tsviz.engine.summary import EndReason
from tsviz.engine.tier import StorageOptions
from tsviz.engine.workloads.model import expand

pytestmark = pytest.mark.oracle

WITH_STORAGE = SchedulerOptions(
    parse_groups("full:4"),
    prefix_granularity=4,
    max_scheduled_tokens=32,
    max_batch_size=8,
    num_device_pages=65,
    num_host_pages=65,
    storage=True,
)


def stored(**options: Any) -> RunOptions:
    return RunOptions(device=SimulatedOptions(storage=StorageOptions(**options)))


def test_what_is_in_storage_is_not_computed(logged: Any, ask: Any, together: Any) -> None:
    """With every page in storage only the last page of a 21-token prompt is computed: 20 tokens are loaded."""
    summary = run_workload(logged, WITH_STORAGE, together(ask("a", 21, 2)), stored(present_rate=1.0))
    assert summary.finished == 1
    rows = [row for rows in logged.rows() for row in rows]
    assert rows[0] == ("a", 1, 20)
    assert [e[2] for e in logged.events("LoadBackDoneEvent")] == [True]


@pytest.mark.parametrize("depth", [0, 1])
def test_a_miss_retracts_and_is_computed_again(logged: Any, real: Any, ask: Any, together: Any, depth: int) -> None:
    """A page that vanished: no forward, load failed, row retracted, then a hit of 12 tokens instead of 16."""
    request = ask("a", 17, 3)
    options = replace(WITH_STORAGE, overlap_schedule_depth=depth)
    hashes = real.Scheduler(options.build(real)).prefix_hashes_for_tokens(expand(request.prompt))
    summary = run_workload(logged, options, together(request), stored(present_rate=1.0, vanishing={hashes[3]}))
    assert (summary.reason, summary.finished) == (EndReason.DRAINED, 1)
    assert [row for rows in logged.rows() for row in rows][:2] == [("a", 1, 16), ("a", 5, 12)]
    assert [e[1] for e in logged.events("Retract")] == ["a"]
    assert [e[2] for e in logged.events("LoadBackDoneEvent")] == [False, True]
    # One result for each forward that ran: a prompt and two decodes.
    assert [len(e[3]) for e in logged.events("ExtendResult")] == [1, 1, 1]


def test_a_miss_drops_the_whole_batch(logged: Any, ask: Any, together: Any) -> None:
    """Everybody in the batch of a miss is retracted and says every token all the same."""
    requests = [ask(f"r{i}", 17 + i, 9, at=i * 40_000_000) for i in range(6)]
    for depth in (0, 1):
        logged.log.clear()
        options = replace(WITH_STORAGE, mixed=True, overlap_schedule_depth=depth)
        summary = run_workload(logged, options, together(*requests), stored(present_rate=1.0, vanish_rate=0.3))
        assert (summary.reason, summary.finished) == (EndReason.DRAINED, 6)
        assert len(logged.events("Retract")) > sum(not e[2] for e in logged.events("LoadBackDoneEvent")) > 0
        said: dict[str, list[int]] = {}
        for _, request_id, _, tokens in logged.events("ExtendResult"):
            said.setdefault(request_id, []).extend(tokens)
        assert said == {r.request_id: expand(r.output).tolist() for r in requests}


def test_what_was_written_back_is_there(logged: Any, ask: Any, together: Any) -> None:
    """A prompt that was written back once is loaded from storage after device and host have forgotten it."""
    options = replace(WITH_STORAGE, num_device_pages=17, num_host_pages=9)
    others = [ask(f"x{i}", 28, 2, at=(i + 1) * 10**9) for i in range(4)]
    workload = together(ask("first", 17, 2, source=7), *others, ask("again", 17, 2, source=7, at=10**10))
    summary = run_workload(logged, options, workload, stored())
    assert summary.finished == 6
    assert ("again", 1, 16) in [row for rows in logged.rows() for row in rows]
    flags = [
        f
        for p in logged.plans()
        for op in p.cache
        if hasattr(op, "prefetch_from_storage")
        for f in op.prefetch_from_storage
    ]
    assert any(any(f) for f in flags)
