"""The small parts of the engine: clock, arrivals, options, faults, the storage tier's contents, speech."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tsviz.engine.arrivals import Arrivals
from tsviz.engine.clock import VirtualClock
from tsviz.engine.configs import GroupKind, GroupOptions, GroupSpecError, SchedulerOptions, parse_groups
from tsviz.engine.copies import CopyEngine
from tsviz.engine.cost import DeviceCost
from tsviz.engine.faults import AckFaults, ClientAbort, ClientAborts, seeded_unit
from tsviz.engine.port import StorageKey
from tsviz.engine.speech import Speech, SpeechOptions
from tsviz.engine.tier import StorageOptions, StorageTier
from tsviz.engine.workloads.model import WorkRequest, expand


def test_a_clock_never_goes_back() -> None:
    """Waiting for the past leaves the clock where it is; a negative span is refused."""
    clock = VirtualClock(10)
    clock.wait_until_ns(5)
    clock.advance(3)
    assert clock.now_ns() == 13
    with pytest.raises(ValueError, match="-1 ns"):
        clock.advance(-1)


def test_arrivals_are_in_order(ask: Any) -> None:
    """Requests come by time, ties in workload order, followers their think time after the end."""
    arrivals = Arrivals(
        [ask("b", 1, 1, at=5), ask("a", 1, 1, at=5), ask("c", 1, 1, at=1), ask("d", 1, 1, after="c", think=2)]
    )
    assert [(r.request_id, a.arrival_ns) for r, a in arrivals.take(5)] == [("c", 1), ("b", 5), ("a", 5)]
    assert (len(arrivals), arrivals.next_ns()) == (1, None)
    arrivals.ended("c", 40)
    assert arrivals.next_ns() == 42
    assert arrivals.take(41) == []
    assert [(r.request_id, a) for r, a in arrivals.take(42)] == [("d", (42, "c", 2))]


def test_arrivals_say_what_is_wrong(ask: Any) -> None:
    """A request without a reason to arrive, or after one that is not there, is refused by name."""
    with pytest.raises(ValueError, match="'x': expected exactly one of arrival_ns and after"):
        Arrivals([WorkRequest("x", (), (), 0)])
    with pytest.raises(ValueError, match="'y': comes after 'z', which is not in the workload"):
        Arrivals([ask("y", 1, 1, after="z")])


def test_groups_in_words() -> None:
    """A group says its kind and block, then what differs from the plain case."""
    assert parse_groups("full:16, sliding:8:w=64:replayable,state:16:k=2:id=mamba,full:4:shards=2:k=2") == (
        GroupOptions(GroupKind.FULL, 16, "full"),
        GroupOptions(GroupKind.SLIDING, 8, "sliding", window_tokens=64, replayable=True),
        GroupOptions(GroupKind.STATE, 16, "mamba", packing=2),
        GroupOptions(GroupKind.FULL, 4, "full2", packing=2, shards=2),
    )


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("", "group '': expected one of full, sliding, state first, found ''"),
        ("fool:16", "found 'fool'"),
        ("full", "group 'full': expected a positive whole number for tokens a block, found ''"),
        ("full:0", "found '0'"),
        ("full:16:w=4", "group 'full:16:w=4': expected one of id=, k=, shards=, found 'w=4'"),
        ("sliding:16", "needs its window, w=TOKENS"),
        ("sliding:16:w=x", "expected a positive whole number for w, found 'x'"),
        ("full:16:id=a,state:16:id=a", "id 'a' is taken"),
    ],
)
def test_groups_in_wrong_words(spec: str, says: str) -> None:
    """What is wrong with a group is said with the group, what was expected and what was found."""
    with pytest.raises(GroupSpecError) as caught:
        parse_groups(spec)
    assert says in str(caught.value)


@pytest.mark.oracle
def test_the_real_package_takes_the_options(real: Any) -> None:
    """Built options are the scheduler's: every field arrives, and the scheduler accepts them."""
    options = SchedulerOptions(
        parse_groups("full:16,sliding:16:w=64:k=2"), num_device_pages=100, num_host_pages=50, mixed=True, storage=True
    )
    config = options.build(real)
    assert (config.prefix_granularity, config.max_scheduled_tokens, config.max_batch_size) == (16, 2048, 64)
    assert (config.num_device_pages, config.num_host_pages) == (100, 50)
    assert (config.enable_mixed_prefill_decode, config.enable_l3_storage, config.disable_prefix_cache) == (
        True,
        True,
        False,
    )
    full, sliding = config.cache_groups
    assert (full.group_id, full.total_pages, sliding.sliding_window_tokens) == ("full", 100, 64)
    # 99 usable parents of two blocks each, and the null page.
    assert (sliding.total_pages, sliding.retention) == (199, real.CacheRetention.SlidingWindow)
    assert real.Scheduler(config).max_single_request_tokens() > 0


