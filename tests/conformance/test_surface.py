"""The public surface of scheduler-rules 1: names, defaults, binding rules, texts and array exports."""

from __future__ import annotations

import copy
import enum
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.conformance.notation import Drive, full, state

_EXPORTS = {
    "Scheduler",
    "SchedulerConfig",
    "RequestSpec",
    "CacheRetention",
    "CacheGroupConfig",
    "CacheGroupFamily",
    "CacheTransferPolicy",
    "CapacityModel",
    "ExecutionPlan",
    "ExecutionEvent",
    "Forward",
    "PD",
    "Cache",
    "KVEvent",
    "ForwardEvent",
}
_NAMESPACES = {
    "Forward": {"Batch"},
    "PD": {"BootstrappedEvent", "FailedEvent", "RemotePrefillDoneEvent", "SucceededEvent"},
    "Cache": {"LoadBackDoneEvent", "LoadBackOp", "WriteBackDoneEvent", "WriteBackOp"},
    "KVEvent": {"BlockRemoved", "BlockStored"},
    "ForwardEvent": {"Abort", "ExtendResult", "Finish", "Retract", "UpdateReserveNumTokens"},
}
_CONFIG_DEFAULTS = {
    "prefix_granularity": 0,
    "max_scheduled_tokens": 0,
    "max_batch_size": 0,
    "decode_input_tokens": 1,
    "overlap_schedule_depth": 0,
    "num_device_pages": 0,
    "num_host_pages": 0,
    "cache_groups": [],
    "disable_l2_cache": False,
    "enable_l3_storage": False,
    "enable_kv_cache_events": False,
    "enable_mixed_prefill_decode": False,
    "disable_prefix_cache": False,
    "prefix_replay_tokens": 0,
}
_GROUP_DEFAULTS = {
    "group_id": "",
    "block_granularity": 0,
    "total_pages": 0,
    "sliding_window_tokens": None,
    "cache_blocks_per_lcm_block": 1,
    "shard_count": 1,
    "replayable": False,
}


def test_every_name_is_there(module: ModuleType) -> None:
    """The module and its namespaces export every documented name."""
    assert set(dir(module)) >= _EXPORTS
    for namespace, names in _NAMESPACES.items():
        assert set(dir(getattr(module, namespace))) >= names


def test_enums(module: ModuleType) -> None:
    """Enums are enum.Enum members with the documented values."""
    role = module.SchedulerConfig.Role
    members = {kind: {one.name: one.value for one in kind} for kind in (role, module.CacheTransferPolicy)}
    assert members[role] == {"P": 0, "D": 1, "Fused": 2}
    assert members[module.CacheTransferPolicy] == {"Unspecified": 0, "FullSuffix": 1, "LatestSnapshot": 2}
    assert {one.name: one.value for one in module.CacheRetention} == {"FullHistory": 0, "SlidingWindow": 1}
    assert {one.name: one.value for one in module.CacheGroupFamily} == {"History": 0, "State": 1}
    assert issubclass(role, enum.Enum)


def test_config_defaults(module: ModuleType) -> None:
    """A fresh configuration holds the documented defaults."""
    config = module.SchedulerConfig()
    assert {name: getattr(config, name) for name in _CONFIG_DEFAULTS} == _CONFIG_DEFAULTS
    assert config.role is module.SchedulerConfig.Role.Fused
    group = module.CacheGroupConfig()
    assert {name: getattr(group, name) for name in _GROUP_DEFAULTS} == _GROUP_DEFAULTS
    assert group.retention is module.CacheRetention.FullHistory
    assert group.family is module.CacheGroupFamily.History
    assert group.transfer_policy is module.CacheTransferPolicy.Unspecified


