"""What `tsviz export --perfetto` asks a trace: the rows that become slices, counters and flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsviz.query.catalog import literal
from tsviz.trace.errors import TraceError
from tsviz.trace.layout import part_directory

if TYPE_CHECKING:
    from tsviz.adapters.perfetto import PartRows
    from tsviz.query.locked import Locked

_OPS_AND_STALLS = """(
    SELECT d.*, s.stall_ns, s.for_op FROM device_ops d LEFT JOIN device_stalls s USING (trace, node, rank, op))"""


def rows_of(locked: Locked, trace: Path) -> list[PartRows]:
    """Return the rows of every part of the only trace, which lies at `trace`, in order of round.

    Raises QueryError; TraceError for a number that no packet holds.
    """
    from tsviz.adapters.perfetto import GROUP_COUNTERS, OPERATION_ARGUMENTS, ROUND_COUNTERS, PartRows

    counters = ", ".join(name for name, _ in ROUND_COUNTERS)
    levels = ", ".join(name for name, _ in GROUP_COUNTERS)
    parts = locked.query("SELECT node, rank, role FROM parts")[0].to_pylist()
    found = []
    for part in parts:
        directory = part_directory(trace, part["node"], part["rank"])
        place = f"node = {literal(part['node'])} AND rank = {part['rank']:d}"

        def ask(
            columns: str,
            relation: str,
            where: str = "true",
            order: str = "round",
            place: str = place,
            directory: Path = directory,
            table: str = "",
        ) -> dict[str, list[Any]]:
            sql = f"SELECT {columns} FROM {relation} WHERE {place} AND ({where}) ORDER BY {order}"
            columns_of: dict[str, list[Any]] = locked.query(sql)[0].to_pydict()
            require_numbers(columns_of, directory / (table or relation))
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
            device_ops=ask("round, op, stream, kind, layer, op_id, moved_bytes, start_ns, end_ns, stall_ns, for_op",
                           _OPS_AND_STALLS, order="op", table="device_ops"),
        ))  # fmt: skip
    return found


def require_numbers(columns: Mapping[str, Sequence[Any]], relation: Path) -> None:
    """Raise TraceError for a number that no packet holds: a time before 0, or anything beyond 64 bits with a sign."""
    for name, values in columns.items():
        least = 0 if name.endswith("_ns") else -1 << 63
        for index, value in enumerate(values):
            if isinstance(value, int) and not least <= value < 1 << 63:
                round_ = f", round {columns['round'][index]}" if "round" in columns else ""
                place = f"{name} of row {index + 1:,}{round_}"
                raise TraceError(relation, place, f"a number from {least} to {(1 << 63) - 1}", f"{value}")
