"""The prefill node's side of a transfer: pages and status, whole or layer by layer (`executor-rules.md` section 5).

Whole: all blocks once the prompt is computed. Layer by layer: after each chunk the blocks that it completed, every
layer of them as soon as the forward has run it; the last chunk sends the partial block and the state too. What P found
in its own cache goes with its first chunk.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from tsviz.engine.binding import Batch
from tsviz.engine.device import Planned
from tsviz.executor.arena import Arena
from tsviz.executor.crcs import DEVICE, WIRE, Block, Copied, Watched, unsummed
from tsviz.executor.device import ExecutorDevice
from tsviz.executor.layout import GroupLayout
from tsviz.executor.manifest import HOLE, Manifest, select_pages, travelling
from tsviz.executor.refusal import RoomFails
from tsviz.executor.rooms import Room, Stage
from tsviz.executor.shape import ModelShape
from tsviz.executor.wire import Wire
from tsviz.trace.order.checker import merged
from tsviz.trace.order.ops import Kind, Stream

Travelling = tuple[GroupLayout, int, int]
"""A group, a position in the manifest, the page on this node."""


class Sender:
    """Queues what goes to the peer; `moved_bytes` is how much went."""

    def __init__(self, wire: Wire, device: ExecutorDevice, arena: Arena, shape: ModelShape) -> None:
        self._wire, self._device, self._arena, self._shape = wire, device, arena, shape
        self.moved_bytes = 0

    def chunk(self, room: Room, planned: Planned, row: int) -> None:
        """Send, layer by layer, what one row of the forward that was just queued completes. Raises RoomFails."""
        manifest = _manifest(room)
        end = planned.extend_prefix_lens[row] + planned.input_lengths[row]
        is_last = end == planned.prefill_lengths[row]
        tables = planned.batch.block_tables_arrays()  # type: ignore[union-attr]
        blocks: list[Travelling] = []
        for group in self._arena.layout.groups:
            slots = travelling(
                self._shape, group.name, group.granularity, manifest.prefix_tokens, manifest.prompt_tokens
            )
            for index, slot in enumerate(slots):
                complete = is_last or ((slot + 1) * group.granularity <= end and group.name != "state")
                if complete and (group.name, index) not in room.sent:
                    page = int(tables[group.name][row][slot])
                    if page <= 0:
                        raise RoomFails(HOLE, f"group {group.name}: expected a block for slot {slot}, found {page}")
                    room.sent.add((group.name, index))
                    blocks.append((group, index, page))
        self._device.counts["block sent ahead"] += len(blocks)
        for op in self._device.last_layers if blocks else ():
            touched = [block for block in blocks if block[0].fields_of(op.layer)]
            if touched:
                self._submit(room, touched, op.layer, op.number)

    def finish(self, room: Room, batch: Batch, row: int) -> None:
        """Send what did not go ahead, and the status. Raises RoomFails where a block that travels is missing."""
        manifest, tables = _manifest(room), batch.block_tables_arrays()
        granularity = {group.name: group.granularity for group in self._arena.layout.groups}
        pages = select_pages(self._shape, granularity, tables, row, manifest.prefix_tokens, manifest.prompt_tokens)
        blocks = [
            (self._arena.layout.group(name), index, page)
            for name, ids in pages.items()
            for index, page in enumerate(ids)
            if (name, index) not in room.sent
        ]
        if blocks:
            self._submit(room, blocks, None, self._device.queue.last_exec)
        candidates = [int(candidate) for candidate in batch.spec_candidate_ids[row]]
        told = {"kind": "status", "room": room.request_id, "token": int(batch.decode_input_ids[row])}
        self._wire.send(told | {"candidates": candidates})
        self._device.counts["hand-over"] += 1
        room.stage = Stage.TRANSFERRING

    def _submit(self, room: Room, blocks: Sequence[Travelling], layer: int | None, behind: int | None) -> None:
        sent: list[Copied] = []

        def run() -> None:
            for group, index, page in blocks:
                body = self._arena.read_block(group, page, layer)
                sent.append((unsummed(WIRE, group.name, page, layer, room.request_id, index, writes=True), body))
                head = {"kind": "page", "room": room.request_id, "group": group.name, "index": index, "layer": layer}
                self._wire.send(head | {"crc": zlib.crc32(body)}, body)
                self.moved_bytes += len(body)

        def watch() -> Watched:
            found = [Block(DEVICE, group, page, layer, room.request_id, index) for group, index, page in blocks]
            return Watched(found, (), lambda: sent)

        reads = merged(r for group, _, page in blocks for r in group.device_ranges(page, layer))
        room.ops.append(
            self._device.queue.submit(Stream.PEER, Kind.SEND, run, [behind], reads=reads, layer=layer, watch=watch)
        )


def _manifest(room: Room) -> Manifest:
    assert room.manifest is not None, "a room is bootstrapped by its manifest"
    return room.manifest