def test_group_arguments(module: ModuleType) -> None:
    """A group takes its arguments in the documented order, or by keyword."""
    sliding, history = module.CacheRetention.SlidingWindow, module.CacheGroupFamily.History
    policy = module.CacheTransferPolicy.FullSuffix
    positional = module.CacheGroupConfig("g", 2, 9, sliding, 8, history, 4, policy, 2, True)
    named = module.CacheGroupConfig(
        group_id="g",
        block_granularity=2,
        total_pages=9,
        retention=sliding,
        sliding_window_tokens=8,
        family=history,
        cache_blocks_per_lcm_block=4,
        transfer_policy=policy,
        shard_count=2,
        replayable=True,
    )
    for name in ("group_id", "block_granularity", "sliding_window_tokens", "shard_count", "replayable"):
        assert getattr(positional, name) == getattr(named, name)
    assert positional.cache_blocks_per_lcm_block == 4
    with pytest.raises(TypeError):
        module.CacheGroupConfig("g")


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("prefix_granularity", 1.0),
        ("prefix_granularity", "4"),
        ("prefix_granularity", None),
        ("prefix_granularity", 2**31),
        ("prefix_granularity", np.float32(1)),
        ("disable_l2_cache", 1),
        ("disable_l2_cache", None),
        ("disable_l2_cache", np.bool_(True)),
        ("role", "P"),
        ("role", 9),
        ("cache_groups", 3),
        ("cache_groups", [1]),
        ("cache_groups", "ab"),
    ],
)
def test_wrong_types_are_type_errors(module: ModuleType, name: str, bad: Any) -> None:
    """A value of the wrong type or range is a TypeError and leaves the attribute as it was."""
    config = module.SchedulerConfig()
    before = getattr(config, name)
    with pytest.raises(TypeError):
        setattr(config, name, bad)
    assert getattr(config, name) == before


@pytest.mark.parametrize("good", [4, True, np.int64(4), np.uint8(4), -(2**31), 2**31 - 1])
def test_integers_of_every_kind(module: ModuleType, good: Any) -> None:
    """Python ints, bools and numpy integers within int32 are accepted and read back as ints."""
    config = module.SchedulerConfig()
    config.max_batch_size = good
    assert config.max_batch_size == int(good)
    assert type(config.max_batch_size) is int


@pytest.mark.parametrize("good", [[1, 2], (1, 2), range(1, 3), np.array([1, 2]), np.array([1, 2], dtype=np.int32)])
def test_sequences_of_every_kind(module: ModuleType, good: Any) -> None:
    """Lists, tuples, ranges and arrays become a fresh list at every reading."""
    spec = module.RequestSpec()
    spec.tokens = good
    assert spec.tokens == [1, 2]
    spec.tokens.append(3)
    assert spec.tokens == [1, 2]


@pytest.mark.parametrize("bad", [iter([1]), "12", {1: 2}, {1, 2}, None, 5, [1.5], [None], [2**31]])
def test_what_is_no_sequence_of_ints(module: ModuleType, bad: Any) -> None:
    """Iterators, text, sets and floats inside are TypeErrors."""
    spec = module.RequestSpec()
    with pytest.raises(TypeError):
        spec.tokens = bad
    assert spec.tokens == []


def test_enum_attributes_accept_their_integer(module: ModuleType) -> None:
    """An enum attribute may be set by value."""
    config = module.SchedulerConfig()
    config.role = 1
    assert config.role is module.SchedulerConfig.Role.D


def test_group_lists_alias_their_elements(module: ModuleType) -> None:
    """Elements of the list read write through to the configuration; append is lost; assignment copies."""
    config, group = module.SchedulerConfig(), module.CacheGroupConfig("g", 4, 9)
    config.cache_groups = [group]
    group.block_granularity = 2
    assert config.cache_groups[0].block_granularity == 4
    config.cache_groups[0].block_granularity = 8
    assert config.cache_groups[0].block_granularity == 8
    config.cache_groups.append(group)
    assert len(config.cache_groups) == 1


def test_unknown_and_read_only_attributes(module: ModuleType) -> None:
    """Unknown names and assignments to what is read-only are AttributeErrors."""
    with pytest.raises(AttributeError):
        module.SchedulerConfig().no_such = 1
    with pytest.raises(AttributeError):
        module.RequestSpec().no_such = 1
    for event in (module.PD.BootstrappedEvent("a"), module.PD.RemotePrefillDoneEvent("a", 1)):
        assert event.request_id == "a"
        with pytest.raises(AttributeError):
            event.request_id = "b"
    with pytest.raises(AttributeError):
        module.ExecutionPlan().forward = []


def test_identity_and_no_copies(module: ModuleType) -> None:
    """Objects compare by identity, and configurations refuse to be copied or pickled."""
    assert module.SchedulerConfig() != module.SchedulerConfig()
    assert len({module.RequestSpec(), module.RequestSpec()}) == 2
    with pytest.raises(TypeError):
        copy.copy(module.SchedulerConfig())


