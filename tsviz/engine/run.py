"""Runs in one call each: a node alone, a P/D pair, mirrored ranks. The module object says which scheduler it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tsviz.engine.arrivals import Arrivals
from tsviz.engine.binding import SchedulerModule
from tsviz.engine.clock import VirtualClock
from tsviz.engine.configs import Role, SchedulerOptions
from tsviz.engine.device import DeviceHandle
from tsviz.engine.drive import drive
from tsviz.engine.faults import ClientAbort, ClientAborts
from tsviz.engine.intake import Gate, Intake, bound_gate
from tsviz.engine.loop import EventLoop, LoopOptions
from tsviz.engine.observe import RunObserver
from tsviz.engine.port import Port, SchedulerPort
from tsviz.engine.remote import RemoteSide
from tsviz.engine.simulated import SimulatedDevice, SimulatedOptions
from tsviz.engine.storage import StorageKeeper
from tsviz.engine.summary import RunSummary
from tsviz.engine.workloads.model import Workload


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run needs beside a scheduler and a workload: the device, clients that give up, a limit, who stops it."""

    device: SimulatedOptions = field(default_factory=SimulatedOptions)
    aborts: tuple[ClientAbort, ...] = ()
    max_rounds: int | None = None
    stop: Callable[[], bool] | None = None


def run_workload(
    module: SchedulerModule,
    scheduler: SchedulerOptions,
    workload: Workload,
    run: RunOptions,
    *,
    clock: VirtualClock | None = None,
    observer: RunObserver | None = None,
) -> RunSummary:
    """Run a workload on one fused scheduler and return what it came to.

    Give `clock` to share it with a recorder. Raises ValueError for a configuration that the scheduler refuses.
    """
    if scheduler.role is not Role.FUSED:
        raise ValueError(f"a node alone is fused: found role {scheduler.role.value}; a P/D pair is run_pair's")
    clock = clock or VirtualClock()
    port = SchedulerPort(module, scheduler.build(module))
    loop = build_loop(port, scheduler, Arrivals(workload.requests), run, clock, observer=observer)
    return loop.summary(*drive([loop], clock))


def build_loop(
    port: Port,
    scheduler: SchedulerOptions,
    arrivals: Arrivals,
    run: RunOptions,
    clock: VirtualClock,
    *,
    gate: Gate | None = None,
    remote: RemoteSide | None = None,
    observer: RunObserver | None = None,
    aborts: Iterable[ClientAbort] | None = None,
) -> EventLoop:
    """Put one node together on a simulated device."""
    prefill_only = scheduler.role is Role.P
    width = scheduler.decode_input_tokens
    device: DeviceHandle = SimulatedDevice(run.device, clock, decode_input_tokens=width, drafts=prefill_only)
    aborts = tuple(run.aborts if aborts is None else aborts)
    return EventLoop(
        port,
        device,
        clock,
        Intake(arrivals, gate or bound_gate(port, prefill_only=prefill_only, width=width)),
        LoopOptions(
            overlap_schedule_depth=0 if prefill_only else scheduler.overlap_schedule_depth,
            decode_input_tokens=width,
            prefill_only=prefill_only,
            kv_events=scheduler.kv_events,
            empty_round_ns=run.device.cost.empty_round_ns,
            max_rounds=run.max_rounds,
        ),
        storage=StorageKeeper(port, device) if scheduler.storage else None,
        remote=remote,
        aborts=ClientAborts(aborts) if aborts else None,
        observer=observer,
        stop=run.stop,
    )
