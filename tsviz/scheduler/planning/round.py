"""The plan under construction: batch, budgets and flags of one round (seed 3, `scheduler-rules.md` 5)."""

from __future__ import annotations

from tsviz.scheduler.cache.transfers import LoadOp, StoreOp
from tsviz.scheduler.config import Config, Role
from tsviz.scheduler.decisions import BATCH_FULL, BUDGET_SPENT
from tsviz.scheduler.plan import Batch, Plan, Row
from tsviz.scheduler.planning.verdicts import NO_ROWS, Verdicts, Why
from tsviz.scheduler.request import Request


class Round:
    """Mutable state of one round. Every row enters through `push`."""

    __slots__ = (
        "blocker",
        "budget",
        "decode_cost",
        "decodes",
        "holdback",
        "loads",
        "max_rows",
        "number",
        "prefills",
        "remote_decodes",
        "remote_prefills",
        "stores",
        "verdicts",
        "zero_keys",
        "zero_pages",
    )

    def __init__(self, config: Config, number: int, stores: list[StoreOp], zero_keys: tuple[int, ...]) -> None:
        """An empty round.

        `stores` are the operations that finishes started since the last plan; `zero_keys` names, for each
        group, the first group of the same id.
        """
        self.zero_keys = zero_keys
        self.number = number
        self.budget = config.max_scheduled_tokens
        self.max_rows = config.max_batch_size
        self.decode_cost = 0 if config.role is Role.D else config.decode_input_tokens
        self.holdback = 0
        self.prefills: list[Row] = []
        self.decodes: list[Row] = []
        self.remote_decodes: list[Row] = []
        self.remote_prefills: list[Row] = []
        self.stores = stores
        self.loads: list[LoadOp] = []
        self.zero_pages: list[list[int]] | None = None
        self.blocker: Request | None = None
        self.verdicts = Verdicts()

    @property
    def full(self) -> bool:
        """Whether no further local row can join."""
        return self.budget <= 0 or len(self.prefills) + len(self.decodes) == self.max_rows

    def push_prefill(self, request: Request, row: Row) -> None:
        """A prefill row joins the batch and spends its input from the budget."""
        request.scheduled_round = self.number
        request.in_flight += 1
        self.budget -= row.input_length
        self.prefills.append(row)

    def push_decode(self, request: Request, row: Row) -> None:
        """A decode row joins the batch."""
        request.scheduled_round = self.number
        request.in_flight += 1
        self.budget -= self.decode_cost
        self.decodes.append(row)

    def push_remote(self, request: Request, row: Row, rows: list[Row]) -> None:
        """A row for the peer: no budget, no batch slot, nothing in flight here."""
        request.scheduled_round = self.number
        rows.append(row)

    def why_full(self) -> Why:
        """Which limit filled the batch; a limit of no row at all is one that nobody ever passes."""
        if not self.max_rows:
            return NO_ROWS
        return Why(BUDGET_SPENT if self.budget <= 0 else BATCH_FULL)

    def zero(self, fresh: list[list[int]]) -> None:
        """Record the fresh pages of a successful admission, under the first group of the same id."""
        if self.zero_pages is None:
            self.zero_pages = [[] for _ in fresh]
        for index, pages in enumerate(fresh):
            if pages:
                self.zero_pages[self.zero_keys[index]].extend(pages)

    def finish(self, group_ids: tuple[str, ...], storage_keys: bool) -> Plan:
        """The round as an immutable plan."""
        zero = None if self.zero_pages is None else tuple([tuple(pages) for pages in self.zero_pages])
        return Plan(
            batch=Batch((*self.prefills, *self.decodes), len(self.prefills), group_ids),
            remote_decode=Batch(tuple(self.remote_decodes), 0, group_ids) if self.remote_decodes else None,
            remote_prefill=(
                Batch(tuple(self.remote_prefills), len(self.remote_prefills), group_ids)
                if self.remote_prefills
                else None
            ),
            stores=tuple(self.stores),
            loads=tuple(self.loads),
            zero_pages=zero,
            storage_keys=storage_keys,
        )
