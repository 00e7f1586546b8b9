"""Making the recorded calls again on a fresh scheduler (architecture.md, section 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tsviz.replay.keyframes.book import Keyframe
from tsviz.replay.keyframes.keyframe import recorded_keyframe
from tsviz.scheduler import compat
from tsviz.scheduler.binding.events import execution_event
from tsviz.scheduler.events import ExtendResult
from tsviz.scheduler.rules import REFERENCE_0_1_24, RULES_0_1_24, RuleSet
from tsviz.scheduler.snapshot import Snapshot
from tsviz.trace import entries as e
from tsviz.trace import layout
from tsviz.trace.api_events import make_event, read_counters
from tsviz.trace.config import build_config
from tsviz.trace.errors import Damaged, TraceError
from tsviz.trace.gaps import LostRounds
from tsviz.trace.plan_fields import read_plan
from tsviz.trace.reader import Part
from tsviz.trace.rounds import PlanBook, RoundRecord
from tsviz.trace.shared_plans import SharedPlans
from tsviz.trace.tokens import FULL

from .call_log import Call, CallLog
from .left_open import without_verdicts
from .sound import require_sound

TWIN = "tsviz-twin"
"""What a trace of the twin says of its engine."""


@dataclass(frozen=True, slots=True)
class Executed:
    """One call that was made again: what came of it. `plan`, and `record` where plans are read, did not raise."""

    call: Call
    outcome: str
    message: str
    result: bool | None
    items: int
    record: RoundRecord | None
    plan: Any = None


def rules_of(part: Part) -> RuleSet:
    """Return the rules by which the twin makes a part's calls again."""
    return RULES_0_1_24 if part.engine.get("name") == TWIN else REFERENCE_0_1_24


class NoKeyframe(TraceError):
    """The recording starts in the middle, and the state at its start is not in it."""


def first_keyframe(part: Part, module: Any = compat) -> Keyframe:
    """Return the keyframe at the start of a slice. Raises `NoKeyframe`, `Damaged`, `TraceError`."""
    start, path = part.meta["starts_at"], part.directory / layout.PART_FILE
    if start not in part.table("keyframes")["round"].to_pylist():
        raise NoKeyframe(
            path, "starts_at", "a trace from its first round, which can be re-executed",
            f"a slice from round {start} without a keyframe, which opens and steps but cannot be re-executed",
        )  # fmt: skip
    if module is not compat:
        raise NoKeyframe(
            path, "starts_at", "the twin, which goes on from the keyframe of a slice",
            f"another scheduler, which would have to begin before round {start}",
        )  # fmt: skip
    found = recorded_keyframe(part, start)
    if found.snapshot.rules != rules_of(part):
        raise Damaged(path, "keyframes", f"a state by {rules_of(part)}", f"one by {found.snapshot.rules}"[:200])
    return without_verdicts(found)


