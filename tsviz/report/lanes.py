"""A lane a request: the phases that it went through, from decided states or, without them, from recorded rows.

Level of detail: of many requests an even choice in order of submission, with those that findings name and those that
never ended; phases shorter than the grain give way to their longer neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from tsviz.query.shipped.definition import SUBMISSION

from .axis import Axis
from .subject import Row, Source

MOST_LANES = 4_000
MOST_SEGMENTS = 24_000
PHASES = ("queued", "prefill", "decode", "retracted")
"""Waits for its first row; computes its prompt; generates; was retracted and waits to come back."""
_PHASE_OF = {
    "Bootstrapping": 0, "Submitted": 0, "Prefilling": 1, "RemotePrefilling": 1, "PrefillAwaitingResult": 1,
    "PrefillDone": 1, "Decoding": 2, "Retracted": 3,
}  # fmt: skip

_STOOD = {"prefilling": 1, "decoding": 2, "retracted": 3}

Segment = tuple[int, int, int]
"""First round, round behind the last, number of the phase."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One request: its number, its name, and its phases in order."""

    submission: int
    request: str
    segments: tuple[Segment, ...]


def lanes_of(source: Source, axis: Axis, decided: bool) -> dict[int, list[Segment]]:
    """Return the phases of all accepted requests by submission, in order of submission."""
    stood = _carried_marks(source)
    begin = {submission: round_ for submission, round_, _ in stood}
    own = _decided_marks(source) if decided else _recorded_marks(source)
    inside = [(submission, max(round_, begin.get(submission, round_)), phase) for submission, round_, phase in own]
    marks = sorted([*stood, *inside], key=lambda mark: mark[:2])
    ends = {r["submission"]: r["end_round"] for r in source.rows("submission, end_round", "requests", "accepted")}
    found: dict[int, list[Segment]] = {}
    for submission, group in groupby(marks, key=lambda mark: mark[0]):
        if submission not in ends:
            continue
        mine = [(round_, phase) for _, round_, phase in group]
        end = ends[submission] if ends[submission] is not None else axis.last + 1
        bounds = [round_ for round_, _ in mine[1:]] + [end]
        pieces = [(begin, until, phase) for (begin, phase), until in zip(mine, bounds, strict=True) if phase >= 0]
        found[submission] = _joined([piece for piece in pieces if piece[1] > piece[0]])
    return found


def _carried_marks(source: Source) -> list[tuple[int, int, int]]:
    """Return where requests that lived before a slice stood at its first round; who can be new is drawn as queued."""
    rows = source.rows("submission, begin_round, state", "carried")
    return [(row["submission"], row["begin_round"], _STOOD.get(row["state"], 0)) for row in rows]


def _decided_marks(source: Source) -> Iterable[tuple[int, int, int]]:
    rows = source.rows("submission, round, after", "states", behind="ORDER BY submission, round, item")
    return [(row["submission"], row["round"], _PHASE_OF.get(row["after"], -1)) for row in rows]


def _recorded_marks(source: Source) -> Iterable[tuple[int, int, int]]:
    """Return (submission, round, phase) from the rows of the trace, in order."""
    marks: list[tuple[int, int, int]] = []
    new = f"requests ANTI JOIN carried USING ({SUBMISSION})"
    for row in source.rows("submission, submit_round, first_round", new, "accepted"):
        marks.append((row["submission"], row["submit_round"], 0))
        if row["first_round"] is not None:
            marks.append((row["submission"], row["first_round"], 1))
    done = source.rows("submission, round", "prefill_steps", "complete")
    marks += [(row["submission"], row["round"] + 1, 2) for row in done]
    begun = source.rows("submission, min(round) AS round", "prefill_steps", "first IS NULL", "GROUP BY submission")
    marks += [(row["submission"], row["round"], 1) for row in begun]
    for row in source.rows("submission, last_row_round, retracted_from_round, restart_round", "restarts"):
        since, last = row["retracted_from_round"], row["last_row_round"]
        if last is not None:
            marks.append((row["submission"], last + 1 if since is None else since, 3))
        marks.append((row["submission"], row["restart_round"], 1))
    return sorted(marks)


def _joined(pieces: list[Segment]) -> list[Segment]:
    joined: list[Segment] = []
    for begin, until, phase in pieces:
        if joined and joined[-1][2] == phase and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], until, phase)
        else:
            joined.append((begin, until, phase))
    return joined


def chosen(found: Sequence[int], telling: set[int], most: int = MOST_LANES) -> tuple[list[int], int]:
    """Return the submissions to show, in order, and of how many each n-th was taken (1: all)."""
    step = 1
    while len(found) // step + len(telling) > most and step < len(found):
        step += 1
    return [s for i, s in enumerate(found) if i % step == 0 or s in telling], step


def coarsened(lanes: dict[int, list[Segment]], most: int = MOST_SEGMENTS) -> tuple[dict[int, list[Segment]], int]:
    """Return the lanes with at most about `most` segments, and the grain in rounds below which phases gave way."""
    grain = 1
    while sum(map(len, lanes.values())) > most and grain < 1 << 30:
        grain *= 2
        lanes = {submission: _without_short(pieces, grain) for submission, pieces in lanes.items()}
    return lanes, grain


def _without_short(pieces: list[Segment], grain: int) -> list[Segment]:
    kept: list[Segment] = []
    for begin, until, phase in pieces:
        if not kept or min(until - begin, kept[-1][1] - kept[-1][0]) >= grain:
            kept.append((begin, until, phase))
            continue
        last = kept[-1]
        longer = phase if until - begin > last[1] - last[0] else last[2]
        kept[-1] = (last[0], until, longer)
    return _joined(kept)


def named(source: Source) -> dict[int, Row]:
    """Return name, end, retractions and waiting of every accepted request by submission."""
    rows = source.rows("submission, request, end_round, retractions, ended_by", "requests", "accepted")
    return {row["submission"]: row for row in rows}
