"""Two traces side by side: timelines on one axis, where they part, the fleet in numbers, every request."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.replay.diff.sides import COUNTS, TIMES, Figure, Lane, Met, Sides
from tsviz.tui.clean import clean, fit, shorten
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, clip, heading, line, wrapped
from tsviz.tui.numbers import duration, grouped, level
from tsviz.tui.study import Comparison

_LABEL_CELLS = 19
_LANES = {
    "tokens": ("tokens a round", "pool"),
    "occupied": ("pages occupied", "pool"),
    "retracted": ("retracted", "retracted"),
}
_TITLES = {
    "queue_ns": "queue", "ttft_ns": "first token", "tpot_ns": "per token", "end_to_end_ns": "to the end",
    "generated_tokens": "generated", "restarts": "restarts", "recomputed_tokens": "recomputed",
}  # fmt: skip
NUMBERS = (*TIMES, *COUNTS)
_WIDE_CELLS = 100
_NOTHING = "·"
"""A column of rounds that are there and have none of it: no height, which the least bar would be."""


_ASKS = "o asks for a path, or for knobs to turn in a what-if of this trace (pages=257 max_new=declared)."


def _number_cells(width: int) -> int:
    """Return the width of a column of numbers: a narrow pane has room for four of twelve."""
    return 14 if width >= _WIDE_CELLS else 12


def instead(comparison: Comparison, width: int, height: int) -> Document | None:
    """Return what is shown where there is nothing to compare yet."""
    known = comparison.known
    if comparison.sides is not None:
        return None
    if not known.asked:
        title, role, words = "⇋ Compare this trace with another one.", "heading", [_ASKS]
    elif known.error:
        title, role = "✗ The traces could not be compared.", "bad"
        words = [f"{known.error}.", _ASKS]
    else:
        title, role, words = f"◌ Comparing with {comparison.other} …", "accent", ["esc leaves; it goes on."]
        if comparison.what_if:
            title = f"◌ Running this trace again with {comparison.other} …"
    body = wrapped(title, width, role, indent=2)
    for sentence in words:
        body += [line(""), *wrapped(sentence, width, indent=2)]
    return Lines([line("")] * max((height - len(body)) // 3, 0) + body)


def timelines(sides: Sides | None, width: int) -> Document:
    """Return the same number of both sides below each other, and where the plans part."""
    if sides is None:
        return Lines(())
    cells, last = max(width - _LABEL_CELLS - 1, 8), max(sides.rounds)
    parted = None if sides.parts_at is None else min((sides.parts_at - 1) * cells // max(last, 1), cells - 1)
    lines: list[Line] = []
    for name, (title, role) in _LANES.items():
        pair = [lane for lane in sides.lanes if lane.name == name]
        most = max((max(lane.values, default=0) for lane in pair), default=0)
        if most <= 0:
            continue
        for lane in pair:
            word = title if lane.side == "left" else ""
            label = f"{word:>{_LABEL_CELLS - 3}} {'A' if lane.side == 'left' else 'B'} "
            lines.append(Line((Span(label, "dim"), *_lane(lane, most, cells, last, parted, role))))
    lines.append(_axis(sides, cells, last, parted))
    return Lines(lines)


def _lane(lane: Lane, most: int, cells: int, last: int, parted: int | None, role: str) -> list[Span]:
    spans = []
    for cell in range(cells):
        low = cell * len(lane.values) // cells
        high = max((cell + 1) * len(lane.values) // cells, low + 1)
        value = max(lane.values[low:high], default=-1)
        glyph = " " if value < 0 else level(value, most) if value else _NOTHING
        drawn = "position" if cell == parted else role if value else "rule"
        spans.append(Span(glyph, drawn, ("round", 1 + cell * last // cells)))
    return spans


def _axis(sides: Sides, cells: int, last: int, parted: int | None) -> Line:
    label = f"{'round':>{_LABEL_CELLS - 1}} "
    end = grouped(last)
    text = list(f"1{' ' * max(cells - 1 - len(end), 0)}{end}")[:cells]
    if parted is None:
        return Line((Span(label, "dim"), Span("".join(text), "dim")))
    mark = f"▲ {grouped(sides.parts_at or 0)}"
    start = min(parted, max(cells - len(mark), 0))
    text[start : start + len(mark)] = mark
    whole = "".join(text)
    return Line((
        Span(label, "dim"), Span(whole[:start], "dim"), Span(whole[start : start + len(mark)], "position"),
        Span(whole[start + len(mark) :], "dim"),
    ))  # fmt: skip


def parting(sides: Sides | None, width: int, *, what_if: bool = False) -> Document:
    """Return whether and where the plans part, with both values of the field, and what was different before.

    Of a what-if what came of it stands first: that its plans part is no news.
    """
    if sides is None:
        return Lines(())
    if sides.parts_at is None:
        lines = [line(Span(" ✓ ", "good"), Span(f"All {grouped(sides.equal_rounds)} rounds are equal.", "good"))]
    else:
        target = ("action", "divergence")
        lines = [
            clip(
                line(
                    Span(" ≠ ", "bad"),
                    Span(f"{grouped(sides.equal_rounds)} rounds are equal; the plans part in ", "text"),
                    Span(f"round {grouped(sides.parts_at)}", "position", target),
                    Span(f"  {shorten(sides.request, 32)}", "accent"),
                    Span(f"  {clean(sides.field)}", "strong"),
                ),
                width,
            )
        ]
        for side, value in zip("AB", sides.values, strict=True):
            told = "no such row" if value is None else value
            lines.append(clip(line(Span(f"   {side} ", "dim"), Span(clean(told), "warn")), width))
    others = [word for word in sides.words if "rounds are equal" not in word]
    below = [clip(line(Span(f"   {clean(word)}", "text" if what_if else "dim")), width) for word in others]
    return Lines([*below, *lines] if what_if else [*lines, *below])


def tabs(view: str, sides: Sides | None, requests: int, width: int) -> Document:
    """Return the two tables as tabs."""
    spans = [Span(" ")]
    for number, (name, word) in enumerate((("figures", "Fleet"), ("requests", f"Requests {grouped(requests)}")), 1):
        here = name == view
        target = ("action", f"view('{name}')")
        text = f"[{number} {word}]" if here else f" {number} {word} "
        spans += [Span(text, "tab-active" if here else "tab", target), Span(" ")]
    if sides is not None:
        named = f"  A {shorten(sides.left, 30)}   B {shorten(sides.right, 30)}"
        ways = (f"{named}   change: B - A", named, "  change: B - A", "")
        room = width - Line(tuple(spans)).cells
        spans.append(Span(next(way for way in ways if len(way) <= max(room, 0)), "dim"))
    return Lines((clip(Line(tuple(spans)), width),))


def figures(sides: Sides | None, cursor: int, width: int) -> Document:
    """Return the fleet: both sides, the change, and a sign that says in which direction it went."""
    rows = () if sides is None else sides.figures
    name_cells = min(24, max(width // 3, 12))
    cells = _number_cells(width)
    head = heading(
        f" {'figure':<{name_cells}}{'A':>{cells}}{'B':>{cells}}{'change':>{cells}}{'of A':>{cells}}", "", width
    )
    return Lines((head, *(_figure(f, n, n == cursor, name_cells, width) for n, f in enumerate(rows))),
                 cursor + 1 if rows else None)  # fmt: skip


def _figure(figure: Figure, number: int, here: bool, name_cells: int, width: int) -> Line:
    change = None if figure.left is None or figure.right is None else figure.right - figure.left
    share = f"{100 * change / figure.left:+.1f} %" if change and figure.left else ""
    cells = _number_cells(width)
    spans = (
        Span("▸" if here else " ", "accent"),
        Span(fit(figure.name.replace("_", " "), name_cells), "strong" if here else "text"),
        Span(f"{_number(figure.left):>{cells}}"),
        Span(f"{_number(figure.right):>{cells}}"),
        Span(f"{_signed(change):>{cells}}", "position" if change else "dim"),
        Span(f"{share:>{cells}}", "dim"),
    )
    return clip(Line(spans, "cursor" if here else "", ("line", number)), width)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return grouped(int(value)) if value == int(value) else f"{value:,.3f}"


def _signed(change: float | None) -> str:
    if change is None:
        return "–"
    if not change:
        return "="
    return ("+" if change > 0 else "-") + _number(abs(change))


def request_table(requests: Sequence[Met], number: int, cursor: int, width: int) -> Document:
    """Return one line a request: the chosen number on both sides, its change, and changes of the others."""
    name = NUMBERS[number]
    name_cells = min(24, max(width // 4, 10))
    cells = _number_cells(width)
    others = [n for n in range(len(NUMBERS)) if n != number]
    shown = others[: max((width - name_cells - 3 * cells - 2) // cells, 0)]
    titles = "".join(f"{f'Δ {_TITLES[NUMBERS[n]]}':>{cells}}" for n in shown)
    chosen = f"{f'A {_TITLES[name]}':>{cells}}{'B':>{cells}}{'Δ':>{cells}}"
    head = Line((Span(f" {'request':<{name_cells}}", "column"), Span(chosen, "position"), Span(titles, "column")))

    def row(y: int) -> Line:
        if y == 0:
            return clip(head, width)
        met = requests[y - 1]
        here = y - 1 == cursor
        change = met.change(number)
        spans = [
            Span("▸" if here else " ", "accent"),
            Span(fit(met.request, name_cells), "strong" if here else "text"),
            Span(f"{_told(name, met.left[number]):>{cells}}"),
            Span(f"{_told(name, met.right[number]):>{cells}}"),
            Span(f"{_change(name, change):>{cells}}", "position" if change else "dim"),
        ]
        spans += [Span(f"{_change(NUMBERS[n], met.change(n)):>{cells}}", "dim") for n in shown]
        return clip(Line(tuple(spans), "cursor" if here else "", ("line", y - 1)), width)

    return Lazy(len(requests) + 1, row, cursor + 1 if requests else None)


def _told(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return duration(value) if name in TIMES else grouped(int(value))


def _change(name: str, change: float | None) -> str:
    if change is None:
        return "–"
    if not change:
        return "="
    return ("+" if change > 0 else "-") + _told(name, abs(change))
