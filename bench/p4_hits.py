"""P4: run until a predicate holds, over 10,000,000 decision rows: hit lists, and one hit behind a position.

The decided tables are made here, in the schema and the files of an index: each of 1,000,000 rounds has 5 attempts
and 4 candidates, and a verdict begins for one of 500 requests. Predicates hold rarely, often, or while a request waits.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked
from tsviz.replay.hits import Near, Wanted, hits
from tsviz.trace.catalogue import TABLES
from tsviz.trace.cold import ColdTables
from tsviz.trace.columns import Table
from tsviz.trace.compact import write_cold

from .calibration import calibration_ms
from .measure import Line
from .runs import scratch

_ROUNDS, _REQUESTS, _REPEATS = 1_000_000, 500, 5
_ROWS = {"attempts": 5, "candidates": 4, "verdicts": 1}
"""Decision rows of each table a round: ten together."""
_CAUSES = ("scheduled", "capacity", "head_of_line", "scheduled")
CASES = (
    ("rare: attempts.hit_tokens = 777777", "attempts.hit_tokens = 777777"),
    ("text: candidates.request = 'r17'", "candidates.request = 'r17' AND candidates.stop = 3"),
    ("often: a verdict of capacity", "verdicts.cause = 'capacity'"),
    ("while one waits", "verdicts.cause = 'capacity' AND waited_rounds > 450"),
)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part whose decisions are known to its last round, as `tsviz.query.source.Derived`."""

    data: dict[str, Any]
    node: str = "F"
    rank: int = 0
    derived_round: int = _ROUNDS

    def tables(self) -> dict[str, Any]:
        """Return the tables."""
        return self.data


@dataclass(frozen=True, slots=True)
class _Bundle:
    name: str
    parts: tuple[_Part, ...]


def figures() -> Iterator[Line]:
    """Yield seconds of each predicate: all hits, and the next one behind the middle."""
    with scratch() as directory:
        part = _Part(_tables(directory))
        locked = Locked(Catalog([_Bundle("made", (part,))]), Limits(seconds=None))
        for name, predicate in CASES:
            found, whole, busy = _timed(locked, predicate, Wanted.ALL)
            _, nearest, _ = _timed(locked, predicate, Wanted.NEXT)
            note = (
                f"{busy:.2f} s CPU; the next behind the middle {nearest:.2f} s; calibration {calibration_ms():.2f} ms"
            )
            yield Line("P4", f"{name}: {found:,} hits", whole, "s", 1.0, note=note)
        locked.close()


def _timed(locked: Locked, predicate: str, wanted: Wanted) -> tuple[int, float, float]:
    """Return how many hits there are, and the medians of the seconds that they take, on the wall and of CPU."""
    walls, busy, count = [], [], 0
    for _ in range(_REPEATS):
        start, before = time.perf_counter(), time.process_time()
        count = hits(locked, predicate, wanted, Near(round=_ROUNDS // 2)).total.of
        walls.append(time.perf_counter() - start)
        busy.append(time.process_time() - before)
    return count, statistics.median(walls), statistics.median(busy)


def _tables(directory: Path) -> dict[str, Any]:
    """Write the decided tables, and rounds, as those of an index, and open them as it does."""
    write_cold(_Source(), directory)
    cold = ColdTables(directory)
    return {name: cold.dataset(TABLES[name]) for name in (*_ROWS, "rounds")}


class _Source:
    """Rows of the decided tables, drawn from a fixed seed, a hundredth at a time; what is not drawn is 0 or empty."""

    last_round, last_seq = _ROUNDS, -1

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table."""
        each = 1 if table.name == "rounds" else _ROWS.get(table.name, 0)
        rng = np.random.default_rng(len(table.name))
        step = _ROUNDS // 100
        for first in range(1, _ROUNDS + 1, step) if each else ():
            rounds = np.repeat(np.arange(first, first + step, dtype=np.int32), each)
            yield pa.RecordBatch.from_arrays(
                [self._column(f, rounds, each, rng) for f in table.schema], schema=table.schema
            )

    def _column(self, field: Any, rounds: Any, each: int, rng: Any) -> Any:
        size = len(rounds)
        owner = rng.integers(0, _REQUESTS, size, dtype=np.int32) if each > 1 else rounds % _REQUESTS
        if field.name == "round":
            return pa.array(rounds)
        if field.name == "stop":
            return pa.array(np.tile(np.arange(1, each + 1, dtype=np.int32), size // each))
        if field.name in ("request", "holder"):
            return pa.DictionaryArray.from_arrays(owner, [f"r{n}" for n in range(_REQUESTS)]).cast(field.type)
        if field.name == "submission":
            return pa.array(owner.astype(np.int32))
        if field.name == "cause":
            causes = (rounds // _REQUESTS + owner) % len(_CAUSES)
            return pa.DictionaryArray.from_arrays(causes.astype(np.int32), list(_CAUSES)).cast(field.type)
        if field.name == "hit_tokens":
            return pa.array(rng.integers(0, 1_000_000, size, dtype=np.int32))
        if pa.types.is_dictionary(field.type):
            return pa.array([""], pa.string()).dictionary_encode().cast(field.type).take(pa.array(np.zeros(size, int)))
        if pa.types.is_list(field.type):
            return pa.array([[1, 2]], field.type).take(pa.array(np.zeros(size, int)))
        return pa.array(np.zeros(size, np.int64)).cast(field.type)
