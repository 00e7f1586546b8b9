"""Stores and loads of a plan as operations, and their acknowledgements (`executor-rules.md` sections 2 and 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tsviz.engine.binding import LoadBackOp, WriteBackOp
from tsviz.engine.device import CacheResult
from tsviz.engine.port import StorageKey
from tsviz.executor.arena import Arena, HostPool
from tsviz.executor.backups import Backups
from tsviz.executor.crcs import DEVICE, HOST, Block, Watched
from tsviz.executor.layout import GroupLayout
from tsviz.executor.opqueue import OpQueue
from tsviz.executor.options import DeviceOptions, Edge, Fault
from tsviz.executor.store import PageStore, StoredPage
from tsviz.trace.order.checker import merged
from tsviz.trace.order.ops import Kind, Op, Stream

Move = tuple[GroupLayout, int, int]
"""A block that is copied: its group, the page it is read from, the page it is written to."""


@dataclass(slots=True, eq=False)
class _Copy:
    """A cache operation that is out: its last op, what goes into storage once that has ended, and the op that puts."""

    op_id: int
    is_store: bool
    last: Op | None
    success: bool
    backup: tuple[StoredPage, ...] = ()
    put: Op | None = None


class CacheCopies:
    """The copies of one device between its tiers."""

    def __init__(
        self, arena: Arena, host: HostPool, queue: OpQueue, options: DeviceOptions, layers: int,
        store: PageStore | None, counts: Counter[str],
    ) -> None:  # fmt: skip
        self._arena, self._host, self._queue, self._options = arena, host, queue, options
        self._layers: tuple[int | None, ...] = tuple(range(layers)) if options.layerwise else (None,)
        self._counts = counts
        self.backups = Backups(host, queue, store, counts)
        self._out: list[_Copy] = []

    def write_back(self, stores: WriteBackOp, *, pinned: bool) -> list[int]:
        """Queue the stores of one guard; return their numbers, which zeroing waits for if they are not pinned."""
        layout, numbers = self._arena.layout, []
        guards = stores.source_pinned
        if Fault.TAKEN_FOR_PINNED in self._options.faults:
            guards = [True] * len(guards)
        columns = (stores.op_ids, guards, stores.group_ids, stores.src_pages, stores.dst_pages)
        hashes, offsets = stores.content_hashes, stores.page_offsets
        behind = self._options.unless(Edge.EXEC_STORE, self._queue.last_exec)
        for i, (op_id, is_pinned, groups, sources, targets) in enumerate(zip(*columns, strict=True)):
            if is_pinned is not pinned:
                continue
            moves = self._moves(groups, sources, targets)

            def run(moves: Sequence[Move] = moves) -> None:
                for move in moves:
                    self._host.store(self._arena, *move)

            def watch(moves: Sequence[Move] = moves) -> Watched:
                return Watched(*_blocks(moves, DEVICE, HOST, None))

            op = self._queue.submit(
                Stream.WRITE, Kind.STORE_PINNED if pinned else Kind.STORE_ORDERED, run, [behind],
                reads=merged(r for group, source, _ in moves for r in group.device_ranges(source)),
                writes=merged(layout.host_range(group, target) for group, _, target in moves), op_id=op_id, watch=watch,
            )  # fmt: skip
            numbers.append(op.number)
            keys = [StorageKey(*key) for key in zip(groups, hashes[i], offsets[i], strict=True)]
            backup = self.backups.pages_to_put(keys, [(group, target) for group, _, target in moves])
            self._out.append(_Copy(op_id, True, op, True, backup))
            self._counts["pinned store" if pinned else "ordered store"] += len(moves)
        return numbers

    def load_back(
        self, loads: LoadBackOp, failed: frozenset[int], zero: Op, fences: Sequence[int]
    ) -> dict[int | None, list[int]]:
        """Queue loads; return, per layer (None: all), the operations that a forward's first touch of it waits for.

        A failed one copies what there is: its requests are retracted, and that may publish pages it was to fill.
        """
        options, layout = self._options, self._arena.layout
        moves_of: dict[int, list[Move]] = {}
        columns = (loads.op_ids, loads.group_ids, loads.src_pages, loads.dst_pages)
        flags, hashes, offsets = loads.prefetch_from_storage, loads.content_hashes, loads.page_offsets
        for i, (op_id, groups, sources, targets) in enumerate(zip(*columns, strict=True)):
            moves = self._moves(groups, sources, targets)
            keys = [StorageKey(*key) for key in zip(groups, hashes[i], offsets[i], strict=True)]
            for flag, key, (group, source, _) in zip(flags[i], keys, moves, strict=True):
                if flag and self.backups.has_fetched(key):
                    self.backups.fill_host(key, group, source)
            if op_id in failed:
                moves = [
                    move
                    for flag, key, move in zip(flags[i], keys, moves, strict=True)
                    if not flag or self.backups.has_fetched(key)
                ]
            if moves:
                moves_of[op_id] = moves
            else:
                self._out.append(_Copy(op_id, False, None, False))
        waits = [options.unless(Edge.ZERO_LOAD, zero.number), options.unless(Edge.EXEC_LOAD, self._queue.last_exec)]
        waits += [options.unless(Edge.STORE_LOAD, number) for number in fences]
        by_layer: dict[int | None, list[int]] = {}
        last: dict[int, Op] = {}
        for layer in self._layers:
            for op_id, moves in moves_of.items():
                touched = [move for move in moves if move[0].fields_of(layer)]
                if not touched:
                    continue

                def run(touched: Sequence[Move] = touched, layer: int | None = layer) -> None:
                    for move in touched:
                        self._host.load(self._arena, *move, layer)

                def watch(touched: Sequence[Move] = touched, layer: int | None = layer) -> Watched:
                    return Watched(*_blocks(touched, HOST, DEVICE, layer))

                last[op_id] = op = self._queue.submit(
                    Stream.LOAD, Kind.LOAD, run, waits,
                    reads=merged(layout.host_range(group, source) for group, source, _ in touched),
                    writes=merged(r for group, _, target in touched for r in group.device_ranges(target, layer)),
                    op_id=op_id, layer=layer, watch=watch,
                )  # fmt: skip
                by_layer.setdefault(layer, []).append(op.number)
        self._out += [_Copy(op_id, False, op, op_id not in failed) for op_id, op in last.items()]
        return by_layer

    def poll(self) -> list[CacheResult]:
        """Return the copies that have ended, in the order in which they were submitted; stores once they are put."""
        results, left = [], []
        acks = self._options.acks
        for copy in self._out:
            if acks.is_lost(copy.op_id):
                continue
            if not self._has_ended(copy):
                left.append(copy)
                continue
            success = copy.success and (copy.is_store or not acks.load_fails(copy.op_id))
            results.append(CacheResult(copy.op_id, copy.is_store, success))
        self._out = left
        return results

    @property
    def is_out(self) -> bool:
        """Whether an acknowledgement is still to come."""
        return any(not self._options.acks.is_lost(copy.op_id) for copy in self._out)

    def _has_ended(self, copy: _Copy) -> bool:
        """Return whether a copy has ended and, where it goes into storage, its pages were put."""
        if copy.put is None:
            early = copy.is_store and Fault.EARLY_ACK in self._options.faults
            if copy.last is not None and not early and not self._queue.ended(copy.last):
                return False
            if not copy.backup:
                return True
            copy.put = self.backups.put(copy.op_id, copy.backup)
            if early:
                return True
        if not self._queue.ended(copy.put):
            return False
        self.backups.were_put(copy.backup)
        return True

    def _moves(self, groups: Sequence[int], sources: Sequence[int], targets: Sequence[int]) -> list[Move]:
        layouts = self._arena.layout.groups
        return [(layouts[g], s, t) for g, s, t in zip(groups, sources, targets, strict=True)]


def _blocks(moves: Sequence[Move], source: str, target: str, layer: int | None) -> tuple[list[Block], list[Block]]:
    """Return the blocks that moves read in one space, and those that they write in another."""
    read = [Block(source, group, page, layer) for group, page, _ in moves]
    return read, [Block(target, group, page, layer) for group, _, page in moves]
