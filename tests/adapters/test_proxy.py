"""The recording proxy: what it records is what the scheduler was told, and nothing else about the program changes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tsviz.adapters import tokenspeed
from tsviz.adapters.tokenspeed import recording_module
from tsviz.trace import entries as e
from tsviz.trace.recorder import Recorder


class Rig:
    """A recorded scheduler whose entries are looked at directly; its clock counts the calls."""

    def __init__(self, real: ModuleType) -> None:
        self.real = real
        self.recorder = Recorder(lambda: 0)
        self.module = recording_module(real, lambda _: self.recorder)
        config = real.SchedulerConfig()
        config.prefix_granularity, config.max_scheduled_tokens, config.max_batch_size = 4, 16, 4
        config.num_device_pages = 33
        config.cache_groups = [real.CacheGroupConfig("full", 4, 32)]
        self.config = config
        self.scheduler = self.module.Scheduler(config)

    def submit(self, name: str, tokens: list[int]) -> Any:
        """Submit a request."""
        spec = self.module.RequestSpec()
        spec.request_id, spec.tokens = name, tokens
        return self.scheduler.submit_requests([spec])

    def result(self, name: str, tokens: list[int]) -> Any:
        """Return a result event."""
        made = self.module.ForwardEvent.ExtendResult()
        made.request_id, made.tokens = name, tokens
        return made

    def running(self) -> None:
        """Bring request `a` to where it takes results, with two rows out."""
        self.submit("a", [1, 2, 3])
        self.scheduler.next_execution_plan()
        self.scheduler.next_execution_plan()
        self.taken()

    def taken(self) -> list[e.Entry]:
        """Return what was recorded since the last time."""
        return self.recorder.take(1000)

    def events(self) -> list[e.Event]:
        """Return the events of the only call that was recorded, as the writer reads them."""
        from tsviz.trace.api_events import event_reader

        (entry,) = self.taken()
        assert isinstance(entry, e.AdvanceEntry)
        reader = event_reader(self.real)
        return [v if type(v) is e.Event else reader[type(v)](v) for v in entry.events]


@pytest.fixture
def rig(real: ModuleType) -> Rig:
    """A fresh recorded scheduler."""
    return Rig(real)


def test_an_event_that_is_changed_and_added_again_is_recorded_as_it_was_each_time(rig: Rig) -> None:
    """One object added twice with other tokens is two events with the tokens that it had when it was added."""
    rig.running()
    execution, event = rig.module.ExecutionEvent(), rig.result("a", [7])
    execution.add_event(event)
    event.tokens = [8]
    execution.add_event(event)
    event.tokens = [9]
    event.request_id = "somebody else"
    rig.scheduler.advance(execution)
    assert [(v.request, list(v.tokens)) for v in rig.events()] == [("a", [7]), ("a", [8])]
    assert rig.scheduler.request_token_size("a") == 5


def test_an_event_that_nobody_else_holds_is_kept_by_reference(rig: Rig) -> None:
    """A temporary goes into the log as it is; one that is held by a name, a list or a field is taken apart at once."""
    execution = rig.module.ExecutionEvent()
    execution.add_event(rig.result("a", [1]))
    held = rig.result("b", [2])
    execution.add_event(held)
    listed = [rig.result("c", [3])]
    for event in listed:
        execution.add_event(event)
    execution.add_event(listed[0])
    owner = SimpleNamespace(event=rig.result("d", [4]))
    execution.add_event(owner.event)
    assert [type(v) is e.Event for v in execution.events] == [False, True, True, True, True]


def test_events_that_are_held_by_a_caller_up_the_stack_are_taken_apart(rig: Rig) -> None:
    """A function that passes its argument on does not make it a temporary."""
    execution = rig.module.ExecutionEvent()

    def add(event: Any) -> None:
        execution.add_event(event)

    kept = rig.result("a", [1])
    add(kept)
    kept.tokens = [2]
    assert [list(v.tokens) for v in execution.events] == [[1]]


def test_an_execution_event_may_be_advanced_again_and_grow_in_between(rig: Rig) -> None:
    """Each advance records the events that the execution event had then."""
    rig.running()
    execution = rig.module.ExecutionEvent()
    assert execution.add_event(rig.result("a", [1])) is execution
    rig.scheduler.advance(execution)
    first = rig.taken()[0]
    execution.add_event(rig.result("nobody", [2]))
    with pytest.raises(RuntimeError):
        rig.submit("b", [1])
        rig.scheduler.advance(rig.module.ExecutionEvent().add_event(rig.result("b", [1])))
    rig.taken()
    rig.scheduler.advance(execution)
    second = rig.taken()[0]
    assert isinstance(first, e.AdvanceEntry)
    assert isinstance(second, e.AdvanceEntry)
    assert (len(first.events), len(second.events)) == (1, 2)


def test_a_class_derived_from_an_event_is_recorded_like_it(rig: Rig) -> None:
    """The package takes instances of derived event classes, and so does the recording."""

    class MyFinish(rig.module.ForwardEvent.Finish):  # type: ignore[name-defined, misc]
        note = "mine"

    def made() -> Any:
        event = MyFinish()
        event.request_id = "nobody"
        return event

    execution, kept = rig.module.ExecutionEvent(), made()
    execution.add_event(made()).add_event(kept)
    rig.scheduler.advance(execution)
    assert rig.events() == [e.Event(e.FINISH, "nobody")] * 2


def test_an_execution_event_of_another_making_is_a_type_error(rig: Rig) -> None:
    """The package's own execution event, and anything else, is refused before the scheduler or the log sees it."""
    for foreign in (rig.real.ExecutionEvent(), object(), None):
        with pytest.raises(TypeError):
            rig.scheduler.advance(foreign)
    assert rig.taken() == []


