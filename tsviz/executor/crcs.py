"""Checksums of blocks as operations find and leave them, for debugging (`executor-rules.md` sections 5, 9 and 10).

An operation copies the bytes on its own stream, in front of and behind what it does; they are summed up on the control
thread once it has ended, so that nothing waits for it. Beside a GPU the host's bytes are looked at only then: they stay
what they are until the end of a copy is acknowledged. What an operation leaves is what it declares to write: bytes
that change otherwise show at the next one that finds them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from tsviz.executor.arena import Arena, HostPool
from tsviz.executor.layout import GroupLayout
from tsviz.executor.streams import Run
from tsviz.executor.upload import download
from tsviz.trace.entries import PageCrc

DEVICE, HOST, STORAGE, WIRE = "device", "host", "storage", "wire"
PLAN, UPLOAD, SCRATCH, SLOT = "plan", "upload", "scratch", "slot"

Copied = tuple[PageCrc, Tensor | bytes | list[Tensor]]
"""A row without its sum, and the bytes, some in parts: on the host once the operation has ended."""


@dataclass(frozen=True, slots=True)
class Block:
    """Where an operation reads or writes: one layer of a block, or for None each of them; `request` and `item` where it
    travels between nodes."""

    space: str
    group: GroupLayout
    page: int
    layer: int | None = None
    request: str | None = None
    item: int | None = None


def _nothing() -> Iterable[Copied]:
    return ()


@dataclass(frozen=True, slots=True)
class Watched:
    """The blocks of an operation as it finds and as it leaves them, and what else it knows once it has run."""

    found: Sequence[Block] = ()
    left: Sequence[Block] = ()
    also: Callable[[], Iterable[Copied]] = _nothing


class PageCrcs:
    """Copies what is watched and sums it up."""

    def __init__(self, arena: Arena, host: HostPool | None) -> None:
        self._arena, self._host = arena, host
        self._copies: dict[int, list[Copied]] = {}

    def around(self, number: int, run: Run, watched: Watched) -> Run:
        """Return what runs an operation and copies around it."""
        copies = self._copies[number] = []

        def copying() -> None:
            copies.extend(self._copied(watched.found, writes=False))
            run()
            copies.extend(self._copied(watched.left, writes=True))
            copies.extend(watched.also())

        return copying

    def summed(self, number: int) -> list[PageCrc]:
        """Return the checksums of an operation that has ended, once."""
        return [row._replace(crc32=_crc32(data)) for row, data in self._copies.pop(number, ())]

    def _copied(self, blocks: Iterable[Block], *, writes: bool) -> Iterable[Copied]:
        for block in blocks:
            group = block.group
            for layer in (block.layer,) if block.layer is not None else sorted({f.layer for f in group.fields}):
                data: Tensor | list[Tensor]
                if block.space == DEVICE:
                    data = download(self._arena.packed(group, block.page, layer))
                else:
                    assert self._host is not None, "a block of the host pool"
                    data = self._host.fields(group, block.page, layer)
                    if not self._arena.data.is_cuda:
                        data = [field.clone() for field in data]
                yield (
                    unsummed(block.space, group.name, block.page, layer, block.request, block.item, writes=writes),
                    data,
                )


def unsummed(
    space: str, group: str, page: int | None = None, layer: int | None = None, request: str | None = None,
    item: int | None = None, *, writes: bool = False,
) -> PageCrc:  # fmt: skip
    """Return a row whose sum is yet to come."""
    return PageCrc(space, writes, group, page, layer, request, item, 0)


def _crc32(data: Tensor | bytes | list[Tensor]) -> int:
    if isinstance(data, bytes):
        return zlib.crc32(data)
    crc = 0
    for part in data if isinstance(data, list) else [data]:
        crc = zlib.crc32(part.numpy().tobytes(), crc)
    return crc
