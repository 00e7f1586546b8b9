"""Reference faults that do not abort, and oddities to be shared: scheduler-rules 13, cache-rules 12."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.conformance.notation import Drive, Group, full, sliding, state


def _landing_past_a_promotion_boundary(module: ModuleType, *more: Group) -> Drive:
    """Role D, full and sliding: the sliding group misses where the full one hits eight tokens."""
    drive = Drive(module, [full(4), sliding(4, 4), *more], page=4, pages=65, role="D")
    drive.submit("seed", [*range(1, 13), 100])
    drive.event("BootstrappedEvent", "seed")
    drive.plan()
    drive.event("RemotePrefillDoneEvent", "seed", 7)
    drive.round()
    drive.finish("seed")
    drive.plan()
    drive.submit("a", [*range(1, 9), *range(50, 58)])
    drive.event("BootstrappedEvent", "a")
    return drive


@pytest.mark.oracle
def test_13_2_the_reference_cuts_a_landing(real: ModuleType) -> None:
    """The reference lands only the tokens up to the promotion boundary of a sixteen-token prompt."""
    shown = _landing_past_a_promotion_boundary(real).plan()
    assert shown.remote_prefill == "a:P[0+8/16]@2"
    assert len(shown.table("a")) == 2


def test_13_2_the_twin_lands_the_whole_prompt(twin: ModuleType) -> None:
    """The twin ignores the boundary: all sixteen tokens land, with a page for the first decode."""
    shown = _landing_past_a_promotion_boundary(twin).plan()
    assert shown.remote_prefill == "a:P[0+16/16]@2"
    assert len(shown.table("a")) == 5


@pytest.mark.oracle
def test_cache_2_3_the_reference_cannot_land_a_window_of_one(real: ModuleType) -> None:
    """With a window of one beside it the cut landing has no first slot: every plan raises until an abort."""
    drive = _landing_past_a_promotion_boundary(real, sliding(1, 4, "one"))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="materialized suffix starts beyond the requested extent"):
            drive.plan()
    drive.abort("a")
    assert drive.plan().remote_prefill == ""


def test_cache_2_3_the_twin_lands_a_window_of_one(twin: ModuleType) -> None:
    """The whole landing has a growth slot for the group of window one, and nothing is refused."""
    shown = _landing_past_a_promotion_boundary(twin, sliding(1, 4, "one")).plan()
    assert shown.remote_prefill == "a:P[0+16/16]@2"
    row = shown.table("a", "one")
    assert (row[:4], len(row)) == ([0, 0, 0, 0], 5)


def test_13_1_a_retracted_landing_returns_as_a_local_chunk(module: ModuleType) -> None:
    """After a runtime Retract on D the readmission rides remote_prefill, unpinned, and decodes at once."""
    drive = Drive(module, [full(2)], page=2, pages=33, role="D")
    drive.submit("a", 3)
    drive.event("BootstrappedEvent", "a")
    drive.plan()
    drive.event("Retract", "a")
    with pytest.raises(RuntimeError, match="before destination admission; state=Retracted"):
        drive.event("RemotePrefillDoneEvent", "a", 5)
    again = drive.plan()
    assert (again.rows, again.remote_prefill) == ("", "a:P[0+3/3]@2")
    assert not drive.scheduler.pd_transfer_pinned("a")
    drive.event("RemotePrefillDoneEvent", "a", 5)
    assert drive.scheduler.request_token_size("a") == 3
    decode = drive.plan()
    assert decode.rows == "a:D[1/3]@2"
    assert decode.plan["forward"][0]["decode_input_ids"] == [1002]


def test_13_3_a_permanent_stall(module: ModuleType) -> None:
    """Mixed with a budget below the held-back page and one step: exempt residents never decode."""
    drive = Drive(module, [full(4), state(4)], page=4, pages=7, budget=4, enable_mixed_prefill_decode=True)
    drive.submit("a", 4, new=4)
    drive.submit("b", 4, new=4)
    assert drive.round().rows == "a:P[0+4/4]@1"
    assert drive.rounds(5) == [""] * 5
    assert drive.waiting == 1


@pytest.mark.parametrize("role", ["Fused", "D"])
def test_13_4_a_width_above_the_budget_never_decodes(module: ModuleType, role: str) -> None:
    """With decode_input_tokens above max_scheduled_tokens nothing is ever decoded."""
    drive = Drive(module, [full(2)], page=2, pages=33, budget=3, width=4, role=role)
    drive.submit("a", 3)
    drive.event("BootstrappedEvent", "a")
    drive.round()
    drive.event("RemotePrefillDoneEvent", "a", 5)
    assert drive.rounds(2) == ["", ""]


def test_13_6_an_undeclared_request_outgrows_the_bound(module: ModuleType) -> None:
    """An undeclared request may grow past the bound; once retracted it waits for ever."""
    drive = Drive(module, [full(2)], page=2, pages=5)
    bound = drive.scheduler.max_single_request_tokens()
    assert bound == 8
    drive.submit("a", 7)
    drive.rounds(2)
    assert drive.scheduler.request_token_size("a") == 9
    assert drive.rounds(4) == [""] * 4
    assert (drive.waiting, drive.counts[2]) == (1, 0)


def test_13_8_no_slots_and_no_width(module: ModuleType) -> None:
    """Zero slots schedule nothing; a width of zero gives decode rows without tokens."""
    none = Drive(module, [full(2)], page=2, pages=33, slots=0)
    none.submit("a", 3)
    assert (none.plan().rows, none.waiting) == ("", 1)
    thin = Drive(module, [full(2)], page=2, pages=33, width=0)
    thin.submit("a", 3)
    thin.plan()
    thin.result("a")
    assert thin.plan().rows == "a:D[0/3]@1"


def test_13_9_more_tokens_than_charged(module: ModuleType) -> None:
    """A result longer than the decodes charged makes plans and Finish raise until an abort clears it."""
    drive = Drive(module, [full(2)], page=2, pages=33)
    drive.submit("a", 3)
    drive.round()
    drive.plan()
    drive.result("a", *range(20))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="publish window exceeds table size"):
            drive.plan()
    with pytest.raises(RuntimeError, match="publish window exceeds table size"):
        drive.finish("a")
    drive.abort("a")
    assert (drive.plan().rows, drive.counts) == ("", (32, 31, 0))


def test_cache_12_only_windows_of_one(module: ModuleType) -> None:
    """With nothing but sliding groups of window one a cold prompt hits every page, made of holes."""
    drive = Drive(module, [sliding(1, 2)], page=2, pages=33)
    drive.submit("a", 7)
    assert drive.plan().rows == "a:P[6+1/7]@1"


def test_waiting_hashes_follow_admissibility(module: ModuleType) -> None:
    """Free slots bound how many waiting requests are named; a prefilling one silences all of them."""
    drive = Drive(module, [full(2)], page=2, pages=65, budget=5, slots=2)
    own = drive.scheduler
    prompts = {"a": [1, 2, 3, 4, 5], "b": list(range(10, 19)), "c": [7, 8, 9]}
    for name, prompt in prompts.items():
        drive.submit(name, prompt)
    chains = {name: own.prefix_hashes_for_tokens(prompt) for name, prompt in prompts.items()}
    assert own.waiting_prefix_hashes() == chains["a"] + chains["b"]
    assert drive.round().rows == "a:P[0+5/5]@1"
    assert own.waiting_prefix_hashes() == chains["b"]
    drive.abort("a")
    assert drive.round().rows == "b:P[0+5/9]@2"
    assert (own.prefilling_size(), own.waiting_prefix_hashes()) == (1, [])
