"""What became of the page copies of a recording, so that a run again may have the same (debugger.md, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tsviz.replay.rows.lifetimes import column, words
from tsviz.trace import entries as e
from tsviz.trace.reader import Part


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What became of one copy: so long after its plan (None: it never came), and whether it worked."""

    delay_ns: int | None
    success: bool


@dataclass(frozen=True, slots=True)
class Acknowledgements:
    """What became of each recorded operation, by (id, whether it loads), and the usual delay of stores and loads."""

    by_operation: Mapping[tuple[int, bool], Acknowledgement]
    usual: Mapping[bool, Acknowledgement]

    def of(self, op_id: int, *, is_load: bool) -> Acknowledgement:
        """Return what becomes of an operation: what became of that number in the recording, else the usual."""
        return self.by_operation.get((op_id, is_load)) or self.usual[is_load]


def read_acknowledgements(part: Part, start_ns: Mapping[int, int], *, still_open: bool) -> Acknowledgements:
    """Read the acknowledgements of a part. `start_ns`: by round; `still_open`: the recording stopped half-way.

    One that came with the plan behind its own may have been there at once; one that came k plans later came after the
    plan before that: the least delay that gives the same round. Behind an empty round the loop had slept until
    something came, so there it is the whole time. One that did not come is lost, unless the recording stopped before
    the longest delay was over. Raises `TraceError` when a table cannot be read.
    """
    planned = _planned(part)
    events, rounds = part.table("events"), part.table("rounds")
    idle = set(column(rounds, "round")[column(rounds, "scheduled_tokens") == 0].tolist())
    found: dict[tuple[int, bool], Acknowledgement] = {}
    delays: dict[bool, list[int]] = {True: [], False: []}
    rows = zip(
        words(events, "kind"), events["op_id"].to_pylist(), column(events, "round").tolist(),
        events["value"].to_pylist(), strict=True,
    )  # fmt: skip
    for kind, op, round_, value in rows:
        is_load = kind == e.LOAD_BACK_DONE
        if kind not in (e.WRITE_BACK_DONE, e.LOAD_BACK_DONE) or (op, is_load) not in planned:
            continue
        began = planned[op, is_load]
        before, there = start_ns.get(round_ - 1), start_ns.get(round_)
        delay_ns = 0
        if there is not None and round_ - 1 in idle:
            delay_ns = there - start_ns[began]
        elif round_ > began + 1 and before is not None:
            delay_ns = before - start_ns[began] + 1
        found[op, is_load] = Acknowledgement(delay_ns, not is_load or bool(value))
        delays[is_load].append(delay_ns)
    longest = max((d for v in delays.values() for d in v), default=0)
    end_ns = max(start_ns.values(), default=0)
    for key, began in planned.items():
        if key not in found and (not still_open or end_ns - start_ns[began] > longest):
            found[key] = Acknowledgement(None, success=True)
    usual = {k: Acknowledgement(int(np.median(v)) if v else 0, success=True) for k, v in delays.items()}
    return Acknowledgements(found, usual)


def _planned(part: Part) -> dict[tuple[int, bool], int]:
    transfers = part.table("transfers")
    kinds, ops, rounds = words(transfers, "kind"), column(transfers, "op_id"), column(transfers, "round")
    rows = zip(kinds, ops.tolist(), rounds.tolist(), strict=True)
    return {(op, kind == "load_back"): round_ for kind, op, round_ in rows}