def test_seeds_decide_alone() -> None:
    """A seeded number depends on seed and parts, lies in [0, 1) and is spread evenly."""
    numbers = [seeded_unit(1, "x", i) for i in range(2_000)]
    assert numbers == [seeded_unit(1, "x", i) for i in range(2_000)]
    assert seeded_unit(2, "x", 0) != numbers[0]
    assert 0 <= min(numbers) < max(numbers) < 1
    # The mean of 2,000 even numbers is 0.5 with a deviation of 0.0065.
    assert abs(sum(numbers) / 2_000 - 0.5) < 0.03


def test_clients_give_up_after_they_arrived() -> None:
    """The time of an abort runs from the arrival of its request."""
    aborts = ClientAborts([ClientAbort("a", 5), ClientAbort("never", 1)])
    assert aborts.next_ns() is None
    aborts.arrived("a", 100)
    aborts.arrived("b", 100)
    assert aborts.next_ns() == 105
    assert (aborts.take(104), aborts.take(105), aborts.take(900)) == ([], ["a"], [])


def test_copies_queue_and_fence() -> None:
    """Stores of a direction queue up, only unpinned ones fence, loads follow the fence, and faults hit by op id."""
    cost = DeviceCost(store_page_ns=10, load_page_ns=100, ack_delay_ns=1)
    faults = AckFaults(lost_ops=frozenset({2}), failed_load_ops=frozenset({3}), delayed_ops={0: 1_000})
    copies = CopyEngine(cost, faults, None)
    stores = SimpleNamespace(op_ids=[0, 1, 2], source_pinned=[True, False, True], group_ids=[[0, 0], [0], [0]])
    loads = SimpleNamespace(op_ids=[3, 4], group_ids=[[0], [0]])
    planned: Any = SimpleNamespace(stores=stores, loads=loads, failed_loads=frozenset({4}))
    # From 50: op 0 ends at 70, op 1 (the fence) at 80, op 2 at 90; load 3 from 80 to 180; 4 copies nothing.
    assert copies.launch(planned, 50) == 180
    assert copies.next_ns() == 81
    assert copies.poll(80) == []
    assert copies.poll(81) == [(1, True, True), (4, False, False)]
    assert copies.poll(10_000) == [(3, False, False), (0, True, True)]
    assert copies.next_ns() is None


def test_what_vanished_stays_gone_until_it_is_stored() -> None:
    """A page that a fetch missed is absent for probes until a store brings it back, and then it stays."""
    tier = StorageTier(StorageOptions(present_rate=1.0, vanishing=frozenset({"h"})))
    key, other = StorageKey(0, "h", 0), StorageKey(0, "i", 0)
    assert (tier.exists(key), tier.get(key), tier.exists(key), tier.get(other)) == (True, False, False, True)
    tier.put([key])
    assert (tier.exists(key), tier.get(key), tier.get(key)) == (True, True, True)


def test_storage_that_keeps_nothing() -> None:
    """Without keeping stores a page that was written back is not there."""
    tier = StorageTier(StorageOptions(keeps_stores=False))
    tier.put([StorageKey(0, "h", 0)])
    assert not tier.exists(StorageKey(0, "h", 0))


def _planned(request: WorkRequest, length: int, prefill: int, prefix: int) -> Any:
    is_extend = prefix >= 0
    return SimpleNamespace(
        request_ids=[request.request_id],
        requests=[request],
        num_extends=int(is_extend),
        input_lengths=[length],
        prefill_lengths=[prefill],
        extend_prefix_lens=[prefix] if is_extend else [],
    )


def test_speech_goes_on_where_it_was(ask: Any) -> None:
    """A chunk that does not complete says nothing; a retracted request's prompt counts what it had said."""
    request = ask("a", 10, 6)
    output = expand(request.output).tolist()
    speech = Speech(SpeechOptions(), 1, drafts=False)
    assert speech.rows(_planned(request, 4, 10, 0)).tokens == [()]
    assert speech.rows(_planned(request, 6, 10, 4)).tokens == [output[:1]]
    assert speech.rows(_planned(request, 1, 10, -1)).tokens == [output[1:2]]
    assert speech.rows(_planned(request, 12, 12, 0)).tokens == [output[2:3]]
    assert speech.rows(_planned(request, 1, 12, -1)).tokens == [output[3:4]]


def test_speculation_ends_with_the_output(ask: Any) -> None:
    """Every candidate accepted: windows of 3 behind the first token, cut at the end of the output."""
    request = ask("a", 4, 6)
    output = expand(request.output).tolist()
    speech = Speech(SpeechOptions(acceptance_rate=1.0), 3, drafts=False)
    said = [speech.rows(_planned(request, 4, 4, 0)).tokens[0]]
    said += [speech.rows(_planned(request, 3, 4, -1)).tokens[0] for _ in range(3)]
    assert said == [output[:1], output[1:4], output[4:6], []]


def test_a_drafter_offers_what_comes(ask: Any) -> None:
    """Candidates start with the token itself, follow the output and are filled up at its end."""
    request = ask("a", 4, 2)
    first, second = expand(request.output).tolist()
    speech = Speech(SpeechOptions(), 4, drafts=True)
    assert speech.rows(_planned(request, 4, 4, 0)).candidates == [[first, second, second, second]]
