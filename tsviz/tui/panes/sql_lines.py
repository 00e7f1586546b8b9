"""What stands around a query and its result: how it stands, what went wrong and where, which rows are in sight."""

from __future__ import annotations

from tsviz.tui.clean import clean, shorten
from tsviz.tui.lines import Document, Line, Lines, Span, clip, line, spread
from tsviz.tui.numbers import counted, duration, grouped
from tsviz.tui.sql_state import SqlState

_KINDS = {
    "refused": "Only reading is allowed here.",
    "timeout": "It may take 60 s here; tsviz sql --timeout gives it longer.",
    "memory": "Ask for less; tsviz sql --memory gives it more.",
    "trace": "tsviz verify says what is wrong with the trace.",
}


def head_lines(state: SqlState, trace: str, width: int) -> tuple[Line, Line]:
    """Return the title and how the query stands."""
    left = [Span(" tsviz ", "brand"), Span(" "), Span("SQL", "title"), Span(" │ ", "rule")]
    left.append(Span(shorten(trace, min(40, max(width // 3, 8)))))
    second = spread([Span(" reads only, 60 s and 1 GiB at most; all parts of the trace", "dim")], (), width)
    return spread(left, _standing(state), width), second


def _standing(state: SqlState) -> tuple[Span, ...]:
    if state.running:
        return (Span(f"◌ running {duration(state.elapsed_s * 1e9)}", "accent"), Span("  esc stops ", "dim"))
    if state.trouble is not None:
        return (Span("✗ no answer ", "bad"),)
    if state.total is None:
        return (Span("f5 runs the query ", "dim"),)
    return (Span(f"✓ {_of(state)}", "good"), Span(f"  {duration(state.took_s * 1e9)} ", "dim"))


def _of(state: SqlState) -> str:
    total = state.total
    assert total is not None
    if total.rows == total.of and total.exact:
        return counted(total.rows, "row")
    return f"{grouped(total.rows)} of {'' if total.exact else 'more than '}{grouped(total.of)} rows"


def answer_lines(state: SqlState, width: int) -> Document:
    """Return two lines under the editor: what went wrong and what may help, or what became of the result."""
    trouble = state.trouble
    if trouble is not None:
        first, _, rest = clean(trouble.message.replace("\n", " ↵ ")).partition(" ↵ ")
        where = ""
        if trouble.at is not None:
            before = state.asked[: trouble.at[0]]
            number = before.count("\n") + 1
            where = f"line {number}, column {trouble.at[0] - (before.rfind(chr(10)) + 1) + 1}: "
        hint = (
            f"did you mean {', '.join(trouble.candidates)}?" if trouble.candidates else _KINDS.get(trouble.kind, rest)
        )
        return Lines((clip(line(Span(" ✗ ", "bad"), Span(where, "position"), Span(first, "bad")), width),
                      clip(line(Span(f"   {clean(hint)}", "dim")), width)))  # fmt: skip
    if state.saved is not None:
        words = f" ✓ {counted(state.saved.rows, 'row')} written to {clean(state.saved.path)}"
        return Lines((clip(line(Span(words, "good")), width),))
    total = state.total
    if total is not None and not state.running and not total.rows:
        return Lines((line(Span(" ∅ The query is right, and no row answers it.", "heading")),))
    if total is not None and (total.of > total.rows or not total.exact):
        words = f" the first {grouped(total.rows)}; M asks for ten times as many, w writes all of them to a file"
        return Lines((clip(line(Span(words, "dim")), width),))
    return Lines((clip(line(Span(" ctrl+space completes, f5 or ; enter runs, ctrl+↑ older queries", "dim")), width),))


def result_note(state: SqlState, first: int, height: int) -> str:
    """Return which rows are in sight: `rows 1–20 of 312`; nothing where there is no result."""
    grid = state.grid
    if grid is None or not grid.rows:
        return ""
    last = min(first + height, grid.rows)
    note = f"rows {grouped(first + 1)}–{grouped(last)} of {grouped(grid.rows)}"
    stale = state.running or state.trouble is not None
    return f"{note} of the query before" if stale and state.total is None and state.trouble is not None else note
