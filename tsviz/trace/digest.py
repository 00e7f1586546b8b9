"""Digest `plan/1`: two 64-bit numbers a round, by which re-execution proves itself (architecture.md, section 5).

*Structural*: rows, slots, lengths, table changes, zero lists, operations, remote streams, counters. *Content*: request
ids, model inputs and hashes. Both are BLAKE2b with an 8-byte result, read as a little-endian number, over sections
`tag byte, count (uint32 LE), values`: integers as int32 or int64 LE arrays, strings as UTF-8, each behind a 0xFF byte.
The digest of a round does not depend on earlier digests; table changes are against the last table seen of the request.
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from .differences import Changes
from .plan_fields import ON_DEVICE, BatchFields, PlanFields, TransferFields

NAME = "plan/1"
_head = struct.Struct("<BI").pack


class _Sections:
    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def ints(self, tag: int, values: Sequence[int]) -> None:
        flat = values if isinstance(values, array) else array("i", values)
        self.raw(tag, len(flat), flat.tobytes())

    def raw(self, tag: int, count: int, data: bytes) -> None:
        self.parts += _head(tag, count), data

    def words(self, tag: int, values: Sequence[str]) -> None:
        self.raw(tag, len(values), b"".join(b"\xff" + v.encode("utf-8", "surrogatepass") for v in values))

    def number(self) -> int:
        return _number(tuple(self.parts))


@lru_cache(8)  # a steady round says what the one before it said, and its sections are the same objects
def _number(parts: tuple[bytes, ...]) -> int:
    digest = hashlib.blake2b(b"".join(parts), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _flat(nested: Iterable[Iterable[int]]) -> list[int]:
    return [int(value) for inner in nested for value in inner]


def structural(
    plan: PlanFields,
    batches: Sequence[tuple[BatchFields, Sequence[int], Sequence[Changes]]],
    counters: Sequence[int],
) -> int:
    """Return the structural digest.

    `batches`: for each batch present (forward, remote prefill, remote decode) its fields, the submission number of
    each row and its table changes; `counters` as in table `rounds`.
    """
    sections = _Sections()
    sections.ints(1, (plan.batch is not None, plan.remote_prefill is not None, plan.remote_decode is not None))
    for fields, submissions, changes in batches:
        _batch(sections, fields, submissions)
        for change in changes:
            sections.words(20, (change.group,))
            sections.raw(21, len(change.row), change.row.tobytes() + change.first.tobytes() + change.length.tobytes())
            sections.raw(22, len(change.fresh), change.fresh.tobytes())
            sections.raw(23, len(change.pages), change.offsets.tobytes() + change.pages.tobytes())
    for group, pages in plan.zeroed.items():
        if len(pages):
            sections.words(30, (group,))
            sections.raw(31, len(pages), pages.tobytes())
    for transfer in plan.transfers:
        _transfer(sections, transfer)
    sections.ints(50, counters)
    return sections.number()


def _batch(sections: _Sections, fields: BatchFields, submissions: Sequence[int]) -> None:
    sections.ints(10, submissions)
    if not fields.digested:
        fields.digested.append(b"".join(_of_fields(fields)))
    sections.parts += fields.digested


def _of_fields(fields: BatchFields) -> list[bytes]:
    sections = _Sections()
    sections.ints(11, fields.slots)
    sections.ints(12, fields.input_tokens)
    sections.ints(13, fields.prefill_tokens)
    sections.ints(14, fields.begins)
    sections.ints(15, fields.replays)
    inputs = fields.decode_inputs
    none = inputs.count(ON_DEVICE)
    if none in (0, len(inputs)):
        sections.ints(16, array("i", (0 if none else 1,)) * len(inputs))
    else:
        sections.ints(16, [value != ON_DEVICE for value in inputs])
    return sections.parts


def _transfer(sections: _Sections, transfer: TransferFields) -> None:
    sections.ints(40, transfer.op_ids)
    sections.ints(41, [len(pages) for pages in transfer.src_pages])
    sections.ints(42, _flat(transfer.group_index))
    sections.ints(43, _flat(transfer.src_pages))
    sections.ints(44, _flat(transfer.dst_pages))
    sections.ints(45, _flat(transfer.offsets))
    flags: list[Any] = transfer.flags
    sections.ints(47 if transfer.load else 46, _flat(flags) if transfer.load else [bool(flag) for flag in flags])


def content(plan: PlanFields, batches: Sequence[BatchFields]) -> int:
    """Return the content digest; the plan must have been read with content."""
    sections = _Sections()
    for fields in batches:
        if not fields.content_digested:
            fields.content_digested.append(b"".join(_of_content(fields)))
        sections.parts += fields.content_digested
    for transfer in plan.transfers:
        sections.words(66, [h for hashes in transfer.hashes for h in hashes])
    return sections.number()


def _of_content(fields: BatchFields) -> list[bytes]:
    sections = _Sections()
    sections.words(60, fields.ids)
    sections.ints(61, fields.input_ids or ())
    sections.ints(62, fields.shifted_input_ids or ())
    sections.ints(63, fields.decode_inputs)
    sections.ints(64, [len(c) for c in fields.candidates or ()])
    sections.ints(65, _flat(fields.candidates or ()))
    return sections.parts
