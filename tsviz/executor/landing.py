"""The decode node's side of a transfer: manifests out, pages in (`executor-rules.md` section 5)."""

from __future__ import annotations

import zlib

import torch

from tsviz.engine.binding import Batch
from tsviz.executor.arena import Arena
from tsviz.executor.crcs import DEVICE, WIRE, Block, Watched, unsummed
from tsviz.executor.device import ExecutorDevice
from tsviz.executor.manifest import Manifest, select_pages
from tsviz.executor.ops import Kind, Stream
from tsviz.executor.options import Edge
from tsviz.executor.order import merged
from tsviz.executor.rooms import Room, Stage
from tsviz.executor.shape import ModelShape
from tsviz.executor.wire import Frame, Wire


class Landing:
    """Asks for pages and writes them where they belong; `moved_bytes` is how much came."""

    def __init__(self, wire: Wire, device: ExecutorDevice, arena: Arena, shape: ModelShape) -> None:
        self._wire, self._device, self._arena, self._shape = wire, device, arena, shape
        self.moved_bytes = 0

    def publish(self, room: Room, batch: Batch, row: int) -> None:
        """Tell the peer which pages it is to fill, once they are zeroed. Raises BadManifest for a hole among them."""
        device, layout = self._device, self._arena.layout
        tables, slots = batch.block_tables_arrays(), batch.request_pool_indices  # type: ignore[attr-defined]
        prefix, prompt = batch.extend_prefix_lens[row], batch.prefill_lengths[row]
        device.view.land(room.request_id, slots[row], prompt)
        granularity = {group.name: group.granularity for group in layout.groups}
        pages = select_pages(self._shape, granularity, tables, row, prefix, prompt)
        room.manifest = Manifest(room.request_id, prefix, prompt, pages)
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
            room.zeroing = None
            self._wire.send(room.manifest.told())

    def land(self, room: Room, frame: Frame) -> bool:
        """Write a page, or one layer of it; False for one that was not asked for, has come, or is not whole."""
        head, body = frame
        name, index, layer = str(head.get("group")), head.get("index"), head.get("layer")
        ids = () if room.manifest is None else room.manifest.pages.get(name, ())
        if not isinstance(index, int) or not 0 <= index < len(ids) or zlib.crc32(body) != head.get("crc"):
            return False
        if layer is not None and not isinstance(layer, int):
            return False
        group, key = self._arena.layout.group(name), (name, index, layer)
        if key in room.landed or len(body) != sum(field.size_bytes for field in group.fields_of(layer)) or not body:
            return False
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
        return True
