"""What happens to the requests of a part, put together as rounds come in: nothing is read twice, no row is kept.

What `grown` returns says the same whatever comes in later; it takes as much room as there is change
(architecture.md, section 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsviz.replay.rows.buffer import Buffer
from tsviz.replay.rows.lifetimes import ENDS, NEVER, Longs, column, keys, words

from . import bases_tables as t
from .distinct import Columns, lot_pieces
from .growing_held import GrowingHeld, HeldLog
from .growing_spans import GrowingSpans
from .lives import Lives, Requests
from .word_numbers import WordNumbers

KINDS = ("prefill", "decode", "remote_prefill", "remote_decode")
RESULT = "extend_result"
FATES = (*ENDS, "bootstrapped", "remote_prefill_done", "retract")
"""Events that change more than a length."""
_ROW = ("kind", "begin_tokens", "input_tokens", "prefill_tokens")
_ROUNDS = ("round", "start_ns", "empty_pages", "retracted_requests")
_REQUESTS = ("round", "accepted", "prompt_tokens", "max_new_tokens")

TOLD: dict[str, tuple[str, ...]] = {
    "submissions": (*_REQUESTS, "request"),
    "operations": ("round", "submission", "slot", "replay_tokens", *_ROW),
    "events": ("round", "kind", "submission", "op_id", "value", "applied", "token_count", "cause_round"),
    "rounds": _ROUNDS,
    "transfers": ("round", "op_id", "source_pinned", "group_index", "src_page"),
    "table_changes": tuple(c.name for c in t.REQUEST_TABLES.columns),
}
"""The columns of tables that are needed, and what else of them is shown of a round."""


@dataclass(frozen=True, slots=True)
class Grown:
    """Everything that is known at one moment."""

    life: Lives
    rounds: dict[str, Longs]
    """Columns of table `rounds`."""
    replayed: Longs
    """Rounds with re-fed rows."""
    operations: tuple[Longs, Longs]
    """Per transfer operation `op_id` and `round`."""
    held: HeldLog
    acknowledgements: Acknowledgements


@dataclass(frozen=True, slots=True)
class Acknowledgements:
    """Which operations were acknowledged when, of those that had been at one moment."""

    numbers: Mapping[int, int]
    rounds: Longs

    def round_of(self, op_id: int) -> int | None:
        """Return the round in which an operation was acknowledged, for the first time."""
        number = self.numbers.get(op_id, len(self.rounds))
        return int(self.rounds[number]) if number < len(self.rounds) else None


class Growth:
    """Takes the rows of whole rounds and tells what they come to. Not for two threads at once."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._kinds, self._event_kinds = WordNumbers(KINDS), WordNumbers((RESULT,))
        self._names: list[str] = []
        self._requests = {name: Buffer(np.bool_ if name == "accepted" else np.int64) for name in _REQUESTS}
        self._rounds = {name: Buffer(np.int64) for name in _ROUNDS}
        self._rows = GrowingSpans(_ROW)
        self._local, self._landed, self._results = (GrowingSpans(("amount",)) for _ in range(3))
        self._fates = {name: Buffer(np.int64) for name in ("submission", "round", "kind")}
        self._ends: dict[int, int] = {}
        self._acknowledged, self._numbers = Buffer(np.int64), dict[int, int]()
        self._replayed, self._starts = Buffer(np.int64), Buffer(np.int64)
        self._operations = Buffer(np.int64), Buffer(np.int64)
        self._held = GrowingHeld([str(group["group_id"]) for group in config["cache_groups"]])

    def take(self, lot: Mapping[str, Iterable[pa.RecordBatch]], last_round: int) -> None:
        """Take the rows that came in, the last plan among them that of `last_round`. `TOLD` says which columns."""
        reads = {
            "submissions": self.submissions, "operations": self.row_batch, "events": self.events,
            "rounds": self.rounds, "transfers": self.transfers, "table_changes": self.changes,
        }  # fmt: skip
        for name, read in reads.items():
            for batch in lot.get(name, ()):
                read(batch)
        self.reach(last_round)

    def reach(self, last_round: int) -> None:
        """Note that plans up to a round are there."""
        self._held.reach(last_round, self._end_of)

    def submissions(self, batch: pa.RecordBatch) -> None:
        """Take rows of `submissions`."""
        self._names += [name or "" for name in words(batch, "request")]
        for name, buffer in self._requests.items():
            buffer.add(batch[name].to_numpy(zero_copy_only=False))

    def rounds(self, batch: pa.RecordBatch) -> None:
        """Take rows of `rounds`."""
        for name, buffer in self._rounds.items():
            buffer.add(column(batch, name))

    def row_batch(self, batch: pa.RecordBatch) -> None:
        """Take rows of `operations`."""
        again = column(batch, "replay_tokens") > 0
        if again.any():
            self._replayed.add(np.unique(column(batch, "round")[again]))
        columns = {name: column(batch, name).astype(np.int64) for name in ("submission", *_ROW) if name != "kind"}
        columns["kind"] = self._kinds.codes(batch["kind"])
        first, last, columns = lot_pieces(column(batch, "round").astype(np.int64), columns)
        order = np.argsort(where := keys(columns["submission"], first), kind="stable")
        final = order[np.append(np.diff(where[order]) != 0, True)]  # of two rows of a request in a round the last
        told = {name: values[final] for name, values in columns.items()}
        self._rows.add(told["submission"], first[final], last[final], told)
        local = np.flatnonzero(columns["kind"] <= 1)
        _count(self._local, columns["submission"], first, last, np.ones(len(first), np.int64), local)

    def events(self, batch: pa.RecordBatch) -> None:
        """Take rows of `events`."""
        rounds, kinds = column(batch, "round").astype(np.int64), self._event_kinds.codes(batch["kind"])
        submission = column(batch, "submission").astype(np.int64)
        applied = batch["applied"].to_numpy(zero_copy_only=False)
        self._note(rounds, kinds, submission, applied)
        op_ids = column(batch, "op_id")
        answered = np.flatnonzero(op_ids >= 0)
        for number, op_id in enumerate(op_ids[answered].tolist(), len(self._acknowledged)):
            self._numbers.setdefault(op_id, number)
        self._acknowledged.add(rounds[answered])
        tokens = np.where(applied, column(batch, "token_count"), 0).astype(np.int64)
        columns = {"submission": submission, "token_count": tokens, "result": (kinds == 0).astype(np.int64)}
        first, last, columns = lot_pieces(rounds, columns)
        for spans, name in ((self._landed, "token_count"), (self._results, "result")):
            some = np.flatnonzero((columns[name] > 0) & (columns["submission"] >= 0))
            _count(spans, columns["submission"], first, last, columns[name], some)

    def _note(self, rounds: Longs, kinds: Longs, submission: Longs, applied: Any) -> None:
        numbers = self._event_kinds.numbers
        fated = [numbers[kind] for kind in FATES if kind in numbers]
        chosen = np.flatnonzero(np.isin(kinds, fated) & applied & (submission >= 0))
        for buffer, values in zip(self._fates.values(), (submission, rounds, kinds), strict=True):
            buffer.add(values[chosen])
        ends = {numbers[kind] for kind in ENDS if kind in numbers}
        for number, round_, kind in zip(*(v[chosen].tolist() for v in (submission, rounds, kinds)), strict=True):
            if kind in ends:
                self._ends.setdefault(number, round_)

    def transfers(self, batch: pa.RecordBatch) -> None:
        """Take rows of `transfers`."""
        op_ids, rounds = column(batch, "op_id"), column(batch, "round")
        begins = np.flatnonzero(np.append(True, np.diff(op_ids) != 0)[: len(op_ids)])
        for buffer, values in zip(self._operations, (op_ids, rounds), strict=True):
            buffer.add(values[begins])
        loose = np.flatnonzero(~batch["source_pinned"].fill_null(True).to_numpy(zero_copy_only=False))
        loose = loose[self._retracted(rounds[loose])]
        read = (column(batch, name)[loose].tolist() for name in ("round", "group_index", "src_page"))
        for round_, group, page in zip(*read, strict=True):
            self._held.store(round_, group, page)

    def _retracted(self, rounds: Longs) -> npt.NDArray[np.bool_]:
        """Return which rounds, whose rows came in, retracted something."""
        numbers, counts = self._rounds["round"].values, self._rounds["retracted_requests"].values
        at = np.minimum(np.searchsorted(numbers, rounds), len(numbers) - 1)
        found: npt.NDArray[np.bool_] = (numbers[at] == rounds) & (counts[at] > 0)
        return found

    def changes(self, batch: pa.RecordBatch) -> None:
        """Take rows of `table_changes`."""
        fresh = np.flatnonzero(batch["fresh"].to_numpy(zero_copy_only=False))
        self._starts.add(np.unique(keys(column(batch, "submission")[fresh], column(batch, "round")[fresh])))
        self._held.take(batch, self._end_of)

    def _end_of(self, submission: int) -> int:
        return self._ends.get(submission, NEVER)

    def grown(self) -> Grown:
        """Return everything that is known now."""
        requests = Requests(list(self._names), *(buffer.values for buffer in self._requests.values()))
        rows, landed = self._rows.columns(), self._landed.columns()
        fates: dict[str, Any] = {name: buffer.values for name, buffer in self._fates.items()}
        starts = np.unique(self._starts.values)
        life = Lives(
            requests,
            {**rows, "kind": self._kinds.strings(rows["kind"])},
            landed | {"token_count": landed["amount"]},
            fates | {"kind": self._event_kinds.strings(fates["kind"])},
            {"submission": starts >> 32, "round": starts & 0xFFFF_FFFF},
        )
        life.count_rounds(self._local.columns(), self._results.columns())
        return Grown(
            life=life,
            rounds={name: buffer.values for name, buffer in self._rounds.items()},
            replayed=np.unique(self._replayed.values),
            operations=(self._operations[0].values, self._operations[1].values),
            held=self._held.log(),
            acknowledgements=Acknowledgements(self._numbers, self._acknowledged.values),
        )


def _count(spans: GrowingSpans, submission: Longs, first: Longs, last: Longs, amount: Longs, some: Longs) -> None:
    """Add amounts to spans, several of one request in one round added up."""
    order = some[np.argsort(keys(submission[some], first[some]), kind="stable")]
    if not len(order):
        return
    where = keys(submission[order], first[order])
    begins = np.flatnonzero(np.append(True, np.diff(where) != 0))
    totals: Columns = {"amount": np.add.reduceat(amount[order], begins)}
    spans.add(where[begins] >> 32, where[begins] & 0xFFFF_FFFF, last[order][begins], totals)
