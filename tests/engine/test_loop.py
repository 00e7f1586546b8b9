"""The order of calls in a round, on a scripted scheduler and a scripted device."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tsviz.engine.arrivals import Arrivals
from tsviz.engine.clock import VirtualClock
from tsviz.engine.device import CacheResult, ForwardResult
from tsviz.engine.drive import drive
from tsviz.engine.events import Extended, Finished, Retracted
from tsviz.engine.intake import Intake
from tsviz.engine.loop import SETTLED_ROUNDS, EventLoop, LoopOptions
from tsviz.engine.port import SchedulerPort, StorageKey
from tsviz.engine.storage import StorageKeeper
from tsviz.engine.summary import EndReason, RunSummary
from tsviz.engine.workloads.model import WorkRequest

KEY = StorageKey(0, "h", 0)


def batch(*rows: tuple[str, int, int, int]) -> Any:
    """Make a batch; a row is request, input length, prefill length, prefix (-1: a decode row)."""
    return SimpleNamespace(
        request_ids=[r[0] for r in rows],
        input_lengths=[r[1] for r in rows],
        prefill_lengths=[r[2] for r in rows],
        extend_prefix_lens=[r[3] for r in rows if r[3] >= 0],
        num_extends=lambda: sum(r[3] >= 0 for r in rows),
    )


def plan(*rows: tuple[str, int, int, int], cache: Sequence[Any] = ()) -> Any:
    """Make a plan."""
    return SimpleNamespace(forward=[batch(*rows)], cache=list(cache), remote_prefill=None, remote_decode=None)


class Script:
    """Port and device in one: gives the plans it was given, then empty ones, and writes down what is asked of it."""

    def __init__(self, *plans: Any, acks: Sequence[Sequence[CacheResult]] = (), missing: bool = False) -> None:
        self.log: list[Any] = []
        self._plans = list(plans)
        self._acks = list(acks)
        self._missing = missing
        self.clock = VirtualClock()

    def submit(self, submissions: Any) -> None:
        self.log.append(("submit", [s.request_id for s in submissions]))

    def advance(self, events: Any) -> None:
        self.log.append(("advance", list(events)))

    def plan(self) -> Any:
        self.log.append("plan")
        return self._plans.pop(0) if self._plans else plan()

    def drain_kv_events(self) -> int:
        self.log.append("drain")
        return 2

    def sizes(self) -> tuple[int, ...]:
        return (0,)

    def waiting_size(self) -> int:
        return 0

    def max_single_request_tokens(self) -> int:
        return 10**6

    def storage_keys_of(self, tokens: Any) -> list[StorageKey]:
        return [KEY]

    def storage_keys_waiting(self) -> list[StorageKey]:
        self.log.append("waiting keys")
        return []

    def register_storage(self, keys: Any) -> None:
        self.log.append(("register", list(keys)))

    def unregister_storage(self, keys: Any) -> None:
        self.log.append(("unregister", list(keys)))

    def execute(self, plan: Any, planned: Any) -> Any:
        self.log.append(("execute", list(planned.request_ids), sorted(planned.failed_loads)))
        if not planned.request_ids:
            return None
        start = self.clock.now_ns()
        rows = [
            ()
            if row < planned.num_extends and planned.extend_prefix_lens[row] + n < planned.prefill_lengths[row]
            else (7,)
            for row, n in enumerate(planned.input_lengths)
        ]

        def result() -> ForwardResult:
            self.log.append("commit")
            return ForwardResult(rows)

        return SimpleNamespace(start_ns=start, end_ns=start + 10, result=result)

    def poll_cache_results(self) -> Sequence[CacheResult]:
        self.log.append("poll")
        return self._acks.pop(0) if self._acks else ()

    def probe_storage(self, keys: Any) -> list[bool]:
        self.log.append(("probe", list(keys)))
        return [True] * len(keys)

    def prefetch_storage(self, keys: Any) -> Any:
        self.log.append(("prefetch", list(keys)))
        return SimpleNamespace(missing=frozenset(keys if self._missing else ()), end_ns=None)

    def next_change_ns(self) -> int | None:
        return None

    def release(self, request_id: str) -> None:
        self.log.append(("release", request_id))

    def run(self, *requests: WorkRequest, storage: bool = False, observer: Any = None, **options: Any) -> RunSummary:
        """Run requests through this script."""
        port: Any = self
        loop = EventLoop(
            port,
            port,
            self.clock,
            Intake(Arrivals(requests), lambda _: None),
            LoopOptions(**options),
            storage=StorageKeeper(port, port) if storage else None,
            observer=observer,
        )
        return loop.summary(*drive([loop], self.clock))


def test_one_round_without_overlap(ask: Any) -> None:
    """Submit, poll, head advance, plan, execute, commit, tail advance, drain; nothing else, in this order."""
    script = Script(plan(("a", 4, 4, 0)), acks=[[CacheResult(5, True, True)]])
    script.run(ask("a", 4, 1), kv_events=True, max_rounds=1)
    assert script.log == [
        ("submit", ["a"]),
        "poll",
        ("advance", [(5,)]),
        "plan",
        ("execute", ["a"], []),
        "commit",
        ("release", "a"),
        ("advance", [Extended("a", (7,)), Finished("a")]),
        "drain",
    ]


def test_one_round_with_overlap(ask: Any) -> None:
    """With depth 1 round N executes before it commits N - 1, and an empty round commits what is left."""
    script = Script(plan(("a", 2, 4, 0)), plan(("a", 2, 4, 2)))
    script.run(ask("a", 4, 9), overlap_schedule_depth=1, max_rounds=3)
    assert [entry for entry in script.log if entry != "poll"] == [
        ("submit", ["a"]),
        "plan",
        ("execute", ["a"], []),
        "plan",
        ("execute", ["a"], []),
        "commit",
        ("advance", [Extended("a", ())]),
        "plan",
        ("execute", [], []),
        "commit",
        ("advance", [Extended("a", (7,))]),
    ]


def test_a_lingering_row_is_dropped(ask: Any) -> None:
    """A row of a request that the commit before it finished reports nothing."""
    script = Script(plan(("a", 4, 4, 0)), plan(("a", 1, 4, -1)))
    summary = script.run(ask("a", 4, 1), overlap_schedule_depth=1)
    assert [e for e in script.log if e[0] == "advance"] == [("advance", [Extended("a", (7,)), Finished("a")])]
    assert (summary.reason, summary.scheduled_rows, summary.generated_tokens) == (EndReason.DRAINED, 2, 1)


def test_a_miss_in_storage(ask: Any) -> None:
    """Probe and register before submit, fetch after the plan; a miss runs nothing and retracts behind the results."""
    loads = SimpleNamespace(
        op_ids=[3],
        group_ids=[[0]],
        content_hashes=[["h"]],
        page_offsets=[[0]],
        prefetch_from_storage=[[1]],
    )
    script = Script(plan(("a", 2, 9, 0)), plan(("a", 7, 9, 2), cache=[loads]), missing=True)
    script.run(ask("a", 9, 5), storage=True, overlap_schedule_depth=1, max_rounds=2)
    assert script.log == [
        ("probe", [KEY]),
        ("register", [KEY]),
        ("submit", ["a"]),
        "poll",
        "waiting keys",
        "plan",
        ("execute", ["a"], []),
        "poll",
        "waiting keys",
        "plan",
        ("prefetch", [KEY]),
        ("unregister", [KEY]),
        ("execute", [], [3]),
        "commit",
        ("advance", [Extended("a", ()), Retracted("a")]),
    ]


def test_the_observer_hears_in_time(ask: Any) -> None:
    """Arrivals are told right before they are submitted, a forward right after it was launched."""
    script = Script(plan(), plan(("a", 4, 4, 0)))

    class Observer:
        def arrivals(self, arrivals: Any) -> None:
            script.log.append(("arrivals", dict(arrivals)))

        def forward(self, start_ns: int, end_ns: int) -> None:
            script.log.append(("forward", start_ns, end_ns))

    script.run(ask("a", 4, 1, at=500), observer=Observer(), max_rounds=3)
    submit = script.log.index(("submit", ["a"]))
    assert script.log[submit - 1] == ("arrivals", {"a": (500, None, 0)})
    execute = script.log.index(("execute", ["a"], []))
    assert script.log[execute + 1 : execute + 3] == [("forward", 500, 510), "commit"]


def test_a_stall_ends(ask: Any) -> None:
    """Empty plans with nothing out end as stalled, but not before several rounds moved nothing."""
    script = Script()
    summary = script.run(ask("a", 4, 1), empty_round_ns=1_000)
    # The first round submitted, and its sizes are the first seen.
    assert (summary.reason, summary.rounds, summary.live) == (EndReason.STALLED, 1 + SETTLED_ROUNDS, 1)
    assert summary.detail == "1 live requests, empty plans, nothing out that will come back"


def test_an_empty_plan_is_not_yet_a_stall(ask: Any) -> None:
    """A round without rows before one with rows costs an empty round, and the run goes on."""
    script = Script(plan(), plan(("a", 4, 4, 0)))
    summary = script.run(ask("a", 4, 1), empty_round_ns=1_000)
    assert (summary.reason, summary.finished) == (EndReason.DRAINED, 1)
    # Two empty rounds of 1 us: the first, and the one that sees that all is over; 10 ns of forward.
    assert summary.end_ns == 1_000 + 10


def test_who_waits_for_ever(ask: Any) -> None:
    """Requests that come after each other never arrive: the run ends and counts them."""
    summary = Script().run(ask("a", 4, 1, after="b"), ask("b", 4, 1, after="a"))
    assert (summary.reason, summary.not_arrived) == (EndReason.STALLED, 2)
    assert summary.detail == "2 requests wait for requests that never end"


def test_a_scheduler_that_raises_ends_the_run(ask: Any) -> None:
    """What a scheduler raises ends the run with the call and its words; a mistake of the caller's is not hidden."""
    for error, says in ((RuntimeError("no"), "next_execution_plan: RuntimeError: no"), (TypeError("mine"), None)):

        def fail(error: Exception = error) -> Any:
            raise error

        script = Script()
        inner = SimpleNamespace(waiting_size=lambda: 0, next_execution_plan=fail)
        events = SimpleNamespace(Finish=None, Abort=None, Retract=None)
        module: Any = SimpleNamespace(Scheduler=lambda _, inner=inner: inner, ForwardEvent=events)
        script.plan = SchedulerPort(module, None).plan  # type: ignore[method-assign]
        if says is None:
            with pytest.raises(TypeError, match="mine"):
                script.run(ask("a", 4, 1))
        else:
            summary = script.run(ask("a", 4, 1))
            assert (summary.reason, summary.detail) == (EndReason.SCHEDULER_RAISED, says)
