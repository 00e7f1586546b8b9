"""What a diff says: rows for tables and sentences for people."""

from __future__ import annotations

from typing import Any

from tsviz.replay.whatif.words import comparison_rows, live_lock_words

from .compare import Diff, RankDiff, first_to_disagree

_FIELDS = ("round", "table", "row", "column", "request", "left_value", "right_value")


def difference_rows(found: Diff) -> list[dict[str, Any]]:
    """Return the one row that says where two recordings part."""
    return [_row({"left": found.left, "right": found.right}, found)]


def rank_rows(ranks: tuple[RankDiff, ...]) -> list[dict[str, Any]]:
    """Return a row a rank that was compared with rank 0, the first that disagrees marked."""
    first = first_to_disagree(ranks)
    return [
        _row({"left": f"{r.node}/0", "right": f"{r.node}/{r.rank}"}, r) | {"first_to_disagree": r is first}
        for r in ranks
    ]


def _row(names: dict[str, Any], parted: Diff | RankDiff) -> dict[str, Any]:
    found = parted.plans
    rounds = {
        "other_inputs_round": parted.inputs and parted.inputs.round,
        "other_rows_round": parted.rows and parted.rows.round,
    }
    row = names | {"outcome": "equal" if found is None else "diverged", "equal_rounds": parted.equal_rounds}
    if found is None:
        return row | dict.fromkeys(_FIELDS) | rounds
    values = (found.round, found.table, found.row, found.column, found.request, found.left, found.right)
    return row | dict(zip(_FIELDS, values, strict=True)) | rounds


def figure_rows(found: Diff) -> list[dict[str, Any]]:
    """Return a row a figure: both sides and the change."""
    columns = (("left", found.left_figures), ("right", found.right_figures))
    return comparison_rows(columns, found.left_figures, found.right_figures)


def diff_words(found: Diff) -> list[str]:
    """Say how the two differ before, at and behind the point where their plans part."""
    lines = parting_words(found)
    r = found.requests
    order = f"{r.same_order:,} in the same order" if r.same_order != r.both else "in the same order"
    lines.append(f"requests: {r.both:,} on both sides, {order}; {r.only_left:,} only left, {r.only_right:,} only right")
    return lines + live_lock_words((found.left, found.left_figures), (found.right, found.right_figures))


def parting_words(found: Diff | RankDiff) -> list[str]:
    """Say whether configuration, inputs and plans differ, and what that means for the cause."""
    inputs, plans = found.inputs, found.plans
    lines = [f"config: {name}: {left} and {right}" for name, left, right in found.config]
    if inputs is not None:
        lines.append(f"told something else first in front of {inputs}")
    if plans is None:
        return [*lines, f"all {found.equal_rounds:,} rounds that both hold are equal"]
    lines.append(f"{found.equal_rounds:,} rounds that both hold are equal; the plans part in {plans}")
    if found.rows is None:
        lines.append("every scheduled row serves the same request and computes the same")
    elif found.rows.round != plans.round:
        lines.append(f"the first row that is scheduled otherwise: {found.rows}")
    if not found.config and (inputs is None or inputs.round > plans.round):
        lines.append("same config and same inputs until then: the two schedulers decide differently")
    return lines
