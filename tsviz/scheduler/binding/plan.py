"""`ExecutionPlan` and what it holds (`scheduler-rules.md` 1.6). Every read is fresh."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsviz.scheduler.binding.checks import Bound, NoConstructor
from tsviz.scheduler.cache.transfers import LoadOp, StoreOp
from tsviz.scheduler.plan import Batch as CoreBatch
from tsviz.scheduler.plan import Plan, visible_pages

Int32Array = NDArray[np.int32]


class Batch(NoConstructor):
    """Rows of a forward, prefill rows first."""

    __slots__ = ("_batch",)
    _batch: CoreBatch

    @property
    def request_ids(self) -> list[str]:
        """One id a row."""
        return [row[0] for row in self._batch.rows]

    @property
    def request_pool_indices(self) -> list[int]:
        """One slot a row."""
        return [row[1] for row in self._batch.rows]

    @property
    def input_lengths(self) -> list[int]:
        """Tokens fed, one a row."""
        return [row[2] for row in self._batch.rows]

    @property
    def prefill_lengths(self) -> list[int]:
        """Prefill size of the request, one a row."""
        return [row[3] for row in self._batch.rows]

    @property
    def extend_prefix_lens(self) -> list[int]:
        """Position of the first token fed, one a prefill row."""
        return [row.prefix_tokens for row in self._batch.extends]

    @property
    def extend_replay_lens(self) -> list[int]:
        """Tokens fed again, one a prefill row."""
        return [row.replay_tokens for row in self._batch.extends]

    @property
    def input_ids(self) -> list[int]:
        """Tokens fed, prefill rows concatenated."""
        return _joined([row.input_ids() for row in self._batch.extends])

    @property
    def shifted_input_ids(self) -> list[int]:
        """The token after each one fed, -1 beyond the prompt."""
        return _joined([row.shifted_input_ids() for row in self._batch.extends])

    @property
    def decode_input_ids(self) -> list[int]:
        """First token of a decode that another engine hands over, else -1; one a decode row."""
        return [row[8] for row in self._batch.decodes]

    @property
    def spec_candidate_ids(self) -> list[list[int]]:
        """Draft candidates, one list a decode row."""
        return [list(row[9]) for row in self._batch.decodes]

    @property
    def block_tables(self) -> dict[str, list[list[int]]]:
        """Group id -> rows of page ids, 0 for holes, padded with -1."""
        out = {}
        for group_id, views in self._batch.table_rows().items():
            width = max(view[1] for view in views)
            out[group_id] = [visible_pages(view) + [-1] * (width - view[1]) for view in views]
        return out

    def block_tables_arrays(self) -> dict[str, Int32Array]:
        """Group id -> read-only int32 array of the same rows."""
        return table_arrays(self._batch)

    def num_extends(self) -> int:
        """Number of prefill rows."""
        return self._batch.num_extends

    def __repr__(self) -> str:
        """The fields a person looks for."""
        names = (
            "request_ids",
            "request_pool_indices",
            "input_lengths",
            "input_ids",
            "shifted_input_ids",
            "extend_prefix_lens",
            "extend_replay_lens",
        )
        fields = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"ForwardBatch({fields}, num_extends={self.num_extends()})"


def table_arrays(batch: CoreBatch) -> dict[str, Int32Array]:
    """Group id -> read-only int32 array of its rows' tables: page ids, 0 for holes, padded with -1."""
    out = {}
    for group_id, views in batch.table_rows().items():
        table = np.full((len(views), max(view[1] for view in views)), -1, dtype=np.int32)
        for row, (pages, length, frontier) in zip(table, views, strict=True):
            holes = min(frontier, length)
            row[:holes] = 0
            row[holes:length] = pages[holes:length]
        table.setflags(write=False)
        out[group_id] = table
    return out


def _joined(parts: list[list[int]]) -> list[int]:
    """Concatenate; the first part is given up to it."""
    out = parts[0] if parts else []
    for part in parts[1:]:
        out += part
    return out


def _batch(batch: CoreBatch) -> Batch:
    out: Batch = object.__new__(Batch)
    out._batch = batch
    return out


