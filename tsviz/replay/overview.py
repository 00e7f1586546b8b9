"""What a bundle is and how it ended, as plain data (`tsviz info`)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow.compute as pc

from tsviz.replay.rows.rows_from import pieces, some
from tsviz.trace.endings import CLOSED, NOT_CLOSED, reason_of, stopped_of
from tsviz.trace.errors import TraceError, first_line
from tsviz.trace.gaps import LostRounds
from tsviz.trace.layout import END_FILE
from tsviz.trace.privacy import BEHIND
from tsviz.trace.reader import Bundle, Part
from tsviz.trace.retention import removed_by

SLICE = "slice"
"""How a slice ended, which holds some rounds of a trace."""

_ROWS = ("prefill_rows", "decode_rows", "remote_prefill_rows", "remote_decode_rows")
"""Columns of a round that count the rows of its plan, also where the rows are not recorded."""


def overview(bundle: Bundle) -> dict[str, Any]:
    """Return identity, origin, parts and warnings of a bundle. Raises `TraceError`.

    `rounds` of a part is how many are recorded, from `first_round` to `last_round`; both None where none is.
    """
    meta = bundle.meta
    workload = meta.get("workload")
    command = meta.get("command")
    end, damage = _end(bundle)
    return {
        "name": bundle.name,
        "schema": bundle.schema,
        "tokens": bundle.parts[0].token_mode,
        "scheduler": meta.get("scheduler", "unknown"),
        "workload": workload if isinstance(workload, dict) else {},
        "device": _device(bundle, end),
        "command": " ".join(map(str, command)) if isinstance(command, list) else "unknown",
        "parts": [_part(part, _ended(bundle, part, end, damage)) for part in bundle.parts],
        "removed": _removed(bundle),
        "warnings": _warnings(bundle, end, damage),
    }


def _device(bundle: Bundle, end: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a real device was, how much is recorded of it, and what that took; nothing of a simulated one."""
    operations, device = sum(part.rows("device_ops") for part in bundle.parts), bundle.meta.get("device")
    found = dict(device) if isinstance(device, dict) else {}
    if operations:
        found["operations"] = operations
        races, cost = (end or {}).get("races"), (end or {}).get("recording")
        if isinstance(races, int):
            found["races"] = races
        if isinstance(cost, dict) and all(isinstance(cost.get(n), int) for n in ("device_rows_ns", "run_ns")):
            found["recorder"] = (
                f"{100 * cost['device_rows_ns'] / max(1, cost['run_ns']):.2f} % of the run, on the control thread"
            )
    return found


def _ended(bundle: Bundle, part: Part, end: dict[str, Any] | None, damage: str | None) -> str:
    if damage is not None:
        return f"unknown: {END_FILE} is damaged"
    reason = reason_of(end, f"{part.node}/{part.rank}")
    return SLICE if "slice" in bundle.meta and reason in (CLOSED, NOT_CLOSED) else reason


def _part(part: Part, ended: str) -> dict[str, Any]:
    rounds = some(part, "rounds", ("round", "retracted_requests", *_ROWS))
    ends = pc.min_max(rounds["round"]).as_py()
    counts = _kinds(part)
    return {
        "part": f"{part.node}/{part.rank}",
        "role": str(part.meta.get("role", "?")),
        "engine": f"{part.engine.get('name', '?')} {part.engine.get('version', '?')}",
        "rule_set": part.rule_set,
        "level": part.level,
        "rounds": len(rounds),
        "first_round": ends["min"],
        "last_round": ends["max"],
        "rows": sum(pc.sum(rounds[name]).as_py() or 0 for name in _ROWS),
        "requests": part.rows("submissions"),
        "finished": counts["finish"] + counts["succeeded"],
        "aborted": counts["abort"] + counts["failed"],
        "retractions": pc.sum(rounds["retracted_requests"]).as_py() or 0,
        "seconds": seconds_of(part),
        "ended": ended,
    }


def seconds_of(part: Part) -> float | None:
    """Return how long a part lasted, to its last plan; None where it has none. Raises `TraceError`."""
    times = pc.min_max(some(part, "rounds", ("start_ns",))["start_ns"]).as_py()
    first_ns = 0 if part.clock == "virtual" else times["min"]  # a virtual clock begins with the run
    return None if times["max"] is None else round((times["max"] - first_ns) / 1e9, 3)


def _removed(bundle: Bundle) -> list[str]:
    """Return which older recordings went while this one was made, in words; of a damaged file that it is."""
    try:
        return removed_by(bundle.path)
    except (TraceError, TypeError, ValueError, KeyError) as error:
        return [f"not known: {first_line(error)}"]


def _kinds(part: Part) -> Counter[str]:
    """Return how many events there are of each kind; of a large trace a row group is read at a time."""
    counts: Counter[str] = Counter()
    for rows in pieces(part, "events", ("kind",)):
        for entry in pc.value_counts(rows["kind"].cast("string")).to_pylist():
            counts[entry["values"]] += entry["counts"]
    return counts


def _gaps(part: Part) -> list[str]:
    """Return what was dropped: in front of the trace, by a flight recorder, and inside it."""
    first, rows = part.meta.get("starts_at", 1), part.table("gaps").to_pylist()
    before = [row for row in rows if row["last_round"] < first]
    said = []
    if before:
        count = sum(row["dropped_rows"] for row in before)
        said.append(f"rounds 1 to {first - 1:,} were dropped, {count:,} rows ({before[0]['reason']})")
    lost = LostRounds(part.table("gaps"))
    said += lost.words()
    said += [f"figures are {lost.uncounted()}"] if lost else []
    rest = [row for row in rows if row["last_round"] >= first and row["reason"] != BEHIND]
    if rest:
        said.append(f"{len(rest)} gaps: rows were dropped while recording")
    return said


def _end(bundle: Bundle) -> tuple[dict[str, Any] | None, str | None]:
    """Return how the bundle ended, and what is wrong with what says so; the rest of the trace is told all the same."""
    try:
        return bundle.end, None
    except TraceError as error:
        return None, str(error)


def _warnings(bundle: Bundle, end: dict[str, Any] | None, damage: str | None) -> list[str]:
    warnings = []
    if damage is not None:
        warnings.append(damage)
    elif end is None:
        stopped = stopped_of(bundle.path)
        warnings.append(
            f"recording had to stop before its program did, at {stopped}; what was committed until then is here"
            if stopped
            else "the recording was not closed: its process still runs, or was killed"
        )
    for part in bundle.parts:
        if part.torn is not None:
            warnings.append(f"{part.node}/{part.rank}: {part.torn} behind the last commit is left out")
        if "starts_at" in part.meta and not part.rows("keyframes"):
            warnings.append(
                f"{part.node}/{part.rank}: it begins with round {part.meta['starts_at']:,} and has no keyframe there"
                + (" (redaction left it out)" if bundle.meta.get("redacted") is True else "")
                + ": it opens and steps, but cannot be re-executed, and `index` derives no decisions"
            )
        warnings += [f"{part.node}/{part.rank}: {words}" for words in _gaps(part)]
    return warnings
