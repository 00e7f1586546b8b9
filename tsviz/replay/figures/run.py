"""Figures of one run, from the shipped views: the same questions to a recording and to a run that was never written.

A figure is defined by its query here and by the views of query/shipped; nothing is counted twice in other words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked
from tsviz.query.source import Part

from .stuck import STUCK_ROUNDS


@dataclass(frozen=True, slots=True)
class Figures:
    """A run in numbers; what nothing can be said of is None."""

    rounds: int
    """Plans that were asked for."""
    empty_rounds: int
    """Plans without a row."""
    elapsed_s: float
    """From the first call to the last, on the clock of the run."""
    requests: int
    """Requests that the scheduler accepted."""
    finished: int
    aborted: int
    live: int
    """Requests that have not ended."""
    refused: int
    """Requests that were turned away: no admission could ever fit them."""
    stuck_rounds: int
    """Rounds with rows since a position was last computed for the first time, a token landed or a request ended."""
    retractions: int
    restarts: int
    """Requests' new starts that are seen in the rows."""
    recomputed_tokens: int
    """Positions that prefill rows computed again."""
    generated_tokens: int
    tokens_per_s: float | None
    """Generated tokens over that time."""
    queue_p50_ms: float | None
    queue_p95_ms: float | None
    ttft_p50_ms: float | None
    ttft_p95_ms: float | None
    tpot_p50_ms: float | None
    tpot_p95_ms: float | None
    end_to_end_p50_ms: float | None
    """From arrival to the end, of requests that finished."""
    end_to_end_p95_ms: float | None
    hit_rate: float | None
    """Share of the prompts that the cache held at first admission."""

    @property
    def live_locked(self) -> bool:
        """Whether it ended with requests that its last rounds worked on and got nowhere."""
        return self.live > 0 and self.stuck_rounds >= STUCK_ROUNDS


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """What one request met. Times since its arrival, the end also since the first call of its run."""

    submission: int
    request: str
    prompt_tokens: int
    generated_tokens: int
    queue_ns: int | None
    ttft_ns: int | None
    tpot_ns: float | None
    restarts: int
    recomputed_tokens: int
    end_to_end_ns: int | None
    end_ns: int | None
    ended_by: str | None


_FLEET = """
WITH work AS (
  SELECT max(round) AS round FROM events
  WHERE kind IN ('finish', 'abort', 'failed', 'succeeded') OR kind = 'remote_prefill_done' OR token_count > 0
  UNION ALL
  SELECT max(round) FROM prefill_steps WHERE end_tokens - start_tokens > coalesce(recomputed_tokens, 0)
)
SELECT *, generated_tokens / nullif(elapsed_s, 0) AS tokens_per_s FROM (SELECT
  (SELECT count(*) FROM rounds) AS rounds,
  (SELECT count(*) FROM rounds WHERE prefill_rows + decode_rows = 0) AS empty_rounds,
  (SELECT (max(time_ns) - min(time_ns)) / 1e9 FROM calls) AS elapsed_s,
  (SELECT count(*) FROM rounds WHERE prefill_rows + decode_rows > 0 AND round >= (SELECT max(round) FROM work))
    AS stuck_rounds,
  count(*) FILTER (accepted) AS requests,
  count(*) FILTER (ended_by IN ('finish', 'succeeded')) AS finished,
  count(*) FILTER (ended_by IN ('abort', 'failed')) AS aborted,
  count(*) FILTER (accepted AND ended_by IS NULL) AS live,
  coalesce(sum(retractions), 0)::BIGINT AS restarts,
  coalesce(sum(recomputed_tokens), 0)::BIGINT AS recomputed_tokens,
  coalesce(sum(generated_tokens), 0)::BIGINT AS generated_tokens,
  quantile_disc(queue_ns, 0.5) / 1e6 AS queue_p50_ms, quantile_disc(queue_ns, 0.95) / 1e6 AS queue_p95_ms,
  quantile_disc(ttft_ns, 0.5) / 1e6 AS ttft_p50_ms, quantile_disc(ttft_ns, 0.95) / 1e6 AS ttft_p95_ms,
  quantile_disc(tpot_ns, 0.5) / 1e6 AS tpot_p50_ms, quantile_disc(tpot_ns, 0.95) / 1e6 AS tpot_p95_ms,
  quantile_disc(end_ns - arrival_ns, 0.5) FILTER (ended_by IN ('finish', 'succeeded')) / 1e6 AS end_to_end_p50_ms,
  quantile_disc(end_ns - arrival_ns, 0.95) FILTER (ended_by IN ('finish', 'succeeded')) / 1e6 AS end_to_end_p95_ms,
  (SELECT max(hit_rate) FROM hit_rate) AS hit_rate
FROM requests)"""

_REQUESTS = """
SELECT submission, request, prompt_tokens, generated_tokens, queue_ns, ttft_ns, tpot_ns, retractions AS restarts,
  recomputed_tokens, end_ns - arrival_ns AS end_to_end_ns,
  end_ns - (SELECT min(time_ns) FROM calls) AS end_ns, ended_by
FROM requests WHERE accepted ORDER BY submission"""


class _One:
    """A bundle of one part, for the catalog."""

    def __init__(self, part: Part) -> None:
        self.name = "run"
        self.parts: Sequence[Part] = (part,)


def figures_of(
    part: Part, *, retractions: int | None = None, refused: int = 0
) -> tuple[Figures, tuple[RequestFigures, ...]]:
    """Return the figures of one part and of its requests, in order of submission.

    `retractions`: how many there were, for a run that knows; None: the sum of `rounds.retracted_requests`.
    Raises `TraceError` when a table cannot be read, `QueryError` when a figure cannot be had within its limits.
    """
    locked = Locked(Catalog((_One(part),)), Limits(rows=None, seconds=None, memory_bytes=4 << 30))
    try:
        fleet = _rows(locked, _FLEET)[0]
        requests = tuple(RequestFigures(**row) for row in _rows(locked, _REQUESTS))
        if retractions is None:
            told = "SELECT coalesce(sum(retracted_requests), 0)::BIGINT AS n FROM rounds"
            retractions = int(_rows(locked, told)[0]["n"])
    finally:
        locked.close()
    return Figures(retractions=retractions, refused=refused, **fleet), requests


def _rows(locked: Locked, sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = locked.query(sql)[0].to_pylist()
    return rows


FIGURE_NAMES = tuple(field.name for field in fields(Figures))
"""The names of all figures, in the order in which they are shown."""