class WriteBackOp(NoConstructor):
    """Store operations of a plan: parallel lists, one entry an operation."""

    __slots__ = ("_ops",)
    _ops: tuple[StoreOp, ...]

    @property
    def op_ids(self) -> list[int]:
        """One id an operation."""
        return [op.op_id for op in self._ops]

    @property
    def group_ids(self) -> list[list[int]]:
        """Numeric group of each page."""
        return [[t.group for t in op.transfers] for op in self._ops]

    @property
    def src_pages(self) -> list[list[int]]:
        """Device pages."""
        return [[t.device_page for t in op.transfers] for op in self._ops]

    @property
    def dst_pages(self) -> list[list[int]]:
        """Host pages."""
        return [[t.host_page for t in op.transfers] for op in self._ops]

    @property
    def content_hashes(self) -> list[list[str]]:
        """Hash of the prefix page of each page."""
        return [[t.digest.hex() for t in op.transfers] for op in self._ops]

    @property
    def page_offsets(self) -> list[list[int]]:
        """Place of each page in its prefix page."""
        return [[t.offset for t in op.transfers] for op in self._ops]

    @property
    def source_pinned(self) -> list[bool]:
        """Whether the device pages stay pinned until the acknowledgement."""
        return [op.source_pinned for op in self._ops]


class LoadBackOp(NoConstructor):
    """Load operations of a plan: parallel lists, one entry an operation."""

    __slots__ = ("_keyed", "_ops")
    _ops: tuple[LoadOp, ...]
    _keyed: bool

    @property
    def op_ids(self) -> list[int]:
        """One id an operation."""
        return [op.op_id for op in self._ops]

    @property
    def group_ids(self) -> list[list[int]]:
        """Numeric group of each page."""
        return [[p.group for p in op.pairs] for op in self._ops]

    @property
    def src_pages(self) -> list[list[int]]:
        """Host pages."""
        return [[p.host_page for p in op.pairs] for op in self._ops]

    @property
    def dst_pages(self) -> list[list[int]]:
        """Device pages."""
        return [[p.device_page for p in op.pairs] for op in self._ops]

    @property
    def content_hashes(self) -> list[list[str]]:
        """Hash of the prefix page of each page; empty without the storage tier."""
        return [[p.digest.hex() if self._keyed else "" for p in op.pairs] for op in self._ops]

    @property
    def page_offsets(self) -> list[list[int]]:
        """Place of each page in its prefix page; 0 without the storage tier."""
        return [[p.offset if self._keyed else 0 for p in op.pairs] for op in self._ops]

    @property
    def prefetch_from_storage(self) -> list[list[int]]:
        """1 where the host page must first be filled from storage."""
        return [[int(p.prefetch) for p in op.pairs] for op in self._ops]


class ExecutionPlan(Bound):
    """One round's plan; `ExecutionPlan()` is empty."""

    __slots__ = ("_plan",)

    def __init__(self) -> None:
        """An empty plan."""
        self._plan: Plan | None = None

    @property
    def forward(self) -> list[Batch]:
        """The local batch, possibly without rows."""
        return [] if self._plan is None else [_batch(self._plan.batch)]

    @property
    def remote_decode(self) -> Batch | None:
        """Completed prompts for the decode engine."""
        batch = None if self._plan is None else self._plan.remote_decode
        return None if batch is None else _batch(batch)

    @property
    def remote_prefill(self) -> Batch | None:
        """The prompt that the prefill engine must land."""
        batch = None if self._plan is None else self._plan.remote_prefill
        return None if batch is None else _batch(batch)

    @property
    def cache(self) -> list[WriteBackOp | LoadBackOp]:
        """Stores, then loads; absent when empty."""
        out: list[WriteBackOp | LoadBackOp] = []
        plan = self._plan
        if plan is None:
            return out
        if plan.stores:
            stores: WriteBackOp = object.__new__(WriteBackOp)
            stores._ops = plan.stores
            out.append(stores)
        if plan.loads:
            loads: LoadBackOp = object.__new__(LoadBackOp)
            loads._ops, loads._keyed = plan.loads, plan.storage_keys
            out.append(loads)
        return out

    @property
    def pages_to_zero(self) -> dict[str, list[int]]:
        """Group id -> fresh pages; empty when nothing was admitted."""
        return {} if self._plan is None else self._plan.pages_to_zero()

    def pages_to_zero_arrays(self) -> dict[str, Int32Array]:
        """The same as read-only int32 arrays."""
        out = {}
        for group_id, pages in self.pages_to_zero.items():
            out[group_id] = np.array(pages, dtype=np.int32)
            out[group_id].setflags(write=False)
        return out


def execution_plan(plan: Plan) -> ExecutionPlan:
    """Wrap a plan."""
    out = ExecutionPlan()
    out._plan = plan
    return out


def core_plan(plan: ExecutionPlan) -> Plan | None:
    """The immutable plan of the twin behind a public one; None for an empty plan."""
    return plan._plan
