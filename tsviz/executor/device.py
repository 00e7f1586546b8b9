"""The executor as the loop's `DeviceHandle`: a plan becomes operations in the order of `executor-rules.md` section 2.

The control thread only queues; what it waits for is the copy of a result. Edges can be left out on purpose, to show
that the checker names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tsviz.engine.binding import LoadBackOp, Plan
from tsviz.engine.clock import Clock
from tsviz.engine.device import CacheResult, Fetched, Planned
from tsviz.engine.port import StorageKey
from tsviz.engine.workloads.model import WorkRequest
from tsviz.executor.arena import POISON, Arena, HostPool
from tsviz.executor.cachecopies import CacheCopies
from tsviz.executor.crcs import DEVICE, Block, PageCrcs, Watched
from tsviz.executor.graphs import DecodeGraphs
from tsviz.executor.inputs import HostView, read_inputs
from tsviz.executor.launch import Launcher
from tsviz.executor.model import Model
from tsviz.executor.opqueue import OpQueue
from tsviz.executor.options import DeviceOptions, Edge, Fault
from tsviz.executor.paths import PathCounter
from tsviz.executor.pending import ExecutorForward
from tsviz.executor.slots import SlotState
from tsviz.executor.spoken import Said, Spoken
from tsviz.executor.store import PageStore
from tsviz.executor.streams import Streams
from tsviz.executor.telling import DeviceObserver
from tsviz.trace.order.checker import OrderChecker, merged
from tsviz.trace.order.ops import ByteRange, Kind, Op, Stream


class ExecutorDevice:
    """Implements `DeviceHandle` over streams."""

    def __init__(
        self, model: Model, arena: Arena, host: HostPool | None, slots: SlotState, streams: Streams, clock: Clock,
        options: DeviceOptions, *, prefix_granularity: int, store: PageStore | None = None,
        observer: DeviceObserver | None = None, draft: Model | None = None, graphs: DecodeGraphs | None = None,
    ) -> None:  # fmt: skip
        self._arena, self.slots = arena, slots
        self._clock, self.options = clock, options
        self.queue = OpQueue(streams, clock, observer, PageCrcs(arena, host) if options.page_crcs else None)
        self.view = HostView(slots.width)
        self._spoken = Spoken()
        self.counts: Counter[str] = Counter()
        self._paths = PathCounter(self.counts)
        self._launcher = Launcher(model, draft, arena, slots, self.queue, options, prefix_granularity, graphs)
        self._copies = (
            CacheCopies(arena, host, self.queue, options, self._launcher.layers, store, self.counts)
            if host is not None
            else None
        )
        self._exec_free_ns = 0
        self.last_zero: Op | None = None
        self.last_layers: list[Op] = []
        self._unread: dict[int | None, list[int]] = {}

    @property
    def checker(self) -> OrderChecker:
        """The happens-before checker that was told of everything."""
        return self.queue.checker

    @property
    def said(self) -> Mapping[str, Sequence[Said]]:
        """What every request said, forward by forward, as far as it got it."""
        return self._spoken.said

    def execute(self, plan: Plan, planned: Planned) -> ExecutorForward | None:
        """Queue everything of a plan. Raises BadModel for a plan of other cache groups than the model's."""
        self.queue.round += 1
        copies, fences = self._copies, []
        if planned.stores is not None and copies is not None:
            fences = copies.write_back(planned.stores, pinned=False)
            pinned = copies.write_back(planned.stores, pinned=True)
            fences += pinned if Fault.FENCE_PINNED in self.options.faults else []
        self.last_zero = zero = self._zero(plan, fences)
        loads, self._unread = self._unread, {}
        if planned.loads is not None and copies is not None:
            for layer, numbers in copies.load_back(planned.loads, planned.failed_loads, zero, fences).items():
                loads.setdefault(layer, []).extend(numbers)
        self.queue.report()
        if planned.request_ids:
            return self._forward(planned, zero, loads)
        # A page that vanished from storage takes the forward with it, and its retraction publishes pages that the loads
        # still fill: the next forward may find them.
        self._unread = loads
        return None

    def poll_cache_results(self) -> Sequence[CacheResult]:
        """Return the copies that have ended."""
        return self._copies.poll() if self._copies is not None else []

    def probe_storage(self, keys: Sequence[StorageKey]) -> Sequence[bool]:
        """Return which pages the store has; none without one."""
        return [False] * len(keys) if self._copies is None else self._copies.backups.probe(keys)

    def prefetch_storage(self, keys: Sequence[StorageKey]) -> Fetched:
        """Read the pages now."""
        return Fetched(frozenset(keys), None) if self._copies is None else self._copies.backups.prefetch(keys)

    def land_remote(self, request: WorkRequest, token: int, candidates: Sequence[int]) -> None:
        """Arm the request's slot: what its peer computed is valid up to the prompt's end."""
        tokens, slot = request.prompt_tokens, self.view.slot_of(request.request_id)
        self.view.land(request.request_id, slot, tokens)
        self._spoken.of(request).note(Said(tokens, (token,), None, 0.0))
        if Fault.LATE_CANDIDATES in self.options.faults:
            candidates = ()
        self.queue.submit(Stream.EXEC, Kind.LAND, lambda: self.slots.landed(slot, tokens, token, candidates))

    def next_change_ns(self) -> int | None:
        """Return now while a copy is out: its end is asked for, not told."""
        return self._clock.now_ns() if self._copies is not None and self._copies.is_out else None

    def release(self, request_id: str) -> None:
        """Forget the request."""
        self.view.release(request_id)
        self._spoken.release(request_id)
        self._paths.release(request_id)

    def shutdown(self) -> None:
        """Let everything end."""
        self.queue.streams.close()
        self.queue.report()

    def _zero(self, plan: Plan, fences: Sequence[int]) -> Op:
        layout, options = self._arena.layout, self.options
        pages = plan.pages_to_zero_arrays()
        ranges = merged(
            r for name, ids in pages.items() for page in ids.tolist() for r in layout.group(name).device_ranges(page)
        )
        if Fault.ZERO_PARENT in options.faults:
            size = layout.parent_bytes
            ranges = merged(ByteRange(r.space, r.begin // size * size, (r.begin // size + 1) * size) for r in ranges)
        value = POISON if options.poison else 0.0

        def watch() -> Watched:
            zeroed = [Block(DEVICE, layout.group(name), page) for name, ids in pages.items() for page in ids.tolist()]
            return Watched(left=zeroed)

        waits = [options.unless(Edge.EXEC_ZERO, self.queue.last_exec)]
        waits += [options.unless(Edge.STORE_ZERO, number) for number in fences]
        return self.queue.submit(
            Stream.DEFAULT, Kind.ZERO, lambda: self._arena.fill(ranges, value), waits, writes=ranges, watch=watch
        )

    def _forward(self, planned: Planned, zero: Op, loads: Mapping[int | None, Sequence[int]]) -> ExecutorForward:
        names = [group.name for group in self._arena.layout.groups]
        inputs = read_inputs(planned, self.view, self.slots.width, names)
        self._paths.batch(inputs, self._loaded(planned.loads))
        forward, began, self.last_layers, copied = self._launcher.launch(inputs, zero, loads)
        start_ns = end_ns = None
        if (pace := self.options.pace) is not None:
            start_ns = max(self._clock.now_ns(), self._exec_free_ns)
            end_ns = start_ns + pace.round_ns + pace.token_ns * inputs.flat_rows
            self._exec_free_ns = end_ns
        speeches = [self._spoken.of(request) for request in planned.requests]
        return ExecutorForward(self, forward, speeches, began, copied, start_ns, end_ns)

    def _loaded(self, loads: LoadBackOp | None) -> set[tuple[str, int]]:
        if loads is None:
            return set()
        names = [group.name for group in self._arena.layout.groups]
        pages = zip(loads.group_ids, loads.dst_pages, strict=True)
        return {(names[g], page) for groups, ids in pages for g, page in zip(groups, ids, strict=True)}
