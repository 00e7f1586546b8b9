"""A trace of any length to look at: a recording, repeated. `python -m bench.tiled SOURCE OUT --times 10`.

Between two repetitions every request that is still there is aborted. Numbers of rounds, calls, submissions, operations
and prompt pages go on, ids of requests get a suffix. The plans are those of the source, digests included, so that a
repetition cannot be re-executed (the pools of a scheduler would not be in the order of a new one): it serves to measure
what reads recorded tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsviz.trace import layout
from tsviz.trace.columns import INTS, TEXT, Table
from tsviz.trace.compact import write_cold
from tsviz.trace.reader import Part, open_bundle

_ROUNDS = ("round", "last_round", "cause_round")
_CALLS = ("seq", "call_seq")
_TIMES = ("time_ns", "start_ns", "end_ns", "arrival_ns")
_ENDS = ("finish", "abort", "failed", "succeeded")


class Tiled:
    """The tables of a part, `times` times."""

    def __init__(self, part: Part, times: int) -> None:
        self._part, self._times = part, times
        self._live = self._left()
        rounds, calls = part.table("rounds"), part.table("calls")
        self._steps = dict.fromkeys(_ROUNDS, part.last_round)
        self._steps |= dict.fromkeys(_CALLS, calls.num_rows + 1)
        self._steps |= dict.fromkeys(_TIMES, int(pc.max(rounds["start_ns"]).as_py()) + 8_000_000)
        self._steps["submission"] = part.rows("submissions")
        operations = [pc.max(part.table(name)["op_id"]).as_py() for name in ("transfers", "events")]
        self._steps["op_id"] = 1 + max([op for op in operations if op is not None], default=-1)
        grown = pc.max(part.table("grown_pages")["page"]).as_py() or 0
        prompts = pc.max(pc.list_flatten(part.table("submissions")["pages"])).as_py() or 0
        self._pages = 1 + max(grown, prompts)
        self.last_round = part.last_round * times
        self.last_seq = (calls.num_rows + 1) * times - 1

    def _left(self) -> list[tuple[str, int]]:
        """The requests (id, submission) that had not ended when the recording stopped."""
        events, submissions = self._part.table("events"), self._part.table("submissions")
        ends = events.filter(pc.is_in(events["kind"].cast(pa.string()), pa.array(_ENDS)))
        ended = set(ends["submission"].to_pylist())
        every = zip(submissions["request"].to_pylist(), submissions["submission"].to_pylist(), strict=True)
        return [(name, number) for name, number in every if number not in ended]

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table, repetition by repetition."""
        source = self._part.table(table.name)
        if extra := self._between(table):
            source = pa.concat_tables([source, pa.Table.from_pylist(extra, table.schema)]).unify_dictionaries()
        source = source.combine_chunks()
        for tile in range(self._times if len(source) else 0):
            columns = [self._moved(table.name, c.name, c.type, source[c.name], tile) for c in table.columns]
            yield from pa.Table.from_arrays(columns, schema=table.schema).to_batches()

    def _between(self, table: Table) -> list[dict[str, object]]:
        seq, round_ = self._part.rows("calls"), self._part.last_round + 1
        if table.name == "calls":
            time_ns = pc.max(self._part.table("calls")["time_ns"]).as_py()
            return [{"seq": seq, "round": round_, "kind": "advance", "time_ns": time_ns, "duration_ns": 0,
                     "items": len(self._live), "outcome": "ok"}]  # fmt: skip
        if table.name != "events":
            return []
        return [
            {"call_seq": seq, "round": round_, "item": item, "kind": "abort", "request": name, "submission": number,
             "applied": True, "token_count": 0, "candidate_count": 0}
            for item, (name, number) in enumerate(self._live)
        ]  # fmt: skip

    def _moved(self, table: str, name: str, kind: pa.DataType, values: pa.ChunkedArray, tile: int) -> pa.Array:
        array = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
        if not tile:
            return array
        if name == "request" and kind == TEXT:
            words = [word if word is None else f"{word}~{tile}" for word in array.dictionary.to_pylist()]
            return pa.DictionaryArray.from_arrays(array.indices, pa.array(words, pa.string()))
        if name == "after":
            return pc.binary_join_element_wise(array, pa.scalar(f"~{tile}"), "")
        if kind == INTS and table == "submissions" and name == "pages":
            moved = pa.array(array.values.to_numpy() + np.int32(tile * self._pages))
            return pa.ListArray.from_arrays(array.offsets, moved)
        step = self._pages if (table, name) == ("grown_pages", "page") else self._steps.get(name, 0)
        if not step:
            return array
        moved = pc.add(array, pa.scalar(tile * step, kind))
        return pc.if_else(pc.less(array, 0), array, moved) if name == "submission" else moved


def tile(source: Path, out: Path, times: int) -> None:
    """Write the bundle `out`: the first part of `source`, `times` times."""
    bundle = open_bundle(source)
    part = bundle.parts[0]
    directory = layout.part_directory(out, part.node, part.rank)
    cold = directory / layout.COLD
    cold.mkdir(parents=True)
    described = bundle.description | {"parts": [{"node": part.node, "rank": part.rank}]}
    layout.write_json(out / layout.BUNDLE_FILE, described | {"meta": {"tool": "bench.tiled", "times": times}})
    layout.write_json(directory / layout.PART_FILE, part.meta)
    write_cold(Tiled(part, times), cold)
    layout.write_json(out / layout.END_FILE, {"parts": {}, "error": None})


def main() -> None:
    """Repeat a recording."""
    parser = argparse.ArgumentParser(prog="python -m bench.tiled", description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--times", type=int, default=10)
    arguments = parser.parse_args()
    tile(arguments.source, arguments.out, arguments.times)


if __name__ == "__main__":
    main()
