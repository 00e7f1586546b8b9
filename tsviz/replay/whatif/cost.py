"""What rounds cost in a recording: the model by which a what-if and its baseline are timed (debugger.md, section 4).

From device measurements where there are any (`forwards`): the forward by what it computed, and the pause before it by
the copies that it waits for. Otherwise the time from one plan to the next, by both together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsviz.replay.rows.lifetimes import Longs, column
from tsviz.trace.reader import Part

from .fit import Fit, Floats, fit

Flags = npt.NDArray[np.bool_]

FORWARD_TERMS = ("round", "chunk_tokens", "decode_tokens", "replay_tokens", "prefill_rows", "decode_rows")
COPY_TERMS = ("loaded_pages", "fenced_store_pages")
_NOTHING = Fit((), 0, 0.0, 0.0, 0.0, 0.0)


class NothingToFit(Exception):
    """The recording has no round of which the duration is known; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one round's batch computes and copies; the counts that the prices of a `CostModel` are per."""

    chunk_tokens: int
    decode_tokens: int
    replay_tokens: int
    prefill_rows: int
    decode_rows: int
    loaded_pages: int
    fenced_store_pages: int


@dataclass(frozen=True, slots=True)
class CostModel:
    """Prices fitted to one recording. `source` is `forwards` or `rounds`: which table the durations come from."""

    source: str
    forward: Fit
    pause: Fit
    empty_round_ns: int

    def forward_ns(self, work: Work) -> int:
        """Return how long a batch runs."""
        return _sum(self.forward, work)

    def pause_ns(self, work: Work) -> int:
        """Return how long the device waits for the host and for copies before a batch that it is free for."""
        return _sum(self.pause, work)


def _sum(prices: Fit, work: Work) -> int:
    return round(sum(price * (1 if name == "round" else getattr(work, name)) for name, price in prices.prices))


def fit_costs(part: Part) -> CostModel:
    """Fit the cost model of a recording. Raises NothingToFit, and `TraceError` when a table cannot be read."""
    rounds = part.table("rounds")
    last = part.last_round
    starts = np.full(last + 2, -1, np.int64)
    starts[column(rounds, "round")] = column(rounds, "start_ns")
    busy = np.zeros(last + 2, np.bool_)
    busy[column(rounds, "round")] = column(rounds, "scheduled_tokens") > 0
    work = _work(part, last)
    spans = np.where((starts[:-1] >= 0) & (starts[1:] >= 0), starts[1:] - starts[:-1], -1)
    forward, pause, source = _from_forwards(part, work, last)
    if source == "":
        forward, source = _from_rounds(spans, busy, work, part.config["overlap_schedule_depth"]), "rounds"
    # An idle loop sleeps until something arrives, so the spans of empty rounds are bounds from above; too long an
    # empty round would keep arrivals waiting, too short a one only adds rounds without work.
    empty = spans[(~busy[:-1]) & (spans > 0)]
    bounds = [forward.price("round"), float(np.quantile(empty, 0.05)) if len(empty) else 0.0]
    empty_ns = round(min((bound for bound in bounds if bound > 0), default=0.0))
    return CostModel(source, forward, pause, empty_ns)


def _from_forwards(part: Part, work: dict[str, Longs], last: int) -> tuple[Fit, Fit, str]:
    table = part.table("forwards")
    if not len(table):
        return _NOTHING, _NOTHING, ""
    at, start, end = (column(table, name).astype(np.int64) for name in ("round", "start_ns", "end_ns"))
    forward = fit(FORWARD_TERMS, _matrix(work, FORWARD_TERMS, at), (end - start).astype(np.float64))
    ends = np.full(last + 2, -1, np.int64)
    ends[at] = end
    follows = (at > 0) & (ends[at - 1] >= 0)
    gap = np.maximum(start[follows] - ends[at[follows] - 1], 0).astype(np.float64)
    pause = fit(("round", *COPY_TERMS), _matrix(work, ("round", *COPY_TERMS), at[follows]), gap)
    return forward, pause, "forwards"


def _from_rounds(spans: Longs, busy: Flags, work: dict[str, Longs], depth: int) -> Fit:
    """Fit plan-to-plan times; with results in flight a round waits for the forward `depth` rounds before."""
    known = np.flatnonzero(busy[:-1] & (spans >= 0))
    known = known[(known > depth) & busy[known - depth]]
    if not len(known):
        raise NothingToFit("no forward was measured and no two plans follow each other with a batch in the first")
    terms = FORWARD_TERMS + COPY_TERMS
    return fit(terms, _matrix(work, terms, known - depth), spans[known].astype(np.float64))


def _matrix(work: dict[str, Longs], terms: tuple[str, ...], rounds: Longs) -> Floats:
    columns = [np.ones(len(rounds)) if t == "round" else work[t][rounds].astype(np.float64) for t in terms]
    return np.stack(columns, axis=1) if columns else np.zeros((len(rounds), 0))


def _work(part: Part, last: int) -> dict[str, Longs]:
    operations, transfers = part.table("operations"), part.table("transfers")
    at = column(operations, "round")
    fed, replayed = column(operations, "input_tokens"), column(operations, "replay_tokens")
    prefill, decode = _is(operations, "prefill"), _is(operations, "decode")
    copied = _is(transfers, "load_back")
    pinned = transfers["source_pinned"].fill_null(True).to_numpy(zero_copy_only=False)
    moved = column(transfers, "round")

    def total(rounds: Longs, weights: Longs | None = None) -> Longs:
        counts: Longs = np.bincount(rounds, weights, minlength=last + 2).astype(np.int64)
        return counts

    return {
        "chunk_tokens": total(at[prefill], (fed - replayed)[prefill]),
        "decode_tokens": total(at[decode], fed[decode]),
        "replay_tokens": total(at[prefill], replayed[prefill]),
        "prefill_rows": total(at[prefill]),
        "decode_rows": total(at[decode]),
        "loaded_pages": total(moved[copied]),
        "fenced_store_pages": total(moved[~copied & ~pinned]),
    }


def _is(table: pa.Table, kind: str) -> Flags:
    flags: Flags = pc.equal(table["kind"], kind).to_numpy()
    return flags