class Reexecution:
    """Iterates the calls of a part, each made on a fresh scheduler of `module` when it is asked for."""

    def __init__(
        self,
        part: Part,
        module: Any,
        *,
        start: Keyframe | None = None,
        log: CallLog | None = None,
        reads: bool = True,
        **options: Any,
    ) -> None:
        """Build the scheduler from the part's config; `options` are the twin's own keywords (`observer`).

        It begins at `start`, a keyframe of this part; without one at the part's first call, for which a slice has a
        keyframe of its own. `log`: that of an earlier re-execution of the part, which spares reading it anew.
        Without `reads` plans are made and not read: half the time, for rounds that were compared before. Its keyframes
        lead to states, not to what can be compared.

        The twin re-executes a recording of the reference with the reference's cut of remote landings, which on its own
        it does not make (docs/conformance.md).

        Raises `UnknownRules` for rules or a digest that are not known here, `NoKeyframe` for a slice without one (or
        with another scheduler than the twin), `Damaged` when the config cannot be built or a keyframe is no state,
        `TraceError` when a table cannot be read.
        """
        if log is None:
            require_sound(part)
        if start is None and "starts_at" in part.meta:
            start = first_keyframe(part, module)
        if module is compat and start is None:
            options.setdefault("rules", rules_of(part))
        try:
            if start is None:
                self.scheduler = module.Scheduler(build_config(module, part.config), **options)
            else:
                self.scheduler = module.Scheduler.restore(start.snapshot, **options)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            place = f"config ({type(error).__name__})"
            raise Damaged(part.directory, place, "a config that the scheduler takes", str(error)[:200]) from None
        self.start = start
        """The state that it began in; None for the one of a scheduler that was just made."""
        self.round = part.meta.get("starts_at", 1) if start is None else start.round
        """The round of the first call that is made."""
        self.lost = LostRounds(part.table("gaps"))
        """Rounds that are made again without being compared: their plans were not recorded."""
        self._behind = False
        self._module = module
        self.log = CallLog(part, columns=module is compat) if log is None else log
        """Of the whole part."""
        self._content, self._reads = part.token_mode == FULL, reads
        self._book = PlanBook(content=self._content, read=SharedPlans().read if module is compat else read_plan)
        self._calls = self.log
        if start is not None:
            self._book.adopt(start.book)
            self._calls = self.log.since(start.round, start.held())

    def keyframe(self) -> Keyframe:
        """Return the state now, which must be between the last call of a round and the first of the next (the twin)."""
        snapshot: Snapshot = self.scheduler.snapshot()
        if self._behind:
            self._book.lose()
            self._behind = False
        return Keyframe(snapshot.rounds + 1, snapshot, self._book.state([r.request_id for r in snapshot.requests]))

    def submission(self, request: str) -> int:
        """Return the submission that a request id names now; -1 for an id that was never submitted."""
        return self._book.submission(request)

    def __iter__(self) -> Iterator[Executed]:
        for call in self._calls:
            yield self._make(call)

    def _make(self, call: Call) -> Executed:
        scheduler, record, plan, result, items = self.scheduler, None, None, None, call.items
        outcome, message = "ok", ""
        waiting = scheduler.waiting_size() if call.kind == e.PLAN and self._reads else 0
        try:
            match call.kind:
                case e.PLAN:
                    plan = scheduler.next_execution_plan()
                    if call.round in self.lost:
                        self._behind = True
                    elif self._reads:
                        if self._behind:
                            self._book.lose()
                            self._behind = False
                        record = self._book.record(plan, waiting, read_counters(scheduler))
                case e.ADVANCE:
                    self._advance(call)
                case e.SUBMIT:
                    scheduler.submit_requests([self._spec(spec) for spec in call.specs])
                case e.REGISTER_KEYS | e.UNREGISTER_KEYS:
                    groups, hashes, offsets = ([key[i] for key in call.keys] for i in range(3))
                    # Lists of unequal lengths were refused; one that is too long stands for whichever it was.
                    groups += [0] * min(1, call.items - len(call.keys))
                    getattr(scheduler, call.kind)(groups, hashes, offsets)
                case e.CLEAR | e.CLEAR_L1:
                    result = getattr(scheduler, call.kind)()
                case e.DRAIN:
                    items = len(scheduler.drain_kv_events())
        except Exception as error:
            outcome, message = type(error).__name__, str(error)
        self._book_keeping(call, outcome)
        return Executed(call, outcome, message, result, items, record, plan)

    def _advance(self, call: Call) -> None:
        landed = call.landed
        if landed is not None:
            made = map(ExtendResult, landed.requests, map(tuple, landed.tokens or ()))
            self.scheduler.advance(execution_event(made))
            return
        event_batch = self._module.ExecutionEvent()
        for event in call.events:
            event_batch.add_event(make_event(self._module, event))
        self.scheduler.advance(event_batch)

    def _spec(self, spec: e.Spec) -> Any:
        made = self._module.RequestSpec()
        made.request_id, made.tokens, made.max_new_tokens = spec.request, list(spec.tokens), spec.max_new_tokens
        return made

    def _book_keeping(self, call: Call, outcome: str) -> None:
        if call.kind == e.SUBMIT and outcome == "ok":
            for offset, spec in enumerate(call.specs):
                self._book.submit(spec.request, call.first_submission + offset)
        elif call.kind == e.ADVANCE:
            for event, applied in zip(call.events, call.applied, strict=True):
                if event.kind == e.RETRACT and event.request is not None and applied:
                    self._book.retract(event.request)
