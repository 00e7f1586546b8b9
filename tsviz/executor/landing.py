"""The decode node's side of a transfer: manifests out, pages in (`executor-rules.md` section 5)."""

from __future__ import annotations

import zlib

import torch

from tsviz.engine.binding import Batch
from tsviz.engine.clock import Clock
from tsviz.executor.arena import Arena
from tsviz.executor.crcs import DEVICE, WIRE, Block, Watched, unsummed
from tsviz.executor.device import ExecutorDevice
from tsviz.executor.manifest import Manifest, prompt_crc, select_pages
from tsviz.executor.messages import BROKEN, Page, Status
from tsviz.executor.options import Edge
from tsviz.executor.refusal import RoomFails
from tsviz.executor.rooms import Room, Stage
from tsviz.executor.shape import ModelShape
from tsviz.executor.wire import Wire
from tsviz.trace.order.checker import merged
from tsviz.trace.order.ops import Kind, Stream

CUT = "the scheduler cut its landing short (A1 in docs/failures.md)"
"""Kind of reason: pages for a part of a prompt, on a node that never computes the rest."""


class Landing:
    """Asks for pages and writes them where they belong; `moved_bytes` is how much came."""

    def __init__(self, wire: Wire, device: ExecutorDevice, arena: Arena, shape: ModelShape, clock: Clock) -> None:
        self._wire, self._device, self._arena, self._shape, self._clock = wire, device, arena, shape, clock
        self.moved_bytes = 0

    def publish(self, room: Room, batch: Batch, row: int) -> None:
        """Tell the peer which pages it is to fill, once they are zeroed.

        Raises RoomFails where the scheduler grants pages for a part of the prompt only, or leaves a hole among them.
        """
        assert room.request is not None, "a request that is planned was submitted"
        device, layout = self._device, self._arena.layout
        tables, slots = batch.block_tables_arrays(), batch.request_pool_indices  # type: ignore[attr-defined]
        prefix, prompt = batch.extend_prefix_lens[row], batch.prefill_lengths[row]
        if (end := prefix + batch.input_lengths[row]) < prompt:
            raise RoomFails(CUT, f"{end} of {prompt} tokens")
        device.view.land(room.request_id, slots[row], prompt)
        granularity = {group.name: group.granularity for group in layout.groups}
        pages = select_pages(self._shape, granularity, tables, row, prefix, prompt)
        room.manifest = Manifest(room.request_id, prefix, prompt, prompt_crc(room.request), pages)
        room.missing_bytes = sum(len(ids) * layout.group(name).payload_bytes for name, ids in pages.items())
        room.stage = Stage.BOOTSTRAPPED
        device.counts["landing behind a prefix" if prefix else "landing"] += 1
        room.zeroing = device.last_zero
        self.tell(room)

    def tell(self, room: Room) -> None:
        """Send a manifest that waits, if its pages are zeroed now: a peer's bytes are not ordered by our streams."""
        queue, zeroing = self._device.queue, room.zeroing
        if zeroing is None or room.manifest is None:
            return
        if Edge.ZERO_REMOTE in self._device.options.omitted or queue.ended(zeroing):
            room.zeroing, room.since_ns = None, self._clock.now_ns()
            self._wire.send(room.manifest.told())

    def take(self, room: Room, status: Status) -> None:
        """Keep the peer's token and candidates. Raises RoomFails for what is not true."""
        width, known = self._device.slots.width, (status.token, *status.candidates)
        if room.asked is None or room.status is not None:
            raise RoomFails(BROKEN, "a status that was not asked for, or has come")
        if max(known) >= self._shape.vocabulary:
            raise RoomFails(BROKEN, f"token: expected less than {self._shape.vocabulary}, found {max(known)}")
        if status.candidates and (len(known) != width + 1 or known[0] != known[1]):
            raise RoomFails(BROKEN, f"candidates: expected {width} from the token on, found {len(status.candidates)}")
        room.status = status

    def land(self, room: Room, page: Page) -> None:
        """Write a page, or one layer of it. Raises RoomFails: it was not asked for, has come, or is not whole."""
        body, name, index, layer = page.body, page.group, page.index, page.layer
        ids = () if room.asked is None else room.asked.pages.get(name, ())
        if index >= len(ids):
            raise RoomFails(BROKEN, f"page {index} of group {name[:20]!r}: it was not asked for")
        group, key = self._arena.layout.group(name), (name, index, layer)
        others = {(name, index, None)} if layer is not None else {(name, index, f.layer) for f in group.fields}
        if not room.landed.isdisjoint({key, *others}):
            raise RoomFails(BROKEN, f"page {index} of group {name}: it has come")
        if zlib.crc32(body) != page.crc:
            raise RoomFails("a page came broken", f"page {index} of group {name}: another checksum than was told")
        expected = sum(field.size_bytes for field in group.fields_of(layer))
        if len(body) != expected or not body:
            raise RoomFails(BROKEN, f"page {index} of group {name}: expected {expected} bytes, found {len(body)}")
        room.landed.add(key)
        room.missing_bytes -= len(body)

        def run() -> None:
            self._arena.write_block(group, ids[index], torch.frombuffer(bytearray(body), dtype=torch.uint8), layer)

        def watch() -> Watched:
            came = unsummed(WIRE, name, ids[index], layer, room.request_id, index), body
            block = [Block(DEVICE, group, ids[index], layer, room.request_id, index)]
            return Watched(block, block, lambda: (came,))

        writes = merged(group.device_ranges(ids[index], layer))
        op = self._device.queue.submit(Stream.PEER, Kind.RECEIVE, run, writes=writes, layer=layer, watch=watch)
        room.ops.append(op)
        self.moved_bytes += len(body)
