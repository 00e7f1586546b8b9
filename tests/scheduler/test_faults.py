"""Where the reference aborts, breaks an invariant of its own or truncates a landing: the clean thing."""

from __future__ import annotations

import pytest

from tests.scheduler.lives import plain
from tsviz.scheduler import events as ev
from tsviz.scheduler import invariants
from tsviz.scheduler.config import (
    CacheGroupFamily,
    CacheRetention,
    CacheTransferPolicy,
    Config,
    GroupConfig,
    Role,
)
from tsviz.scheduler.errors import SchedulerAbort
from tsviz.scheduler.rules import RuleSet
from tsviz.scheduler.scheduler import Scheduler, Submission

FULL = GroupConfig("full", 4, 99, transfer_policy=CacheTransferPolicy.FullSuffix)
SLIDING = GroupConfig(
    "swa",
    4,
    99,
    retention=CacheRetention.SlidingWindow,
    sliding_window_tokens=4,
    transfer_policy=CacheTransferPolicy.FullSuffix,
)


def _decode_engine(rules: RuleSet) -> Scheduler:
    config = Config(
        prefix_granularity=4,
        max_scheduled_tokens=64,
        max_batch_size=4,
        role=Role.D,
        num_device_pages=33,
        cache_groups=(FULL, SLIDING),
    )
    scheduler = Scheduler(config, rules=rules)
    scheduler.submit([Submission("a", list(range(16)))])
    scheduler.advance([ev.Bootstrapped("a")])
    scheduler.next_plan()
    scheduler.advance([ev.RemotePrefillDone("a", 99)])
    scheduler.next_plan()
    scheduler.advance([ev.ExtendResult("a", (98,)), ev.Finish("a")])
    # Shares the 8 tokens of two full pages; no sliding window is cached there: promotion boundary 8.
    scheduler.submit([Submission("b", [*range(8), *range(50, 58)])])
    scheduler.advance([ev.Bootstrapped("b")])
    return scheduler


def test_a_remote_landing_is_never_cut_at_a_promotion_boundary() -> None:
    """The whole prompt of 16 tokens lands, and decodes go on past it (scheduler-rules 13.2)."""
    scheduler = _decode_engine(RuleSet())
    plan = scheduler.next_plan()
    assert plan.remote_prefill is not None
    assert [row.input_length for row in plan.remote_prefill.rows] == [16]
    scheduler.advance([ev.RemotePrefillDone("b", 97)])
    for token in range(12):
        assert [row.request_id for row in scheduler.next_plan().batch.rows] == ["b"]
        scheduler.advance([ev.ExtendResult("b", (token,))])
    scheduler.advance([ev.Finish("b")])
    invariants.check(scheduler)


def test_the_cut_of_the_reference_can_be_asked_for() -> None:
    """With `cut_remote_landings` the landing is 8 of 16 tokens, as scheduler-rules 13.2 observed."""
    plan = _decode_engine(RuleSet(cut_remote_landings=True)).next_plan()
    assert plan.remote_prefill is not None
    assert [(row.input_length, row.prefill_length) for row in plan.remote_prefill.rows] == [(8, 16)]


def test_a_surplus_result_is_refused_and_changes_nothing() -> None:
    """Where the reference aborts its process, the twin raises SchedulerAbort and keeps its state."""
    config = Config(
        prefix_granularity=4,
        max_scheduled_tokens=64,
        max_batch_size=4,
        num_device_pages=9,
        cache_groups=(FULL,),
    )
    first, second = Scheduler(config), Scheduler(config)
    for scheduler in (first, second):
        scheduler.submit([Submission("a", [1, 2, 3, 4, 5])])
        scheduler.next_plan()
        scheduler.advance([ev.ExtendResult("a", (9,))])
    with pytest.raises(SchedulerAbort, match="without a forward in flight"):
        first.advance([ev.ExtendResult("a", (9,))])
    for _ in range(3):
        assert plain(first.next_plan()) == plain(second.next_plan())


def test_a_retraction_with_events_on_describes_what_it_publishes() -> None:
    """Example 26 with events on, fatal in the reference: the retraction and its events go through (13.5)."""
    config = Config(
        prefix_granularity=4,
        max_scheduled_tokens=4,
        max_batch_size=8,
        num_device_pages=8,
        num_host_pages=20,
        enable_mixed_prefill_decode=True,
        enable_kv_cache_events=True,
        cache_groups=(FULL, GroupConfig("state", 4, 99, family=CacheGroupFamily.State)),
    )
    scheduler = Scheduler(config)
    scheduler.submit([Submission("a", list(range(8)))])
    for _ in range(2):
        plan = scheduler.next_plan()
        scheduler.advance([ev.WriteBackDone(op.op_id) for op in plan.stores])
        tokens = (50,) if plan.batch.rows[0].prefix_tokens == 4 else ()
        scheduler.advance([ev.ExtendResult("a", tokens)])
    scheduler.submit([Submission("b", [90, 91, 92, 93])])
    plan = scheduler.next_plan()
    assert [row.request_id for row in plan.batch.rows] == ["b"]
    # Example 26: op 1 stores device pages 3 and 5 of groups 0 and 1, not pinned.
    (op,) = plan.stores
    assert [(t.group, t.device_page) for t in op.transfers] == [(0, 3), (1, 5)]
    assert not op.source_pinned
    scheduler.drain_kv_events()
    invariants.check(scheduler)
