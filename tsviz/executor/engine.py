"""One engine put together: a model, its pools, a scheduler, the loop. What `engine.run` does for a simulated device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tsviz.engine.arrivals import Arrivals
from tsviz.engine.binding import SchedulerModule
from tsviz.engine.clock import Clock
from tsviz.engine.configs import Role
from tsviz.engine.drive import drive
from tsviz.engine.faults import ClientAbort, ClientAborts
from tsviz.engine.intake import Gate, Intake, bound_gate
from tsviz.engine.loop import EventLoop, LoopOptions
from tsviz.engine.observe import RunObserver
from tsviz.engine.port import SchedulerPort
from tsviz.engine.remote import RemoteSide
from tsviz.engine.storage import StorageKeeper
from tsviz.engine.summary import RunSummary
from tsviz.engine.workloads.model import Workload, WorkRequest, expand, given_tokens
from tsviz.executor.arena import Arena, HostPool
from tsviz.executor.device import ExecutorDevice
from tsviz.executor.drafting import check_draft
from tsviz.executor.graphs import DecodeGraphs
from tsviz.executor.model import Model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.shape import BadModel
from tsviz.executor.sizing import SizedPool
from tsviz.executor.slots import Drafter, SlotState
from tsviz.executor.store import PageStore
from tsviz.executor.streams import InlineStreams, Streams
from tsviz.executor.telling import DeviceObserver


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How one engine runs, beside its model and its pool."""

    device: DeviceOptions = field(default_factory=DeviceOptions)
    drafter: Drafter = Drafter.NGRAM
    aborts: tuple[ClientAbort, ...] = ()
    max_rounds: int | None = None
    empty_round_ns: int = 1_000_000
    stop: Callable[[], bool] | None = None


class Engine:
    """A fused engine, or one node of a pair: `device` and `loop` are there to be asked."""

    def __init__(
        self, module: SchedulerModule, model: Model, sized: SizedPool, arrivals: Arrivals, clock: Clock,
        options: EngineOptions, *, streams: Streams | None = None, store: PageStore | None = None,
        observer: RunObserver | None = None, watcher: DeviceObserver | None = None,
        remote: Callable[[Engine], RemoteSide] | None = None, gate: Gate | None = None,
        aborts: Iterable[ClientAbort] | None = None, draft: Model | None = None, graphs: DecodeGraphs | None = None,
    ) -> None:  # fmt: skip
        """Allocate the pools; a draft model takes the place of the options' drafter, `graphs` replay what decodes run.

        Raises NoMemory, BadModel, and ValueError for a configuration that is refused.
        """
        scheduler = sized.scheduler
        if draft is not None:
            check_draft(model.shape, draft.shape, scheduler.decode_input_tokens)
        self.port = SchedulerPort(module, scheduler.build(module))
        width, prefill_only = max(1, scheduler.decode_input_tokens), scheduler.role is Role.P
        most = self.port.max_single_request_tokens()
        if most < 1:
            raise BadModel(f"pool: {scheduler.num_device_pages - 1} LCM blocks hold no request at all")
        embed = model.weights.embed
        self.sized = sized
        self.arena = Arena(sized.layout, scheduler.num_device_pages - 1, embed.dtype, str(embed.device))
        host_parents = max(0, scheduler.num_host_pages - 1)
        self.host = HostPool(sized.layout, host_parents, pinned=embed.is_cuda) if host_parents else None
        slots = SlotState(
            scheduler.max_batch_size, width, most, options.drafter if draft is None else Drafter.MODEL,
            model.shape.vocabulary, str(embed.device),
        )  # fmt: skip
        self.device = ExecutorDevice(
            model, self.arena, self.host, slots, streams or InlineStreams(clock.now_ns), clock, options.device,
            prefix_granularity=scheduler.prefix_granularity, store=store, observer=watcher,
            draft=draft, graphs=graphs,
        )  # fmt: skip
        self.clock = clock
        given = tuple(options.aborts if aborts is None else aborts)
        self.loop = EventLoop(
            self.port, self.device, clock,
            Intake(arrivals, gate or bound_gate(self.port, prefill_only=prefill_only, width=width)),
            LoopOptions(
                overlap_schedule_depth=0 if prefill_only else scheduler.overlap_schedule_depth,
                decode_input_tokens=width, prefill_only=prefill_only, kv_events=scheduler.kv_events,
                empty_round_ns=options.empty_round_ns, max_rounds=options.max_rounds,
            ),
            storage=StorageKeeper(self.port, self.device) if scheduler.storage else None,
            remote=remote(self) if remote is not None else None,
            aborts=ClientAborts(given) if given else None, observer=observer, stop=options.stop,
        )  # fmt: skip

    def run(self) -> RunSummary:
        """Run to the end; what the device holds is given back whatever happens."""
        try:
            return self.loop.summary(*drive([self.loop], self.clock))
        finally:
            self.device.shutdown()


def fit_vocabulary(workload: Workload, vocabulary: int) -> Workload:
    """Return the workload with every prompt token folded into a model's vocabulary; sharing survives, lengths too."""

    def folded(request: WorkRequest) -> WorkRequest:
        prompt = given_tokens((expand(request.prompt) % vocabulary).tolist())
        return WorkRequest(
            request.request_id, (prompt,), request.output, request.max_new_tokens, request.arrival_ns, request.after,
            request.think_ns,
        )  # fmt: skip

    return Workload(tuple(map(folded, workload.requests)), workload.meta, workload.skipped)