def test_what_is_not_an_event_is_refused_as_the_package_does(rig: Rig) -> None:
    """A wrong argument of add_event raises the package's TypeError and leaves no event behind."""
    execution = rig.module.ExecutionEvent()
    with pytest.raises(TypeError, match="add_event"):
        execution.add_event(1)
    assert execution.events == []


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.submit_requests([1]),
        lambda s: s.submit_requests(5),
        lambda s: s.submit_requests(iter([])),
        lambda s: s.register_storage_keys([-1], ["a"], [0]),
        lambda s: s.unregister_storage_keys(["x"], ["a"], [0]),
        lambda s: s.clear_cache(1),
        lambda s: s.next_execution_plan(1),
    ],
)
def test_a_call_that_the_scheduler_never_saw_is_not_recorded(rig: Rig, call: Callable[[Any], Any]) -> None:
    """A TypeError is the caller's; no call is in the log, since nothing was called."""
    with pytest.raises(TypeError):
        call(rig.scheduler)
    assert rig.taken() == []


def test_values_and_exceptions_are_the_package_s_own(rig: Rig) -> None:
    """Each recorded call returns or raises just what the scheduler alone does."""
    plain = rig.real.Scheduler(rig.config)
    spec = rig.real.RequestSpec()
    spec.request_id, spec.tokens = "a", []

    def outcome(scheduler: Any, call: Callable[[Any], Any]) -> Any:
        try:
            return call(scheduler)
        except Exception as error:
            return type(error), str(error)

    calls: list[Callable[[Any], Any]] = [
        lambda s: s.submit_requests([spec]),
        lambda s: s.submit_requests([]),
        lambda s: s.submit_requests(request_specs=[]),
        lambda s: s.register_storage_keys([0], ["a"], [0, 1]),
        lambda s: s.register_storage_keys([0], ["a"], [0]),
        lambda s: s.unregister_storage_keys(group_ids=[0], content_hashes=["a"], page_offsets=[0]),
        lambda s: s.clear_cache(),
        lambda s: s.clear_l1_cache(),
        lambda s: s.drain_kv_events(),
    ]
    for call in calls:
        assert outcome(rig.scheduler, call) == outcome(plain, call)
    kinds = [type(entry).__name__ for entry in rig.taken()]
    assert kinds == ["SubmitEntry"] * 3 + ["KeysEntry"] * 3 + ["ClearEntry"] * 2 + ["DrainEntry"]


