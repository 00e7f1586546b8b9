"""Who recorded a trace, and which of the listed points a divergence from the other scheduler is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tsviz.replay.reexecution.verify import Divergence
    from tsviz.trace.reader import Part

_ERRORS = {
    "publish window exceeds table size": 5,
    "materialized suffix starts beyond the requested extent": 6,
    "Host probe hit without a Host or L3 entry": 7,
}
"""What the real scheduler raises at which row of `docs/conformance.md`, section 1."""
_CUT_ROW = 5


def recorded_by(part: Part) -> str:
    """Return which scheduler recorded a part: `real` or `twin`."""
    from tsviz.replay.reexecution.run import TWIN

    return "twin" if part.engine.get("name") == TWIN else "real"


def listed_row(part: Part, by: str, found: Divergence) -> int | None:
    """Return the row of `docs/conformance.md`, section 1, that a divergence of the two shows; None for none.

    `by` made the calls again, the other one recorded them. Only what the difference itself says is recognised.
    """
    if by != "real":
        return None
    if (row := next((row for text, row in _ERRORS.items() if text in found.got), None)) is not None:
        return row
    return _CUT_ROW if _is_cut(part, found) else None


def _is_cut(part: Part, found: Divergence) -> bool:
    """Return whether the real scheduler grants less of a prompt that lands on a decode node than was recorded."""
    from tsviz.replay.reexecution.verify import recorded_rows

    row, _, column = found.field.partition("].")
    table, _, index = row.partition("[")
    if (table, column) != ("operations", "input_tokens") or part.config.get("role") != "D":
        return False
    recorded = recorded_rows(part, "operations", found.round)[int(index)]
    return bool(recorded["kind"] == "remote_prefill") and int(found.got) < int(found.expected)
