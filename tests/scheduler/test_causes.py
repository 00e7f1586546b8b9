"""Causes that are true: overriding the named gate alone lets the request pass it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.scheduler.lives import Life
from tsviz.scheduler import decisions as d
from tsviz.scheduler import events as ev
from tsviz.scheduler.cache.eviction import fits
from tsviz.scheduler.config import Config, Role
from tsviz.scheduler.planning.chunks import ChunkCutter
from tsviz.scheduler.planning.retraction import Retraction
from tsviz.scheduler.planning.round import Round
from tsviz.scheduler.request import Request
from tsviz.scheduler.scheduler import Scheduler
from tsviz.scheduler.snapshot import Snapshot
from tsviz.scheduler.states import REMOTE_PREFILLING

PAIRS = 20
"""(request, round) pairs per cause."""


class Case:
    """A verdict, the state before its round, and what was told in the round."""

    def __init__(self, before: Snapshot, verdict: d.Verdict, told: list[d.Decision]) -> None:
        self.before = before
        self.verdict = verdict
        self.told = told

    @property
    def refused(self) -> d.Refused:
        """The last refusal of the request in the round."""
        found = [t for t in self.told if isinstance(t, d.Refused) and t.request_id == self.verdict.request_id]
        return found[-1]

    def cause_under(self, scheduler: Scheduler) -> str:
        """What the request meets when the round is built by a changed scheduler."""
        scheduler.next_plan()
        request = scheduler.roster.by_id[self.verdict.request_id]
        assert request.verdict is not None
        return request.verdict.cause


def _ignore(_round: int, _stop: int, _decision: d.Decision) -> None:
    """An observer, so that verdicts are concluded."""


def restored(snapshot: Snapshot) -> Scheduler:
    """The state before the round, observed."""
    return Scheduler.restore(snapshot, observer=_ignore)


def cases(seeds: range, change: Callable[[Config], Config] = lambda config: config) -> Iterator[Case]:
    """Every unscheduled (request, round) of these lifetimes, their configs changed."""
    for seed in seeds:
        told: list[d.Decision] = []

        def observer(_round: int, _stop: int, decision: d.Decision, told: list[d.Decision] = told) -> None:
            told.append(decision)

        life = Life(seed, change, observer=observer)
        for number in range(25):
            befores: list[Snapshot] = []
            verdicts: list[d.Verdict] = []
            kept: list[d.Decision] = []
            original = life.scheduler.next_plan

            def look(
                life: Life = life,
                befores: list[Snapshot] = befores,
                verdicts: list[d.Verdict] = verdicts,
                original: Callable[[], object] = original,
                told: list[d.Decision] = told,
                kept: list[d.Decision] = kept,
            ) -> object:
                befores.append(life.scheduler.snapshot())
                told.clear()
                plan = original()
                verdicts.extend(r.verdict for r in life.scheduler.roster.live() if r.verdict is not None)
                kept.extend(told)
                return plan

            life.scheduler.next_plan = look  # type: ignore[method-assign, assignment]
            try:
                plan = life.step(number)
            finally:
                life.scheduler.next_plan = original  # type: ignore[method-assign]
            if plan is None:
                break
            for verdict in verdicts:
                if verdict.cause != d.SCHEDULED:
                    yield Case(befores[0], verdict, kept)


def more_budget(case: Case, _patch: pytest.MonkeyPatch) -> Scheduler:
    """A token budget that nothing exhausts."""
    return restored(replace(case.before, config=replace(case.before.config, max_scheduled_tokens=10_000)))


def more_rows(case: Case, patch: pytest.MonkeyPatch) -> Scheduler:
    """A batch without a row limit."""
    original = Round.__init__

    def init(self: Round, *args: object) -> None:
        original(self, *args)  # type: ignore[arg-type]
        self.max_rows = 10_000

    patch.setattr(Round, "__init__", init)
    return restored(case.before)


def more_slots(case: Case, _patch: pytest.MonkeyPatch) -> Scheduler:
    """More request slots, not more rows."""
    slots = (*case.before.free_slots, *range(1_000, 1_050))
    return restored(replace(case.before, free_slots=slots))


def no_holder(case: Case, _patch: pytest.MonkeyPatch) -> Scheduler:
    """The request in the way is gone."""
    scheduler = restored(case.before)
    scheduler.advance([ev.Abort(case.verdict.holder_id)])
    return scheduler


def no_holdback(case: Case, patch: pytest.MonkeyPatch) -> Scheduler:
    """Decodes leave nothing to a pending prefill."""
    patch.setattr(ChunkCutter, "min_prefill_tokens", 0)
    return restored(case.before)


def bootstrapped(case: Case, _patch: pytest.MonkeyPatch) -> Scheduler:
    """The bootstrap is done."""
    scheduler = restored(case.before)
    scheduler.advance([ev.Bootstrapped(case.verdict.request_id)])
    return scheduler


def result_landed(case: Case, _patch: pytest.MonkeyPatch) -> Scheduler:
    """The result of the completed prompt is here."""
    scheduler = restored(case.before)
    scheduler.advance([ev.ExtendResult(case.verdict.request_id, (1,))])
    return scheduler


def no_deferral(case: Case, patch: pytest.MonkeyPatch) -> Scheduler:
    """Transfers in flight defer nothing."""
    patch.setattr(Retraction, "_deferred", lambda *_: False)
    return restored(case.before)


def quiescent(case: Case, _patch: pytest.MonkeyPatch) -> Scheduler:
    """The victim's results do not count as in flight. It must not be scheduled in this very round."""
    scheduler = restored(case.before)
    scheduler.roster.by_id[case.verdict.holder_id].in_flight = 0
    return scheduler


