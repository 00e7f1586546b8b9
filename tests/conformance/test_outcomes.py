"""The outcome table of scheduler-rules 4.2: every event in every state, with its text and its effect."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.notation import Drive, full

_ROLE_OF = {
    "Bootstrapping": "D",
    "Submitted": "Fused",
    "Prefilling": "Fused",
    "RemotePrefilling": "D",
    "PrefillAwaitingResult": "P",
    "PrefillDone": "Fused",
    "Decoding": "Fused",
    "Retracted": "Fused",
    "Finished": "Fused",
    "unknown": "Fused",
}
_EVENTS: dict[str, tuple[Any, ...]] = {
    "empty result": ("ExtendResult", "a", []),
    "token result": ("ExtendResult", "a", [5]),
    "Finish": ("Finish", "a"),
    "Abort": ("Abort", "a"),
    "Failed": ("FailedEvent", "a"),
    "Retract": ("Retract", "a"),
    "UpdateReserve": ("UpdateReserveNumTokens", "a", 1),
    "Succeeded": ("SucceededEvent", "a"),
    "RemotePrefillDone": ("RemotePrefillDoneEvent", "a", 5),
    "Bootstrapped": ("BootstrappedEvent", "a"),
}


def _in_state(module: ModuleType, name: str, role: str | None = None) -> Drive:
    """A scheduler holding request "a" in the named state; what can be in flight is."""
    drive = Drive(module, [full(2)], page=2, pages=33, budget=4, role=role or _ROLE_OF[name])
    if name == "unknown":
        return drive
    drive.submit("a", 6 if name == "Prefilling" else 3)
    if name in ("Bootstrapping", "Submitted"):
        return drive
    drive.event("BootstrappedEvent", "a")
    drive.plan()
    if drive.config["role"] == "P" and name in ("PrefillDone", "Decoding"):
        drive.result("a", 1)
    if name == "Decoding":
        drive.plan()
    if name == "Retracted":
        drive.event("Retract", "a")
    if name == "Finished":
        drive.abort("a")
    return drive


def _fsm(event: str) -> str:
    return f"FSM transition invalid: event=tokenspeed::fsm::{event}; state=tokenspeed::fsm::"


_CHUNK_TOKENS = "ExtendResultEvent: an intermediate prefill chunk produces no tokens"
_PINNED = "PD Finish received while transfer pages are pinned"
_EARLY = "PD RemotePrefillDoneEvent received before destination admission; state="
OK, GONE, WAITS = "ok", "finished", "retracted"
_PAGELESS = {
    "empty result": _fsm("ExtendResultEvent"),
    "token result": _fsm("ExtendResultEvent"),
    "Finish": _fsm("FinishEvent"),
    "Abort": GONE,
    "Failed": GONE,
    "Retract": _fsm("RetractEvent"),
    "UpdateReserve": _fsm("UpdateReserveNumTokensEvent"),
    "Succeeded": "PD SucceededEvent received in state ",
    "RemotePrefillDone": _EARLY,
}
_HOLDING = {**_PAGELESS, "Retract": WAITS}
_TABLE: dict[str, dict[str, str]] = {
    "Bootstrapping": _PAGELESS,
    "Submitted": {**_PAGELESS, "Bootstrapped": OK},
    "Prefilling": {**_HOLDING, "empty result": OK, "token result": _CHUNK_TOKENS, "Bootstrapped": OK},
    "RemotePrefilling": {
        **{event: end for event, end in _HOLDING.items() if "result" not in event},
        "Finish": _PINNED,
        "RemotePrefillDone": OK,
        "Bootstrapped": OK,
    },
    "PrefillAwaitingResult": {
        **_HOLDING,
        "empty result": OK,
        "token result": OK,
        "Finish": _PINNED,
        "Bootstrapped": OK,
    },
    "PrefillDone": {
        **_HOLDING,
        "empty result": OK,
        "token result": OK,
        "Finish": GONE,
        "Succeeded": GONE,
        "RemotePrefillDone": OK,
        "Bootstrapped": OK,
    },
    "Decoding": {
        **_HOLDING,
        "empty result": OK,
        "token result": OK,
        "Finish": GONE,
        "UpdateReserve": OK,
        "Succeeded": GONE,
        "RemotePrefillDone": OK,
        "Bootstrapped": OK,
    },
    "Retracted": {**_PAGELESS, "Finish": GONE, "Retract": OK, "Bootstrapped": OK},
    "Finished": dict.fromkeys(_EVENTS, OK),
    "unknown": dict.fromkeys(_EVENTS, OK),
}
_CELLS = [(name, event) for name, row in _TABLE.items() for event in row]


def _sizes(drive: Drive) -> tuple[int, ...]:
    own = drive.scheduler
    return (
        own.bootstrapping_size(),
        own.waiting_size(),
        own.prefilling_size(),
        own.remote_prefilling_size(),
        own.decoding_size(),
        own.active_lcm_blocks(),
    )


@pytest.mark.parametrize(("name", "event"), _CELLS, ids=[f"{name}-{event}" for name, event in _CELLS])
def test_outcome(module: ModuleType, name: str, event: str) -> None:
    """The event is accepted, ends the request, sends it back to wait, or is refused and changes nothing."""
    expected = _TABLE[name][event]
    drive = _in_state(module, name)
    before = _sizes(drive)
    if expected in (OK, GONE, WAITS):
        drive.event(*_EVENTS[event])
        after = _sizes(drive)
        checks: dict[str, Callable[[], Any]] = {GONE: lambda: sum(after) == 0, WAITS: lambda: sum(after) == 1}
        assert checks.get(expected, lambda: True)()
        return
    text = expected + name if expected.endswith(("::", "state=", "state ")) else expected
    with pytest.raises(RuntimeError) as caught:
        drive.event(*_EVENTS[event])
    assert text in str(caught.value)
    assert _sizes(drive) == before


def test_a_negative_bootstrap_token(module: ModuleType) -> None:
    """A negative token is a ValueError where the event is due, and ignored where it is late."""
    drive = _in_state(module, "RemotePrefilling")
    with pytest.raises(ValueError, match="PD RemotePrefillDoneEvent requires a non-negative bootstrap token"):
        drive.event("RemotePrefillDoneEvent", "a", -1)
    drive.event("RemotePrefillDoneEvent", "a", 1)
    assert (drive.scheduler.request_token_size("a"), drive.scheduler.remote_prefilling_size()) == (4, 0)
    drive.event("RemotePrefillDoneEvent", "a", 2)
    assert drive.scheduler.request_token_size("a") == 4


def test_bootstrapped_leaves_bootstrapping(module: ModuleType) -> None:
    """Bootstrapped moves a bootstrapping request to the waiting ones."""
    drive = _in_state(module, "Bootstrapping")
    drive.event("BootstrappedEvent", "a")
    assert _sizes(drive)[:2] == (0, 1)


@pytest.mark.parametrize("name", ["PrefillDone", "Decoding"])
def test_finish_is_refused_on_the_prefill_side(module: ModuleType, name: str) -> None:
    """On role P the pages belong to the transfer: Finish is refused, Succeeded frees them."""
    drive = _in_state(module, name, role="P")
    with pytest.raises(RuntimeError, match="PD Finish received while transfer pages are pinned"):
        drive.finish("a")
    assert drive.scheduler.pd_transfer_pinned("a")
    drive.event("SucceededEvent", "a")
    assert not drive.scheduler.pd_transfer_pinned("a")


def test_a_rejected_token_result_has_consumed_the_count(module: ModuleType) -> None:
    """After a refused token result on a chunk the request has nothing in flight, and may be a victim."""
    drive = Drive(module, [full(2)], page=2, pages=6, budget=4, disable_prefix_cache=True)
    drive.submit("a", 8)
    drive.plan()
    with pytest.raises(RuntimeError, match="an intermediate prefill chunk produces no tokens"):
        drive.event("ExtendResult", "a", [1])
    assert drive.scheduler.prefilling_size() == 1


def test_an_early_finish_is_refused(module: ModuleType) -> None:
    """A page-aligned prompt whose first token has not landed cannot finish once its decode was planned."""
    drive = Drive(module, [full(2)], page=2, pages=17)
    drive.submit("a", 4)
    drive.plan()
    drive.plan()
    with pytest.raises(RuntimeError, match="cache progress exceeds completed request pages"):
        drive.finish("a")
    assert drive.scheduler.decoding_size() == 1


def test_an_exception_stops_an_event_list_and_keeps_what_came_before(module: ModuleType) -> None:
    """Events before the refused one stay applied, those behind it are not."""
    drive = Drive(module, [full(2)], page=2, pages=17)
    drive.submit("a", 2)
    drive.submit("b", 2)
    execution = module.ExecutionEvent()
    for kind, name in (("Abort", "a"), ("Finish", "b"), ("Abort", "b")):
        event = getattr(module.ForwardEvent, kind)()
        event.request_id = name
        assert execution.add_event(event) is execution
    with pytest.raises(RuntimeError, match="FinishEvent; state=tokenspeed::fsm::Submitted"):
        drive.scheduler.advance(execution)
    assert drive.waiting == 1


def test_a_negative_reserve_makes_the_next_plan_raise(module: ModuleType) -> None:
    """UpdateReserve accepts a negative value; the plan that would charge it raises, until an abort."""
    drive = _in_state(module, "Decoding")
    drive.land()
    drive.event("UpdateReserveNumTokens", "a", -1)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            drive.plan()
    drive.abort("a")
    assert drive.plan().rows == ""
