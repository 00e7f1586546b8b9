"""Stores and loads of a plan as operations, and their acknowledgements (`executor-rules.md` sections 2 and 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tsviz.engine.binding import LoadBackOp, WriteBackOp
from tsviz.engine.device import CacheResult, Fetched
from tsviz.engine.port import StorageKey
from tsviz.executor.arena import Arena, HostPool
from tsviz.executor.crcs import DEVICE, HOST, STORAGE, Block, Copied, Watched, unsummed
from tsviz.executor.layout import GroupLayout
from tsviz.executor.opqueue import OpQueue
from tsviz.executor.options import DeviceOptions, Edge, Fault
from tsviz.executor.order import Kind, Op, Stream, merged
from tsviz.executor.store import PageStore, StoredPage

Move = tuple[GroupLayout, int, int]
"""A block that is copied: its group, the page it is read from, the page it is written to."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """A cache operation that is out: its last op, and what to put into storage once it has ended."""

    op_id: int
    is_store: bool
    last: Op | None
    success: bool
    backup: tuple[StoredPage, ...] = ()


class CacheCopies:
    """The copies of one device between its tiers."""

    def __init__(
        self, arena: Arena, host: HostPool, queue: OpQueue, options: DeviceOptions, layers: int,
        store: PageStore | None, counts: Counter[str],
    ) -> None:  # fmt: skip
        self._arena, self._host, self._queue, self._options = arena, host, queue, options
        self._layers: tuple[int | None, ...] = tuple(range(layers)) if options.layerwise else (None,)
        self._store, self._counts = store, counts
        self._out: list[_Copy] = []
        self._fetched: dict[StorageKey, bytes] = {}

    def write_back(self, stores: WriteBackOp, *, pinned: bool) -> list[int]:
        """Queue the stores of one guard; return their numbers, which zeroing waits for if they are not pinned."""
        layout, numbers = self._arena.layout, []
        columns = (stores.op_ids, stores.source_pinned, stores.group_ids, stores.src_pages, stores.dst_pages)
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
            backup: tuple[StoredPage, ...] = ()
            if self._store is not None:
                keys = zip(groups, hashes[i], offsets[i], strict=True)
                backup = tuple(
                    StoredPage(StorageKey(*key), group, target)
                    for key, (group, _, target) in zip(keys, moves, strict=True)
                )
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
                if flag and key in self._fetched:
                    self._fill_host(key, group, source)
            if op_id in failed:
                moves = [
                    move
                    for flag, key, move in zip(flags[i], keys, moves, strict=True)
                    if not flag or key in self._fetched
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
            early = copy.is_store and Fault.EARLY_ACK in self._options.faults
            if copy.last is not None and not early and not self._queue.ended(copy.last):
                left.append(copy)
                continue
            self._back_up(copy)
            success = copy.success and (copy.is_store or not acks.load_fails(copy.op_id))
            results.append(CacheResult(copy.op_id, copy.is_store, success))
        self._out = left
        return results

    @property
    def is_out(self) -> bool:
        """Whether an acknowledgement is still to come."""
        return any(not self._options.acks.is_lost(copy.op_id) for copy in self._out)

    def prefetch(self, keys: Sequence[StorageKey]) -> Fetched:
        """Read pages from storage now; they go into their host pages with this round's load."""
        if self._store is None:
            return Fetched(frozenset(keys), None)
        read = dict(zip(keys, self._store.batch_get(keys), strict=True))
        missing = frozenset(key for key, data in read.items() if data is None)
        self._fetched = {key: data for key, data in read.items() if data is not None}
        self._counts["storage miss" if missing else "storage restore"] += 1
        return Fetched(missing, None)

    def _moves(self, groups: Sequence[int], sources: Sequence[int], targets: Sequence[int]) -> list[Move]:
        layouts = self._arena.layout.groups
        return [(layouts[g], s, t) for g, s, t in zip(groups, sources, targets, strict=True)]

    def _fill_host(self, key: StorageKey, group: GroupLayout, page: int) -> None:
        data = self._fetched[key]
        block = self._host.block(group, page)

        def run() -> None:
            block.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))

        def copied() -> list[Copied]:
            return [
                (unsummed(STORAGE, group.name, page), data),
                (unsummed(HOST, group.name, page, writes=True), block.clone()),
            ]

        self._queue.submit(
            Stream.HOST, Kind.FETCH, run, writes=(self._arena.layout.host_range(group, page),),
            watch=lambda: Watched(left=[Block(HOST, group, page)], also=copied),
        )  # fmt: skip

    def _back_up(self, copy: _Copy) -> None:
        if self._store is None or not copy.backup:
            return
        ranges = merged(self._arena.layout.host_range(page.group, page.host_page) for page in copy.backup)
        store = self._store

        written: list[Copied] = []

        def run() -> None:
            for page in copy.backup:
                data = self._host.block(page.group, page.host_page).numpy().tobytes()
                store.put(page.key, data)
                written.append((unsummed(STORAGE, page.group.name, page.host_page, writes=True), data))

        def watch() -> Watched:
            return Watched([Block(HOST, page.group, page.host_page) for page in copy.backup], (), lambda: written)

        self._queue.submit(Stream.HOST, Kind.BACKUP, run, reads=ranges, op_id=copy.op_id, watch=watch)
        self._counts["storage put"] += len(copy.backup)


def _blocks(moves: Sequence[Move], source: str, target: str, layer: int | None) -> tuple[list[Block], list[Block]]:
    """Return the blocks that moves read in one space, and those that they write in another."""
    read = [Block(source, group, page, layer) for group, page, _ in moves]
    return read, [Block(target, group, page, layer) for group, _, page in moves]
