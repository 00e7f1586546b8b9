"""What `tsviz export --perfetto` asks a trace: the rows that become slices, counters and flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsviz.query.catalog import literal

if TYPE_CHECKING:
    from tsviz.adapters.perfetto import PartRows
    from tsviz.query.locked import Locked


def rows_of(locked: Locked) -> list[PartRows]:
    """Return the rows of every part of the only trace, in order of round. Raises QueryError."""
    from tsviz.adapters.perfetto import GROUP_COUNTERS, OPERATION_ARGUMENTS, ROUND_COUNTERS, PartRows

    counters = ", ".join(name for name, _ in ROUND_COUNTERS)
    levels = ", ".join(name for name, _ in GROUP_COUNTERS)
    parts = locked.query("SELECT node, rank, role FROM parts")[0].to_pylist()
    found = []
    for part in parts:
        place = f"node = {literal(part['node'])} AND rank = {part['rank']:d}"

        def ask(
            columns: str, relation: str, where: str = "true", order: str = "round", place: str = place
        ) -> dict[str, list[Any]]:
            sql = f"SELECT {columns} FROM {relation} WHERE {place} AND ({where}) ORDER BY {order}"
            columns_of: dict[str, list[Any]] = locked.query(sql)[0].to_pydict()
            return columns_of

        found.append(PartRows(
            f"{part['node']}/{part['rank']}", part["role"],
            rounds=ask(f"round, start_ns, {counters}", "rounds"),
            forwards=ask("round, start_ns, end_ns", "forwards"),
            operations=ask(f"round, submission, kind, {', '.join(OPERATION_ARGUMENTS)}", "operations",
                           order='round, kind, "row"'),
            requests=ask("submission, request, submit_round", "requests", order="submission"),
            waits=ask("submission, cause, holder, rule, since_round, until_round", "verdict_runs",
                      "cause <> 'scheduled'", "since_round, submission"),
            retractions=ask("round, stop, blocker, victim", "retractions", "outcome = 'retracted'", "round, stop"),
            pool=ask(f'round, "group", {levels}', "pool", order='round, "group"'),
            groups=ask('"group"', "groups", order="group_index")["group"],
        ))  # fmt: skip
    return found