def no_exemption(case: Case, patch: pytest.MonkeyPatch) -> Scheduler:
    """Nobody is exempt from retraction, and nothing is in flight."""
    patch.setattr(Request, "reserve_covers_generation", lambda *_: False)
    return restored(case.before)


def joins(case: Case, patch: pytest.MonkeyPatch) -> Scheduler:
    """Every grant may join its round."""
    patch.setattr(Retraction, "_joins", lambda *_: True)
    return restored(case.before)


def spared(case: Case, patch: pytest.MonkeyPatch) -> Scheduler:
    """This one request is exempt from retraction."""
    covers, name = Request.reserve_covers_generation, case.verdict.request_id
    patch.setattr(
        Request, "reserve_covers_generation", lambda self, safe: self.request_id == name or covers(self, safe)
    )
    return restored(case.before)


OVERRIDES = {
    d.BUDGET_SPENT: more_budget,
    d.BATCH_FULL: more_rows,
    d.NO_SLOT: more_slots,
    d.HEAD_OF_LINE: no_holder,
    d.RESIDENT_BLOCKED: no_holder,
    d.SEALED: no_holder,
    d.RECOVERY_ALONE: no_holder,
    d.ONE_REMOTE: no_holder,
    d.PREFILL_ONLY: no_holder,
    d.HOLDBACK: no_holdback,
    d.CHUNK_ZERO: more_budget,
    d.BOOTSTRAP: bootstrapped,
    d.RESULT: result_landed,
    d.DEFERRED: no_deferral,
    d.NOT_QUIESCENT: quiescent,
    d.NOTHING_RETRACTABLE: no_exemption,
    d.CANNOT_JOIN: joins,
    d.RETRACTED: spared,
}


APART = {d.CAPACITY, d.NEVER, d.REMOTE_TRANSFER}
"""Causes with a test of their own."""


def _applies(case: Case) -> bool:
    """Whether the gate can be overridden from outside at this stop."""
    cause, before = case.verdict.cause, case.before
    if cause == d.NOT_QUIESCENT:
        moved = {t.request_id for t in case.told if isinstance(t, d.Candidate)}
        state = next(r for r in before.requests if r.request_id == case.verdict.holder_id)
        return state.request_id in moved or bool(state.tables)
    if cause == d.NOTHING_RETRACTABLE:
        return any(isinstance(t, d.Victim) and t.exempt for t in case.told)
    return True


