"""What a what-if says: rows for tables and sentences for people; numbers are those of the study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tsviz.replay.figures.requests import Alignment, Errors
from tsviz.replay.figures.run import FIGURE_NAMES, Figures

from .headline import ended_words, headline_words, ms
from .knobs import Change
from .study import FitError, Outcome, Study
from .sweep import Cell, Search

_TIMES = ("queue_ns", "ttft_ns", "tpot_ns", "end_to_end_ns", "end_ns")
_COUNTS = ("generated_tokens", "restarts", "recomputed_tokens")


def changes_words(changes: Sequence[Change]) -> str:
    """Say what was changed."""
    return " ".join(map(str, changes)) if changes else "nothing changed"


def comparison_rows(columns: Sequence[tuple[str, Figures]], left: Figures, right: Figures) -> list[dict[str, Any]]:
    """Return a row a figure: the named columns, then how `right` differs from `left`."""
    rows = []
    for name in FIGURE_NAMES:
        before, after = getattr(left, name), getattr(right, name)
        change = None if before is None or after is None else float(after - before)
        percent = round(100 * change / before, 1) if change is not None and before else None
        row = {"figure": name} | {title: _number(getattr(figures, name)) for title, figures in columns}
        rows.append(row | {"change": change, "change_percent": percent})
    return rows


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def metric_rows(study: Study, outcome: Outcome) -> list[dict[str, Any]]:
    """Return a row a figure: recorded, re-timed baseline, what-if, change against the baseline."""
    baseline = study.baseline.figures
    columns = (("recorded", study.recorded), ("baseline", baseline), ("what_if", outcome.figures))
    return comparison_rows(columns, baseline, outcome.figures)


def request_rows(alignment: Alignment, left: str, right: str) -> list[dict[str, Any]]:
    """Return a row a request that is on both sides or one, the largest change of its end first; times in ms."""
    rows = []
    for delta in alignment.deltas:
        either = delta.left or delta.right
        row: dict[str, Any] = {"request": delta.request, "submission": None if either is None else either.submission}
        for name in _TIMES + _COUNTS:
            title = name.removesuffix("_ns") + "_ms" if name in _TIMES else name
            for side, figures in ((left, delta.left), (right, delta.right)):
                row[f"{side}_{title}"] = _shown(name, None if figures is None else getattr(figures, name))
            row[f"{title}_change"] = _shown(name, delta.change(name))
        for side, figures in ((left, delta.left), (right, delta.right)):
            row[f"{side}_ended_by"] = None if figures is None else figures.ended_by
        rows.append(row)
    return sorted(rows, key=lambda r: (-abs(r["end_to_end_ms_change"] or 0.0), r["request"]))


def _shown(name: str, value: float | None) -> float | None:
    return value / 1e6 if value is not None and name in _TIMES else value


def cell_row(cell: Cell, names: Sequence[str]) -> dict[str, Any]:
    """Return one row of a sweep: the knobs, why the run ended, and the named figures."""
    row: dict[str, Any] = {str(c.knob.name): str(c).partition("=")[2] for c in cell.changes}
    if cell.outcome is None:
        return row | {"ended": f"refused: {cell.refusal}"} | dict.fromkeys(names)
    figures, reason = cell.outcome.figures, cell.outcome.run.summary.reason.value
    return row | {"ended": reason} | {name: _number(getattr(figures, name)) for name in names}


def fit_rows(study: Study) -> list[dict[str, Any]]:
    """Return the cost model and how well it reproduces the recording, a row a number."""
    cost, error = study.cost, study.fit_error
    rows: list[dict[str, Any]] = [{"of": "source", "name": cost.source, "value": None}]
    for of, prices in (("forward", cost.forward), ("pause", cost.pause)):
        rows += [{"of": of, "name": f"{name}_ns", "value": price} for name, price in prices.prices]
        rows += [
            {"of": of, "name": "observations", "value": float(prices.observations)},
            {"of": of, "name": "residual_p50_ns", "value": prices.residual_p50_ns},
            {"of": of, "name": "residual_p95_ns", "value": prices.residual_p95_ns},
            {"of": of, "name": "residual_max_ns", "value": prices.residual_max_ns},
            {"of": of, "name": "relative_error", "value": prices.relative_error},
        ]
    rows.append({"of": "empty round", "name": "empty_round_ns", "value": float(cost.empty_round_ns)})
    rows.append({"of": "baseline", "name": "rounds_error", "value": float(_rounds_apart(error))})
    for of, found in (("ttft", error.ttft), ("end", error.end)):
        rows += [
            {"of": of, "name": "requests", "value": float(found.requests)},
            {"of": of, "name": "requests_on_one_side", "value": float(found.only_one_side)},
            {"of": of, "name": "error_p50_ns", "value": found.p50_ns},
            {"of": of, "name": "error_p95_ns", "value": found.p95_ns},
            {"of": of, "name": "error_max_ns", "value": found.max_ns},
        ]
    return rows


def _rounds_apart(error: FitError) -> int:
    return error.baseline_rounds - error.recorded_rounds


def study_words(study: Study) -> list[str]:
    """Say the cost model, how well the baseline reproduces the recording, and what was assumed."""
    cost, error = study.cost, study.fit_error
    measured = "forwards" if cost.source == "forwards" else "times between plans"
    lines = [
        f"cost model, fitted to {cost.forward.observations:,} {measured}: {cost.forward.words()};"
        f" off by {ms(cost.forward.residual_p50_ns)} (p50), {ms(cost.forward.residual_p95_ns)} (p95),"
        f" {ms(cost.forward.residual_max_ns)} at most, {_percent(cost.forward.relative_error)} in all"
    ]
    if cost.pause.prices:
        lines.append(f"pause before a forward: {cost.pause.words()}; off by {ms(cost.pause.residual_p50_ns)} (p50)")
    lines.append(
        f"re-timed baseline against the recording: {error.baseline_rounds:,} rounds for {error.recorded_rounds:,};"
        f" first tokens {_apart(error.ttft)}; ends {_apart(error.end)}"
    )
    return lines + list(study.source.notes)


def _apart(found: Errors) -> str:
    single = f", {found.only_one_side} on one side only" if found.only_one_side else ""
    return f"off by {ms(found.p50_ns)} (p50), {ms(found.max_ns)} at most ({found.requests:,} requests{single})"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= 1e-8 else "0 %"


def outcome_words(study: Study, outcome: Outcome) -> list[str]:
    """Say how both runs ended, and what the change did."""
    before, after = study.baseline, outcome
    lines = [
        f"baseline: {ended_words(before)}",
        f"what-if ({changes_words(outcome.changes)}): {ended_words(after)}",
        *after.notes,
    ]
    lines += live_lock_words(("the baseline", before.figures), ("the what-if", after.figures))
    return lines + headline_words(study, outcome)


def live_lock_words(left: tuple[str, Figures], right: tuple[str, Figures]) -> list[str]:
    """Say on which side requests are stuck for good, and what became of them on the other; nothing if on neither."""
    (left_name, before), (right_name, after) = left, right
    for one, other, name, other_name in (
        (before, after, left_name, right_name),
        (after, before, right_name, left_name),
    ):
        if one.live_locked and not other.live_locked:
            return [
                f"{name} live-locks: its last {one.stuck_rounds:,} rounds with rows get none of {one.live} requests"
                f" further, {one.finished:,} finished with {one.retractions:,} retractions; {other_name} does not:"
                f" {other.finished:,} finished with {other.retractions:,}"
            ]
    return [f"{left_name} and {right_name} both live-lock"] if before.live_locked else []


def search_words(search: Search, where: str) -> list[str]:
    """Say what a search ran and what follows from it."""
    told = ", ".join(f"{_value(t.cell)} {'yes' if t.holds else 'no'}" for t in search.trials)
    lines = [f"{where}: ran {len(search.trials):,} of {search.candidates:,} values: {told}"]
    if search.found is None:
        lines.append("it holds for none that was run" + ("" if search.exhaustive else "; the others were not run"))
        return lines
    found = _value(search.found.cell)
    if search.exhaustive:
        lines.append(f"smallest of all: {found}")
    elif search.before is None:
        lines.append(f"smallest: {found}, the first of the range")
    else:
        lines.append(
            f"smallest found: {found}; {_value(search.before.cell)} does not hold it."
            " That no smaller value does is assumed where none was run"
        )
    if search.reversals:
        lines.append(f"not monotone: {search.reversals} smaller values hold it below one that does not")
    return lines


def _value(cell: Cell) -> str:
    return str(cell.changes[-1]) if cell.changes else "nothing changed"
