"""What `tsviz export --otel` asks a trace: its requests, and what was decided about each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsviz.query.catalog import literal

if TYPE_CHECKING:
    from tsviz.adapters.otel import PartSpans
    from tsviz.query.locked import Locked
    from tsviz.trace.reader import Bundle


def spans_of(locked: Locked, bundle: Bundle) -> list[PartSpans]:
    """Return the rows of every part of the only trace. Raises QueryError."""
    from tsviz.adapters.otel import ATTRIBUTES, PartSpans

    anchor = bundle.description.get("clock_anchor")
    wall, monotonic = (anchor.get("wall_ns", 0), anchor.get("monotonic_ns", 0)) if isinstance(anchor, dict) else (0, 0)
    names = ", ".join(dict.fromkeys(
        ("submission", "request", "accepted", "arrival_ns", "submitted_ns", "first_scheduled_ns", "first_token_ns",
         "end_ns", "ended_by", *ATTRIBUTES)
    ))  # fmt: skip
    found = []
    for part in bundle.parts:
        place = f"node = {literal(part.node)} AND rank = {part.rank:d}"

        def ask(columns: str, relation: str, order: str, place: str = place) -> dict[str, list[Any]]:
            sql = f"SELECT {columns} FROM {relation} WHERE {place} ORDER BY {order}"
            rows: dict[str, list[Any]] = locked.query(sql)[0].to_pydict()
            return rows

        # Rows of `retractions` name requests by id: the one that was submitted last in front of the round is meant.
        retracted = (
            "(SELECT r.node, r.rank, r.round, r.stop, r.blocker, max(s.submission) AS submission FROM retractions r"
            " JOIN submissions s ON s.request = r.victim AND s.node = r.node AND s.rank = r.rank AND s.round <= r.round"
            " WHERE r.outcome = 'retracted' GROUP BY ALL)"
        )
        found.append(PartSpans(
            f"{part.node}/{part.rank}",
            {
                "service.name": "tsviz", "service.instance.id": f"{bundle.name}:{part.node}/{part.rank}",
                "tsviz.role": str(part.meta.get("role", "")), "tsviz.engine": str(part.engine.get("name", "")),
                "tsviz.engine_version": str(part.engine.get("version", "")),
            },
            wall if part.clock == "virtual" else wall - monotonic,
            rounds=ask("round, start_ns", "rounds", "round"),
            requests=ask(names, "requests", "submission"),
            verdicts=ask("submission, cause, holder, rule, since_round, until_round",
                         "verdict_runs", "since_round, submission"),
            retractions=ask("submission, round, blocker", retracted, "round, stop"),
        ))  # fmt: skip
    return found
