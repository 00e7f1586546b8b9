"""One closed-loop run of a recording's workload under a configuration (debugger.md, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tsviz.engine.arrivals import Arrivals
from tsviz.engine.binding import Plan
from tsviz.engine.clock import VirtualClock
from tsviz.engine.drive import drive
from tsviz.engine.events import Event
from tsviz.engine.faults import ClientAborts
from tsviz.engine.intake import Intake, bound_gate
from tsviz.engine.loop import EventLoop, LoopOptions
from tsviz.engine.observe import Arrival, RunObserver
from tsviz.engine.port import SchedulerPort, Submission
from tsviz.engine.summary import RunSummary
from tsviz.engine.workloads.model import WorkRequest
from tsviz.trace.config import build_config

from .cost import CostModel
from .device import RetimedDevice
from .knobs import Change
from .log import RunLog
from .midway import Conductor, RestArrivals, Script, ScriptedClock
from .source import Source
from .turn import RefusedConfig


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is over: what the loop says of it, and its log."""

    config: Mapping[str, Any]
    summary: RunSummary
    log: RunLog


class _Intake(Intake):
    """An intake that keeps who it let in last: the submit call that follows takes its tokens from the recording."""

    def __init__(self, arrivals: Arrivals, gate: Any, clock: VirtualClock, conductor: Conductor | None) -> None:
        super().__init__(arrivals, gate)
        self._clock, self._conductor = clock, conductor
        self.taken: list[tuple[WorkRequest, Arrival]] = []

    def take(self, now_ns: int, live: Callable[[str], bool]) -> list[tuple[WorkRequest, Arrival]]:
        conductor = self._conductor
        if conductor is not None and not conductor.turned:
            conductor.round += 1
            self._clock.wait_until_ns(conductor.script.start_ns(conductor.round))
            self.taken = conductor.script.submitted(conductor.round)
        else:
            self.taken = super().take(now_ns, live)
        return self.taken


class _Port(SchedulerPort):
    """A port that submits recorded prompts and notes every call; while a script lasts it makes the recorded ones."""

    def __init__(
        self, module: Any, config: Any, source: Source, clock: VirtualClock, log: RunLog, conductor: Conductor | None
    ) -> None:
        super().__init__(module, config)
        self._source, self._clock, self._log, self._conductor = source, clock, log, conductor
        self.intake: _Intake | None = None
        if conductor is not None:
            self.waiting_size = self._caught_up_waiting_size

    @property
    def _script(self) -> Conductor | None:
        conductor = self._conductor
        return None if conductor is None or conductor.turned else conductor

    def submit(self, submissions: Sequence[Submission]) -> None:
        taken = self.intake.taken if self.intake is not None else []
        self._log.submitted(taken, self._clock.now_ns())
        if self._script is not None:
            return
        recorded = [
            Submission(s.request_id, self._source.prompt(request.prompt[0].source), s.max_new_tokens)
            for s, (request, _) in zip(submissions, taken, strict=True)
        ]
        super().submit(recorded)

    def advance(self, events: Sequence[Event]) -> None:
        self._log.advanced(events, self._clock.now_ns())
        if self._script is None:
            super().advance(events)

    def plan(self) -> Plan:
        self._log.planned(self._clock.now_ns())
        if (script := self._script) is not None:
            made: Plan | None = script.make_until(self._module, self.scheduler, plan=True)
            if made is not None:
                return made
            self.scheduler = script.turn(self.scheduler)
        return super().plan()

    def drain_kv_events(self) -> int:
        return 0 if self._script is not None else super().drain_kv_events()

    def _caught_up_waiting_size(self) -> int:
        if (script := self._script) is not None:
            script.make_until(self._module, self.scheduler, plan=False)
        return self.scheduler.waiting_size()


def check_config(config: Mapping[str, Any], module: Any) -> None:
    """Raise RefusedConfig if a scheduler of `module` does not take the configuration."""
    try:
        module.Scheduler(build_config(module, dict(config)))
    except (ValueError, TypeError, RuntimeError) as error:
        raise RefusedConfig(str(error)) from error


@dataclass(frozen=True, slots=True)
class Setting:
    """How a run differs from its recording: the configuration as data, the requests, the acceptance of candidates.

    With a script, the configuration is that of the recording, and `turns` are made at the script's round.
    """

    config: Mapping[str, Any]
    requests: tuple[WorkRequest, ...]
    acceptance_rate: float | None
    script: Script | None = None
    turns: tuple[Change, ...] = ()


def run_setting(
    source: Source,
    cost: CostModel,
    setting: Setting,
    module: Any,
    *,
    max_rounds: int,
    clock: VirtualClock | None = None,
    observer: RunObserver | None = None,
    stop: Callable[[], bool] | None = None,
) -> Run:
    """Run a setting on a fresh scheduler of `module` until all is done, stuck, stopped, or `max_rounds` were made.

    Give `clock` (at `source.origin_ns`) to share it with a recorder; a script brings its own.
    Raises RefusedConfig, and BadKnob for a turn that cannot be made.
    """
    script = setting.script
    conductor = None if script is None else Conductor(script, setting.turns)
    if conductor is not None:
        clock = ScriptedClock(conductor)
    clock = clock or VirtualClock(source.origin_ns)
    config, log = setting.config, RunLog()
    try:
        port = _Port(module, build_config(module, dict(config)), source, clock, log, conductor)
    except (ValueError, TypeError, RuntimeError) as error:
        raise RefusedConfig(str(error)) from error
    width = config["decode_input_tokens"]
    arrivals = Arrivals(setting.requests) if script is None else RestArrivals(setting.requests, script)
    intake = _Intake(arrivals, bound_gate(port, prefill_only=False, width=width), clock, conductor)
    port.intake = intake
    device = RetimedDevice(
        source, cost, clock, log, width=width, acceptance_rate=setting.acceptance_rate, conductor=conductor
    )
    loop = EventLoop(
        port,
        device,
        clock,
        intake,
        LoopOptions(
            overlap_schedule_depth=config["overlap_schedule_depth"],
            decode_input_tokens=width,
            kv_events=config["enable_kv_cache_events"],
            empty_round_ns=cost.empty_round_ns,
            max_rounds=max_rounds,
        ),
        aborts=ClientAborts(source.aborts) if source.aborts else None,
        observer=observer,
        stop=stop,
    )
    return Run(config, loop.summary(*drive([loop], clock)), log)
