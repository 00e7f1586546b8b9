"""A state machine over the same space as the random lifetimes, with every invariant on after every rule."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.scheduler.lives import plain, random_config
from tsviz.scheduler import events as ev
from tsviz.scheduler import invariants
from tsviz.scheduler.config import Role
from tsviz.scheduler.plan import Plan
from tsviz.scheduler.scheduler import Scheduler, Submission
from tsviz.scheduler.states import DECODING, PREFILL_DONE, holds_pages


class Machine(RuleBasedStateMachine):
    """A runtime that does anything legal in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.whole: dict[str, bool] = {}
        """Whether the last row of a request completed its prompt."""
        self.failed = False

    @initialize(seed=st.integers(0, 10_000))
    def start(self, seed: int) -> None:
        """Any valid config."""
        self.scheduler = Scheduler(random_config(Random(seed)))

    @rule(size=st.integers(1, 40), shared=st.integers(0, 40), budget=st.sampled_from((0, 0, 3, 20, 9000)))
    def submit(self, size: int, shared: int, budget: int) -> None:
        """A prompt that shares a beginning with the others."""
        self.made += 1
        tokens = [index if index < shared else 100 * self.made + index for index in range(size)]
        try:
            self.scheduler.submit([Submission(f"r{self.made}", tokens, budget)])
        except ValueError:
            return
        if self.scheduler.config.role is not Role.Fused:
            self.scheduler.advance([ev.Bootstrapped(f"r{self.made}")])

    @rule()
    def plan(self) -> None:
        """A round; a snapshot taken before it plans the same."""
        if self.failed:
            return
        twin = Scheduler.restore(self.scheduler.snapshot())
        try:
            plan = self.scheduler.next_plan()
        except RuntimeError:
            self.failed = True
            return
        assert plain(twin.next_plan()) == plain(plan)
        assert invariants.plan_breaches(self.scheduler, plan) == []
        self._remember(plan)

    def _remember(self, plan: Plan) -> None:
        for row in plan.batch.extends:
            self.whole[row.request_id] = row.prefix_tokens + row.input_length == row.prefill_length
        for row in plan.batch.decodes:
            self.whole[row.request_id] = True

    def _pick(self, index: int, *, in_flight: bool = False) -> str | None:
        requests = [r for r in self.scheduler.roster.live() if holds_pages(r.state)]
        requests = [r for r in requests if r.in_flight or not in_flight]
        return requests[index % len(requests)].request_id if requests else None

    @rule(index=st.integers(0, 9), token=st.integers(0, 50))
    def land(self, index: int, token: int) -> None:
        """The result of one forward."""
        name = self._pick(index, in_flight=True)
        if name is not None:
            tokens = (token,) if self.whole.get(name) else ()
            self.scheduler.advance([ev.ExtendResult(name, tokens)])

    @rule(index=st.integers(0, 9), how=st.sampled_from((ev.Finish, ev.Abort, ev.Retract, ev.Succeeded)))
    def end(self, index: int, how: type[ev.Finish | ev.Abort | ev.Retract | ev.Succeeded]) -> None:
        """A request ends or loses its pages; illegal where the state says so."""
        name = self._pick(index)
        if name is None:
            return
        try:
            self.scheduler.advance([how(name)])
        except RuntimeError:
            state = self.scheduler.roster.by_id[name].state
            assert how is not ev.Abort and (how is ev.Finish or state not in (PREFILL_DONE, DECODING))

    @rule(index=st.integers(0, 9), token=st.integers(0, 50))
    def remote_done(self, index: int, token: int) -> None:
        """The peer's prefill lands."""
        name = self._pick(index)
        if name is not None:
            try:
                self.scheduler.advance([ev.RemotePrefillDone(name, token)])
            except RuntimeError as error:
                assert "before destination admission" in str(error)

    @rule(success=st.booleans())
    def acknowledge(self, success: bool) -> None:
        """Every operation in flight ends."""
        transfers = self.scheduler.cache.transfers
        events: list[ev.Event] = [ev.WriteBackDone(op_id) for op_id in transfers.stores]
        events += [ev.LoadBackDone(op_id, success) for op_id in transfers.loads]
        self.scheduler.advance(events)

    @rule(device_only=st.booleans())
    def clear(self, device_only: bool) -> None:
        """A clear empties the device cache or is refused."""
        if self.scheduler.clear(device_only=device_only):
            device = self.scheduler.cache.device
            assert device.available == device.empty

    @precondition(lambda self: hasattr(self, "scheduler"))
    @invariant()
    def sound(self) -> None:
        """Every named invariant holds."""
        invariants.check(self.scheduler)


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
