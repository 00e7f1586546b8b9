"""A recording that grows, to measure following on: a closed trace is written again as hot tables, commit by commit.

`python -m bench.growing TRACE OUT --rounds 600 --every 0.9` writes one part of TRACE into the new bundle OUT as if it
were being recorded now: so many rounds a commit, so long between two commits. `--behind N` writes the first N rounds
at once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tsviz.trace import layout
from tsviz.trace.catalogue import TABLES
from tsviz.trace.columns import TEXT, Table
from tsviz.trace.lock import RecordingLock
from tsviz.trace.reader import Part, open_bundle
from tsviz.trace.segments import HotSegments

_COMMIT_ROUNDS = 600
"""What 0.9 s of a recording at some 670 rounds a second hold."""


class _Rows:
    """The rows of one table, to be taken up to a round; a word keeps its number, as in a recording."""

    def __init__(self, part: Part, table: Table) -> None:
        self._table, self._batches = table, part.batches(table.name)
        self._waiting: list[pa.RecordBatch] = []
        self._words: dict[str, dict[str, int]] = {c.name: {} for c in table.columns if c.type == TEXT}

    def until(self, round_: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows up to a round that were not taken yet."""
        while True:
            if not self._waiting:
                batch = next(self._batches, None)
                if batch is None:
                    return
                self._waiting.append(batch)
            (batch,) = self._waiting
            cut = int(np.searchsorted(batch["round"].to_numpy(), round_, side="right"))
            self._waiting = [batch.slice(cut)] if cut < batch.num_rows else []
            if cut:
                yield self._numbered(batch.slice(0, cut))
            if self._waiting:
                return

    def _numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        for column in self._table.columns:
            values = batch[column.name]
            if column.name in self._words:
                known = self._words[column.name]
                texts = values.cast(pa.string()).to_pylist()
                codes = [None if text is None else known.setdefault(text, len(known)) for text in texts]
                values = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(list(known), pa.string()))
            columns.append(values)
        return pa.RecordBatch.from_arrays(columns, schema=self._table.schema)


class Growing:
    """One part of a closed trace as a recording that somebody makes."""

    def __init__(self, trace: Path, out: Path) -> None:
        """Begin the bundle `out`, without a round."""
        source = open_bundle(trace)
        self._out, self._part = out, source.parts[0]
        part = self._part
        directory = layout.part_directory(out, part.node, part.rank)
        directory.mkdir(parents=True)
        layout.write_json(directory / layout.PART_FILE, part.meta)
        described = source.description | {"parts": [{"node": part.node, "rank": part.rank}]}
        layout.write_json(out / layout.BUNDLE_FILE, {k: v for k, v in described.items() if k != "crc"})
        self._lock = RecordingLock(out)
        self._segments = HotSegments(directory / layout.HOT)
        self._rows = {name: _Rows(part, table) for name, table in TABLES.items()}
        self._calls = 0
        self.rounds = part.last_round

    def commit(self, round_: int) -> None:
        """Write everything up to a round that was not written yet, and commit it."""
        for name, rows in self._rows.items():
            batches = list(rows.until(round_))
            if batches:
                joined = pa.Table.from_batches(batches, TABLES[name].schema).unify_dictionaries().combine_chunks()
                (batch,) = joined.to_batches()
                self._segments.append(TABLES[name], batch)
                self._calls += batch.num_rows if name == "calls" else 0
        self._segments.commit(min(round_, self.rounds), self._calls - 1)

    def close(self) -> None:
        """Say that nothing follows; the tables stay hot."""
        self._segments.finish()
        self._segments.close()
        layout.write_json(self._out / layout.END_FILE, {"parts": {}, "error": None})
        self._lock.release()


def main() -> None:
    """Grow a recording in real time."""
    parser = argparse.ArgumentParser(prog="python -m bench.growing", description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=_COMMIT_ROUNDS, help="rounds a commit")
    parser.add_argument("--every", type=float, default=0.9, help="seconds from commit to commit")
    parser.add_argument("--behind", type=int, default=0, help="rounds that are written at once")
    parser.add_argument("--until", type=int, default=0, help="the last round; 0: that of the trace")
    arguments = parser.parse_args()
    growing = Growing(arguments.trace, arguments.out)
    last = arguments.until or growing.rounds
    at = 0
    while at < last:
        at = min(at + arguments.rounds, last)
        growing.commit(at)
        if at > arguments.behind:
            time.sleep(arguments.every)
    growing.close()


if __name__ == "__main__":
    main()
