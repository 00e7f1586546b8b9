"""The stops of a round: where a decision was taken, of which kind, about whom, in words (architecture.md, 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tsviz.scheduler import decisions as d

from .decided_view import DecidedTables

KINDS = {
    d.Phase: "phase", d.Candidate: "candidate", d.Attempt: "attempt", d.Iteration: "retraction iteration",
    d.Grant: "grant",
}  # fmt: skip
_TABLES = {"phases": d.Phase, "candidates": d.Candidate, "attempts": d.Attempt, "retractions": d.Iteration,
           "grants": d.Grant}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop: its number in the round (from 1), kind, the request it is about (empty for a phase) and a line of words.

    Numbers that are missing between two stops are decodes that touched no page: nothing is told of them.
    """

    number: int
    kind: str
    request: str
    words: str


def stop_of(number: int, decision: d.Stop) -> Stop:
    """Return a stop as it is shown."""
    kind = KINDS[type(decision)]
    match decision:
        case d.Phase():
            words = f"{decision.name}: {decision.budget_tokens:,} tokens of budget left, {decision.batch_rows} rows"
            if decision.holdback_tokens:
                words += f", {decision.holdback_tokens:,} held back from decodes"
            return Stop(number, kind, "", words)
        case d.Candidate():
            return Stop(number, kind, decision.request_id, decision.request_id)
        case d.Attempt():
            need = " + ".join(f"{pages:,}" for pages in decision.need_pages)
            hit = f" behind a hit of {decision.hit_tokens:,} tokens" if decision.hit_tokens else ""
            what = decision.kind.replace("_", " ")
            return Stop(number, kind, decision.request_id, f"{decision.request_id}: {what} needs {need} pages{hit}")
        case d.Iteration():
            victim = decision.victim_id or "nobody"
            outcome = decision.outcome.replace("_", " ")
            by = f" (operation {decision.op_id})" if decision.op_id >= 0 else ""
            return Stop(number, kind, decision.blocker_id, f"for {decision.blocker_id}: {victim} {outcome}{by}")
        case d.Grant():
            who, outcome = decision.request_id or "nobody", decision.outcome.replace("_", " ")
            return Stop(number, kind, decision.request_id, f"{who}: {outcome}")


class DecidedStops:
    """Stops from recorded or derived decisions, up to `last_round`."""

    def __init__(self, tables: DecidedTables, last_round: int) -> None:
        """Raises `TraceError` when a table cannot be read."""
        self.last_round = last_round
        self._tables = {name: tables.table(name) for name in _TABLES}
        self._rounds = {name: table["round"].to_numpy() for name, table in self._tables.items()}

    def of(self, round_: int) -> tuple[Stop, ...]:
        """Return the stops of a round, in order."""
        found: list[Stop] = []
        for name, table in self._tables.items():
            rounds = self._rounds[name]
            first, end = (int(np.searchsorted(rounds, round_, side)) for side in ("left", "right"))
            rows = table.slice(first, end - first).to_pylist()
            found += [stop_of(row["stop"], _decision(_TABLES[name], row)) for row in rows]
        return tuple(sorted(found, key=lambda stop: stop.number))


def _decision(cls: type, row: dict[str, Any]) -> Any:
    """Return a decision again from its row."""
    names = {name: name for name in cls.__dataclass_fields__}  # type: ignore[attr-defined]
    values = {name: row.get(name, row.get(name.removesuffix("_id"))) for name in names}
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