def test_a_plan_is_the_package_s_object(rig: Rig) -> None:
    """The caller gets the very plan that is recorded."""
    plan = rig.scheduler.next_execution_plan()
    assert type(plan) is rig.real.ExecutionPlan
    (entry,) = rig.taken()
    assert isinstance(entry, e.PlanEntry)
    assert entry.plan is plan


def test_every_other_attribute_is_the_scheduler_s_own(rig: Rig) -> None:
    """All public methods of the package's scheduler are there; those that change nothing leave no entry."""
    rig.submit("a", [1, 2, 3, 4, 5])
    rig.taken()
    silent = {
        name for name in dir(rig.real.Scheduler) if not name.startswith("_")
    } - {"submit_requests", "next_execution_plan", "advance", "register_storage_keys", "unregister_storage_keys",
         "clear_cache", "clear_l1_cache", "drain_kv_events"}  # fmt: skip
    arguments = {
        "cache_group_total_pages": ("full",), "cache_group_available_pages": ("full",), "expand_prefix_keys": (["a"],),
        "prefix_hashes_for_tokens": ([1],), "request_token_size": ("a",), "pd_transfer_pinned": ("a",),
    }  # fmt: skip
    for name in sorted(silent):
        getattr(rig.scheduler, name)(*arguments.get(name, ()))
    assert rig.scheduler.request_token_size("a") == 5
    assert rig.taken() == []
    with pytest.raises(AttributeError):
        _ = rig.scheduler.no_such_thing


def test_the_namespace_keeps_names_and_classes(rig: Rig) -> None:
    """The recorded namespace has the package's names; Scheduler and ExecutionEvent in it are classes."""
    names = {name for name in dir(rig.real) if not name.startswith("_")}
    assert names <= set(vars(rig.module))
    assert isinstance(rig.scheduler, rig.module.Scheduler)
    assert isinstance(rig.module.ExecutionEvent(), rig.module.ExecutionEvent)
    with pytest.raises(ValueError, match="prefix_granularity"):
        rig.module.Scheduler(rig.real.SchedulerConfig())
    with pytest.raises(TypeError):
        rig.module.Scheduler()


def test_a_refused_batch_is_recorded_with_its_prompts_and_its_exception(rig: Rig) -> None:
    """A rejected submit is a call like any: what was asked, and what the scheduler said."""
    with pytest.raises(ValueError, match="non-empty"):
        rig.submit("a", [])
    (entry,) = rig.taken()
    assert isinstance(entry, e.SubmitEntry)
    assert entry.failure is not None
    assert entry.failure.kind == "ValueError"
    assert [spec.request for spec in entry.specs] == ["a"]


def test_the_twin_s_engine_is_named_apart(real: ModuleType) -> None:
    """A trace's metadata says which implementation made its plans."""
    assert tokenspeed.engine_of(real) == {"name": "tokenspeed-scheduler", "version": "0.1.24"}
    assert tokenspeed.engine_of(SimpleNamespace(__name__="tsviz.scheduler.compat"))["name"] == "tsviz-twin"


def test_one_call_is_one_append(rig: Rig) -> None:
    """Whatever is in a call, the loop thread appends one entry for it."""
    rig.submit("a", list(range(12)))
    rig.scheduler.next_execution_plan()
    execution = rig.module.ExecutionEvent()
    for _ in range(50):
        execution.add_event(rig.result("nobody", [1]))
    rig.scheduler.advance(execution)
    assert [type(entry) for entry in rig.taken()] == [e.SubmitEntry, e.PlanEntry, e.AdvanceEntry]