def test_event_defaults(module: ModuleType) -> None:
    """Forward events take no arguments and start empty; cache and PD events want theirs."""
    result = module.ForwardEvent.ExtendResult()
    assert (result.request_id, result.tokens, result.spec_candidate_ids) == ("", [], [])
    for name in ("Finish", "Abort", "Retract"):
        assert getattr(module.ForwardEvent, name)().request_id == ""
    assert module.ForwardEvent.UpdateReserveNumTokens().reserve_num_tokens_in_next_schedule_event == 0
    assert module.Cache.WriteBackDoneEvent().op_id == 0
    loaded = module.Cache.LoadBackDoneEvent(3, False)
    assert (loaded.op_id, loaded.success) == (3, False)
    for kind, arguments in (
        (module.Cache.LoadBackDoneEvent, (3,)),
        (module.PD.BootstrappedEvent, ()),
        (module.PD.RemotePrefillDoneEvent, ("a",)),
        (module.ForwardEvent.Finish, ("a",)),
        (module.Forward.Batch, ()),
        (module.Cache.LoadBackOp, ()),
        (module.Cache.WriteBackOp, ()),
        (module.KVEvent.BlockStored, ()),
        (module.KVEvent.BlockRemoved, ()),
    ):
        with pytest.raises(TypeError):
            kind(*arguments)


@pytest.mark.parametrize("bad", [-1, 2**32])
def test_operation_ids_are_unsigned(module: ModuleType, bad: int) -> None:
    """Operation ids fit uint32."""
    event = module.Cache.WriteBackDoneEvent()
    event.op_id = 2**32 - 1
    assert event.op_id == 2**32 - 1
    with pytest.raises(TypeError):
        event.op_id = bad


def test_events_are_stored_as_copies(module: ModuleType) -> None:
    """``add_event`` copies, returns its own object, and an ExecutionEvent may be advanced again."""
    drive = Drive(module, [full(2)], page=2, pages=9)
    for name in ("a", "b"):
        drive.submit(name, 2)
    abort = module.ForwardEvent.Abort()
    abort.request_id = "a"
    execution = module.ExecutionEvent()
    assert execution.add_event(abort) is execution
    abort.request_id = "b"
    drive.scheduler.advance(execution)
    drive.scheduler.advance(execution)
    assert drive.waiting == 1
    with pytest.raises(TypeError):
        execution.add_event("Abort")


def test_an_empty_plan(module: ModuleType) -> None:
    """A plan made by hand is empty; one of an idle scheduler has one batch without rows."""
    plan = module.ExecutionPlan()
    assert (plan.forward, plan.cache, plan.remote_decode, plan.remote_prefill) == ([], [], None, None)
    assert (plan.pages_to_zero, plan.pages_to_zero_arrays()) == ({}, {})
    idle = Drive(module, [full(2)], page=2, pages=9).scheduler.next_execution_plan()
    batch = idle.forward[0]
    assert len(idle.forward) == 1
    assert (batch.request_ids, batch.num_extends(), batch.block_tables, batch.block_tables_arrays()) == (
        [],
        0,
        {},
        {},
    )
    assert (idle.cache, idle.pages_to_zero) == ([], {})


def test_array_exports(module: ModuleType) -> None:
    """Arrays are read-only int32, rows padded with -1 per group, in key order, and outlive their plan."""
    drive = Drive(module, [full(4, "z"), state(4, "a")], page=4, pages=33)
    drive.submit("long", 11)
    drive.submit("short", 3)
    plan = drive.scheduler.next_execution_plan()
    tables, zeroed = plan.forward[0].block_tables_arrays(), plan.pages_to_zero_arrays()
    lists = plan.forward[0].block_tables
    assert list(tables) == list(lists) == list(zeroed) == ["a", "z"]
    del plan
    for name, table in tables.items():
        assert (table.dtype, table.ndim, table.flags.writeable) == (np.int32, 2, False)
        assert table.tolist() == lists[name]
        with pytest.raises(ValueError, match="read-only"):
            table[0, 0] = 1
    # Eleven tokens and one step: three pages of four; three tokens and one step: one page, padded twice.
    assert lists["z"] == [[1, 2, 3], [7, -1, -1]]
    assert (zeroed["z"].dtype, zeroed["z"].ndim, zeroed["z"].tolist()) == (np.int32, 1, [1, 2, 3, 7])


