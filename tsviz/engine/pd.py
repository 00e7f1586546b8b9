"""A prefill node and a decode node in one run, on one virtual clock (`executor-rules.md` section 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tsviz.engine.arrivals import Arrivals
from tsviz.engine.binding import SchedulerModule
from tsviz.engine.clock import VirtualClock
from tsviz.engine.configs import Role, SchedulerOptions
from tsviz.engine.drive import drive
from tsviz.engine.intake import bound_gate
from tsviz.engine.link import Link, LinkOptions
from tsviz.engine.observe import RunObserver
from tsviz.engine.port import SchedulerPort
from tsviz.engine.run import RunOptions, build_loop
from tsviz.engine.summary import Refusal, RunSummary
from tsviz.engine.workloads.model import Workload, WorkRequest


@dataclass(frozen=True, slots=True)
class PairNode:
    """One node of a pair: its module (a recorder of its own, if any), its configuration, its observer."""

    module: SchedulerModule
    scheduler: SchedulerOptions
    observer: RunObserver | None = None


@dataclass(frozen=True, slots=True)
class PairSummary:
    """What both nodes came to. On P, finished means handed over; the client's view is D's."""

    prefill: RunSummary
    decode: RunSummary


def run_pair(
    prefill: PairNode,
    decode: PairNode,
    workload: Workload,
    run: RunOptions,
    link: LinkOptions | None = None,
    *,
    clock: VirtualClock | None = None,
) -> PairSummary:
    """Run a workload on a pair; the configurations' roles are set here, and P never overlaps.

    Both nodes get every request at its arrival; a request beyond either bound is refused by both. Clients abort, and
    requests end, on D. Raises ValueError for a configuration that a scheduler refuses, and for an id that occurs twice:
    rooms are named by it.
    """
    seen: set[str] = set()
    for request in workload.requests:
        if request.request_id in seen:
            raise ValueError(f"request {request.request_id!r} occurs twice; a pair needs ids of their own")
        seen.add(request.request_id)
    clock = clock or VirtualClock()
    p_options = replace(prefill.scheduler, role=Role.P, overlap_schedule_depth=0)
    d_options = replace(decode.scheduler, role=Role.D)
    p_port = SchedulerPort(prefill.module, p_options.build(prefill.module))
    d_port = SchedulerPort(decode.module, d_options.build(decode.module))
    p_gate = bound_gate(p_port, prefill_only=True, width=p_options.decode_input_tokens)
    d_gate = bound_gate(d_port, prefill_only=False, width=d_options.decode_input_tokens)

    def gate(request: WorkRequest) -> Refusal | None:
        return d_gate(request) or p_gate(request)

    d_arrivals, p_arrivals = Arrivals(workload.requests), Arrivals(workload.requests, follows_only=True)
    p_arrivals.follow(d_arrivals)
    joint = Link(link or LinkOptions(), clock)
    p_loop = build_loop(
        p_port,
        p_options,
        p_arrivals,
        run,
        clock,
        gate=gate,
        remote=joint.side(Role.P),
        observer=prefill.observer,
        aborts=(),
    )
    d_loop = build_loop(
        d_port, d_options, d_arrivals, run, clock, gate=gate, remote=joint.side(Role.D), observer=decode.observer
    )
    ending = drive([d_loop, p_loop], clock)
    return PairSummary(prefill=p_loop.summary(*ending), decode=d_loop.summary(*ending))
