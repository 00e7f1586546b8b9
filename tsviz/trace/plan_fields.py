"""Reading one plan of the public API: each attribute once, since every access copies (executor-rules.md, section 9).

Works on plans of the real package and of the twin alike. What is read is split by meaning: *structural* fields decide
which pages and rows go where; *content* fields are ids, tokens and hashes, and are read only when tokens are recorded.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Pages = npt.NDArray[np.int32]

ON_DEVICE = -1
"""A decode input id that the plan leaves to the device; any other number is a token."""


Rows = npt.NDArray[np.int64]
TablesOf = Callable[[Rows | None], dict[str, Pages]]
"""Block tables of some rows of a batch (None: of all): one (rows, slots) array a group, padded with -1."""


class Grown(NamedTuple):
    """A row whose tables are those last seen in its slot and longer; `tables`: by group, pages, length then and now."""

    row: int
    tables: list[tuple[array[int], int, int]]


@dataclass(slots=True)
class BatchFields:
    """One batch: parallel lists, prefill rows first."""

    ids: list[str]
    slots: array[int]
    input_tokens: array[int]
    prefill_tokens: array[int]
    begins: array[int]
    replays: array[int]
    decode_inputs: list[int]
    tables: TablesOf
    _: KW_ONLY
    moved: Rows | None = None
    """Rows whose tables may differ from those last seen in their slots; None: any may."""
    grown: list[Grown] | None = None
    """The same rows, where their tables have only grown and nothing else; None where that is not known."""
    groups: Sequence[str] = ()
    """The groups of `grown`, in order."""
    input_ids: list[int] | None = None
    shifted_input_ids: list[int] | None = None
    candidates: list[list[int]] | None = None
    digested: list[bytes] = field(default_factory=list)
    """Sections of the structural digest that depend on these fields alone, once they were made."""
    content_digested: list[bytes] = field(default_factory=list)
    """The same of the content digest."""

    @property
    def prefills(self) -> int:
        """How many of the rows are prefill rows."""
        return len(self.begins)


@dataclass(slots=True)
class TransferFields:
    """One cache operation object of a plan: parallel lists per operation, and inside them per page."""

    load: bool
    op_ids: list[int]
    group_index: list[list[int]]
    src_pages: list[list[int]]
    dst_pages: list[list[int]]
    hashes: list[list[str]]
    offsets: list[list[int]]
    flags: list[Any]
    """Per operation: `source_pinned` of a store; per operation and page: `prefetch_from_storage` of a load."""


@dataclass(slots=True)
class PlanFields:
    """One plan. `batch` is None for the empty plan that no scheduler returns."""

    batch: BatchFields | None
    remote_prefill: BatchFields | None
    remote_decode: BatchFields | None
    zeroed: dict[str, Pages]
    transfers: list[TransferFields]


ReadPlan = Callable[..., PlanFields]
"""Reads one plan, as `read_plan`."""


def read_batch(batch: Any, *, content: bool) -> BatchFields:
    """Read one `Forward.Batch`."""

    def tables(rows: Rows | None) -> dict[str, Pages]:
        arrays: dict[str, Pages] = batch.block_tables_arrays()
        return arrays if rows is None else {group: table[rows] for group, table in arrays.items()}

    fields = BatchFields(
        batch.request_ids,
        array("i", batch.request_pool_indices),
        array("i", batch.input_lengths),
        array("i", batch.prefill_lengths),
        array("i", batch.extend_prefix_lens),
        array("i", batch.extend_replay_lens),
        batch.decode_input_ids,
        tables,
    )
    if content:
        fields.input_ids = batch.input_ids
        fields.shifted_input_ids = batch.shifted_input_ids
        fields.candidates = batch.spec_candidate_ids
    return fields


def read_transfer(operation: Any) -> TransferFields:
    """Read one cache operation object."""
    load = hasattr(operation, "prefetch_from_storage")
    return TransferFields(
        load,
        operation.op_ids,
        operation.group_ids,
        operation.src_pages,
        operation.dst_pages,
        operation.content_hashes,
        operation.page_offsets,
        operation.prefetch_from_storage if load else operation.source_pinned,
    )


def read_plan(plan: Any, *, content: bool, batch: BatchFields | None = None) -> PlanFields:
    """Read one `ExecutionPlan`; `content` also reads ids and tokens of the model's input.

    `batch`: the fields of its forward batch, if they are known already.
    """
    if batch is None and (forward := plan.forward):
        batch = read_batch(forward[0], content=content)
    remote_prefill, remote_decode = plan.remote_prefill, plan.remote_decode
    cache = plan.cache
    return PlanFields(
        batch,
        None if remote_prefill is None else read_batch(remote_prefill, content=content),
        None if remote_decode is None else read_batch(remote_decode, content=content),
        plan.pages_to_zero_arrays(),
        [read_transfer(op) for op in cache] if cache else [],
    )