def test_batches_are_fresh_at_each_reading(module: ModuleType) -> None:
    """Each access to ``forward`` gives new objects whose lists can be changed without effect."""
    drive = Drive(module, [full(2)], page=2, pages=9)
    drive.submit("a", 3)
    plan = drive.scheduler.next_execution_plan()
    assert plan.forward[0] is not plan.forward[0]
    plan.forward[0].request_ids.append("b")
    assert plan.forward[0].request_ids == ["a"]
    with pytest.raises(AttributeError):
        plan.forward[0].request_ids = []


def test_the_text_of_a_batch(module: ModuleType) -> None:
    """The text form lists the prefill side of the batch."""
    drive = Drive(module, [full(2)], page=2, pages=9)
    drive.submit("a", [5, 6, 7])
    assert repr(drive.scheduler.next_execution_plan().forward[0]) == (
        "ForwardBatch(request_ids=['a'], request_pool_indices=[1], input_lengths=[3], input_ids=[5, 6, 7], "
        "shifted_input_ids=[6, 7, -1], extend_prefix_lens=[0], extend_replay_lens=[0], num_extends=1)"
    )


def test_submission_texts(module: ModuleType) -> None:
    """A refused batch inserts nothing, and says why."""
    drive = Drive(module, [full(2)], page=2, pages=9)
    own = drive.scheduler

    def submit(*specs: tuple[str, list[int], int]) -> None:
        built = []
        for request_id, tokens, new in specs:
            spec = module.RequestSpec()
            spec.request_id, spec.tokens, spec.max_new_tokens = request_id, tokens, new
            built.append(spec)
        own.submit_requests(built)

    for spec, text in (
        (("b", [], 0), "Scheduler: request tokens must be non-empty"),
        (("a", [1], 0), "Scheduler: duplicate request id 'a'"),
        (("b", [1], -1), "Scheduler: max_new_tokens must be non-negative"),
        (("b", [1], 2**31 - 1), "Scheduler: request token limit exceeds int32 range"),
        (("b", [1] * 16, 0), "Scheduler: request token limit exceeds cache capacity"),
        (("b", [1] * 8, 9), "Scheduler: request token limit exceeds cache capacity"),
    ):
        with pytest.raises(ValueError) as caught:
            submit(("a", [1], 0), spec)
        assert text in str(caught.value)
        assert drive.waiting == 0
    submit(("", [1] * 15, 0), ("a", [-5], 0))
    submit()
    assert drive.waiting == 2


def test_queries_of_what_is_not_there(module: ModuleType) -> None:
    """Unknown groups are IndexErrors; unknown requests have size -1 and no pin."""
    own = Drive(module, [full(2)], page=2, pages=9).scheduler
    for query in (own.cache_group_total_pages, own.cache_group_available_pages):
        with pytest.raises(IndexError, match="Scheduler: unknown cache group 'x'"):
            query("x")
    assert own.cache_group_total_pages("full") == 9999
    assert (own.request_token_size("x"), own.pd_transfer_pinned("x")) == (-1, False)


def test_storage_keys(module: ModuleType) -> None:
    """Lists must be aligned even without storage; ids out of range are refused by register alone."""
    plain = Drive(module, [full(2)], page=2, pages=9).scheduler
    stored = Drive(module, [full(2)], page=2, pages=9, num_host_pages=9, enable_l3_storage=True).scheduler
    for own in (plain, stored):
        for name in ("register_storage_keys", "unregister_storage_keys"):
            with pytest.raises(ValueError, match=f"{name} requires aligned group/hash/offset lists"):
                getattr(own, name)([0], ["h"], [])
            with pytest.raises(TypeError):
                getattr(own, name)([-1], ["h"], [0])
        own.unregister_storage_keys([9], ["h"], [0])
    plain.register_storage_keys([9], ["h"], [0])
    with pytest.raises(RuntimeError):
        stored.register_storage_keys([9], ["h"], [0])
    stored.register_storage_keys([0], ["any text"], [-7])
    with pytest.raises(TypeError):
        stored.expand_prefix_keys("ab")