def _passed(case: Case, cause: str) -> bool:
    """Whether the request met something else, or the same gate held by somebody else."""
    return cause != case.verdict.cause


@pytest.fixture(scope="module")
def stock() -> dict[str, list[Case]]:
    """Cases by cause, from one pass over random lifetimes."""
    out: dict[str, list[Case]] = {cause: [] for cause in d.CAUSES}
    wanted = {*OVERRIDES, *APART}
    for case in cases(range(900)):
        kept = out[case.verdict.cause]
        if len(kept) < 8 * PAIRS and _applies(case):
            kept.append(case)
        if all(len(out[cause]) >= (8 if cause == d.CAPACITY else 1) * PAIRS for cause in wanted):
            break
    return out


def test_every_cause_of_the_closed_list_is_overridden() -> None:
    """Each cause but `scheduled` has its gate overridden by a test of this module."""
    assert {*OVERRIDES, *APART} == {*d.CAUSES} - {d.SCHEDULED}


@pytest.mark.parametrize("cause", sorted(OVERRIDES))
def test_overriding_the_named_gate_lets_the_request_pass_it(
    cause: str, stock: dict[str, list[Case]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The named gate overridden alone, the request is scheduled, meets another cause, or the next holder."""
    tried = 0
    for case in stock[cause]:
        with monkeypatch.context() as patch:
            scheduler = OVERRIDES[cause](case, patch)
            met = case.cause_under(scheduler)
            verdict = scheduler.roster.by_id[case.verdict.request_id].verdict
        assert verdict is not None
        held_by_another = verdict.holder_id not in ("", case.verdict.holder_id)
        held_by_itself = cause == d.NOT_QUIESCENT and _scheduled_now(scheduler, verdict.holder_id)
        assert _passed(case, met) or held_by_another or held_by_itself, (case.verdict, verdict)
        tried += 1
        if tried == PAIRS:
            return
    assert tried >= PAIRS, f"{cause}: only {tried} pairs"


def _scheduled_now(scheduler: Scheduler, request_id: str) -> bool:
    """Whether the victim got a row in this very round, which no earlier result can undo."""
    return scheduler.roster.by_id[request_id].scheduled_round == scheduler.rounds


def test_exactly_the_missing_blocks_admit_a_request_refused_for_capacity(
    stock: dict[str, list[Case]],
) -> None:
    """LCM blocks added up to the deficit of the refusal admit the request; one less does not."""
    tried: Counter[str] = Counter()
    for case in stock[d.CAPACITY]:
        config, refused = case.before.config, case.refused
        packing = [group.cache_blocks_per_lcm_block for group in config.cache_groups]
        missing = next(
            extra
            for extra in range(1, 1_000)
            if fits(refused.need_pages, packing, refused.reachable_local_pages, refused.reachable_blocks + extra)
        )
        first = next(t for t in case.told if isinstance(t, d.Refused))
        if first is not refused or any(isinstance(t, d.Iteration) for t in case.told):
            continue  # an earlier refusal or a retraction would take the added blocks
        for extra, admitted in ((missing - 1, False), (missing, True)):
            grown = replace(config, num_device_pages=config.num_device_pages + extra)
            cause = case.cause_under(restored(replace(case.before, config=grown)))
            assert (cause not in (d.CAPACITY, d.NEVER)) == admitted, (case.verdict, missing, extra, cause)
        tried["pairs"] += 1
        if tried["pairs"] == PAIRS:
            return
    assert tried["pairs"] >= PAIRS


def test_room_for_the_blocker_spares_the_victim(stock: dict[str, list[Case]]) -> None:
    """With room in the pool for the blocker nobody is retracted, and the victim keeps its pages."""
    tried = 0
    for case in stock[d.RETRACTED][:PAIRS]:
        roomy = replace(case.before.config, num_device_pages=case.before.config.num_device_pages + 1_000)
        scheduler = restored(replace(case.before, config=roomy))
        assert case.cause_under(scheduler) != d.RETRACTED
        assert scheduler.roster.by_id[case.verdict.request_id].tables
        tried += 1
    assert tried == PAIRS


def test_a_pool_of_the_blocks_needed_lets_a_hopeless_request_pass(stock: dict[str, list[Case]]) -> None:
    """A need of b blocks is never schedulable with b - 1 blocks in the pool, and is with b."""
    tried = 0
    for case in stock[d.NEVER][:PAIRS]:
        need = int(case.verdict.rule.split()[0])
        for blocks, never in ((need - 1, True), (need, False)):
            pool = replace(case.before.config, num_device_pages=blocks + 1)  # and the null page
            assert (case.cause_under(restored(replace(case.before, config=pool))) == d.NEVER) == never
        tried += 1
    assert tried == PAIRS


def no_rows(config: Config) -> Config:
    """A config without a request slot."""
    return replace(config, max_batch_size=0)


def wide_steps(config: Config) -> Config:
    """A config whose decode step is one token wider than its budget."""
    return replace(config, decode_input_tokens=config.max_scheduled_tokens + 1)


@pytest.mark.parametrize(
    ("rule", "change", "gate", "roles"),
    [
        ("max_batch_size = 0", no_rows, {"max_batch_size": 10}, {Role.Fused, Role.P, Role.D}),
        (
            "decode_input_tokens > max_scheduled_tokens",
            wide_steps,
            {"max_scheduled_tokens": 10_000},
            {Role.Fused, Role.D},  # P decodes nothing here
        ),
    ],
)
def test_the_inequality_that_can_never_hold_is_the_gate(
    rule: str, change: Callable[[Config], Config], gate: dict[str, int], roles: set[Role]
) -> None:
    """Without the named inequality the request passes, in each role that can meet it."""
    tried: Counter[Role] = Counter()
    for case in cases(range(400), change):
        role = case.before.config.role
        if case.verdict.cause != d.NEVER or case.verdict.rule != rule or tried[role] == PAIRS:
            continue
        slots = case.before.free_slots or range(10)
        able = replace(case.before, config=replace(case.before.config, **gate), free_slots=tuple(slots))
        assert case.cause_under(restored(able)) != d.NEVER
        tried[role] += 1
        if all(tried[role] == PAIRS for role in roles):
            return
    pytest.fail(f"{rule}: only {tried}")


def test_another_gate_changes_nothing(stock: dict[str, list[Case]]) -> None:
    """A free request slot more does not help a request that waits for something else."""
    tried: Counter[str] = Counter()
    wanted = (d.BUDGET_SPENT, d.CAPACITY, d.HEAD_OF_LINE, d.RESIDENT_BLOCKED, d.PREFILL_ONLY, d.RETRACTED, d.NEVER)
    patch = pytest.MonkeyPatch()
    for case in [case for cause in wanted for case in stock[cause]]:
        cause = case.verdict.cause
        others = {t.cause for t in case.told if isinstance(t, d.Verdict)}
        if cause not in wanted or tried[cause] == PAIRS or d.NO_SLOT in others or not case.before.free_slots:
            continue
        assert case.cause_under(more_slots(case, patch)) == cause
        tried[cause] += 1
        if all(tried[name] == PAIRS for name in wanted):
            return
    assert all(tried[name] >= PAIRS for name in wanted), tried


def test_remote_transfers_end_with_their_event(stock: dict[str, list[Case]]) -> None:
    """A request that waits for its remote prefill leaves that cause when the prefill is done."""
    tried = 0
    for case in stock[d.REMOTE_TRANSFER]:
        scheduler = restored(case.before)
        request = scheduler.roster.by_id.get(case.verdict.request_id)
        if request is None or request.state != REMOTE_PREFILLING:
            continue
        scheduler.advance([ev.RemotePrefillDone(request.request_id, 1)])
        assert case.cause_under(scheduler) != d.REMOTE_TRANSFER
        tried += 1
        if tried == PAIRS:
            return
    assert tried >= PAIRS
