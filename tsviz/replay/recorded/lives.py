"""What happened to every request of a large trace, from its compact bases: answers what `Lifetimes` answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsviz.replay.rows.lifetimes import ENDS, NEVER, Longs, column, keys, words
from tsviz.trace.cold import ColdTables
from tsviz.trace.reader import Part
from tsviz.trace.tables import RECORDED

from .spans import Spans, Sums

_COLUMNS = ("submission", "request", "round", "accepted", "prompt_tokens", "max_new_tokens")


@dataclass(slots=True)
class Requests:
    """The submitted requests of a part, without their prompts."""

    names: list[str]
    submitted: Longs
    accepted: npt.NDArray[np.bool_]
    prompt: Longs
    max_new: Longs


def requests_of(part: Part) -> Requests:
    """Read the requests of a part with cold tables. Raises `TraceError`."""
    store = part.cold
    assert isinstance(store, ColdTables)
    table = RECORDED["submissions"]
    batches = list(store.batches(table, _COLUMNS))
    found = pa.Table.from_batches(batches) if batches else table.schema.empty_table()
    return Requests(
        [name or "" for name in words(found, "request")],
        column(found, "round").astype(np.int64),
        found["accepted"].to_numpy(zero_copy_only=False),
        column(found, "prompt_tokens").astype(np.int64),
        column(found, "max_new_tokens").astype(np.int64),
    )


class Lives:
    """Columns of one part that say what happened to each submission; rows of operations are spans of rounds."""

    def __init__(
        self, requests: Requests, rows: Mapping[str, Any], landed: Mapping[str, Any], fates: Mapping[str, Any],
        starts: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Columns of the tables `row_spans`, `result_spans`, `fates` and `table_starts`, words as strings."""
        self.names, self.count = requests.names, len(requests.names)
        self.submitted, self.accepted = requests.submitted, requests.accepted
        self.prompt, self.max_new = requests.prompt, requests.max_new
        self.op_rows = Spans(rows["submission"], rows["first_round"], rows["last_round"])
        self.op_kind, self.op_begin = rows["kind"], rows["begin_tokens"]
        self.op_input, self.op_prefill = rows["input_tokens"], rows["prefill_tokens"]
        self._landed = Sums(landed["submission"], landed["first_round"], landed["last_round"], landed["token_count"])
        self.start_submission, self.start_round = starts["submission"], starts["round"]
        self._fates(fates["submission"], fates["round"], fates["kind"])

    def _fates(self, submission: Longs, round_: Longs, kinds: Any) -> None:
        self.end_round = np.full(self.count, NEVER, np.int64)
        self.end_kind = np.full(self.count, "", dtype=object)
        self.bootstrapped = np.full(self.count, NEVER, np.int64)
        self.remote_done = np.full(self.count, NEVER, np.int64)
        retracts = keys(submission[kinds == "retract"], round_[kinds == "retract"])
        self.runtime_retracts = np.array(sorted(set(retracts.tolist())), np.int64)  # np.unique takes 30 ms to import
        for kind, state in ENDS.items():
            mine = np.flatnonzero(kinds == kind)
            mine = mine[np.lexsort((-mine, -round_[mine]))]  # of several the earliest is written last
            mine = mine[round_[mine] < self.end_round[submission[mine]]]
            self.end_round[submission[mine]], self.end_kind[submission[mine]] = round_[mine], state
        for kind, target in (("bootstrapped", self.bootstrapped), ("remote_prefill_done", self.remote_done)):
            np.minimum.at(target, submission[kinds == kind], round_[kinds == kind])

    def count_rounds(self, local: Mapping[str, Longs], results: Mapping[str, Longs]) -> None:
        """Take what `forward_rows` and `result_rows` count: spans of local rows and of results."""
        columns = ("submission", "first_round", "last_round", "amount")
        self.forward_rows = Sums(*(local[name] for name in columns))
        self.result_rows = Sums(*(results[name] for name in columns))

    def rows_until(self, submission: int, round_: int) -> Longs:
        """Return the numbers of a request's spans of equal rows that begin at or before a round, in order."""
        low, high = np.searchsorted(self.op_rows.keys, (submission << 32, (submission << 32 | round_) + 1))
        return np.arange(low, high, dtype=np.int64)

    def row_rounds(self, row: int, until: int) -> tuple[int, int]:
        """Return the first and the last round up to `until` of a span, which begins in one of them."""
        return int(self.op_rows.first[row]), min(int(self.op_rows.last_rounds[row]), until)

    def landed(self, submissions: Longs, round_: int) -> Longs:
        """Return, per submission, how many generated tokens had landed before the plan of `round_`."""
        return self._landed.amount(submissions, round_)

    def live(self, round_: int) -> Longs:
        """Return the submissions that were there at the plan of `round_`, those that ended right before it included."""
        there = self.accepted & (self.submitted <= round_) & (self.end_round >= round_)
        return np.flatnonzero(there).astype(np.int64)
