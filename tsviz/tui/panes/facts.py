"""Facts of a stop as lines: a label, the words, and below them the terms, rules or groups as a small table."""

from __future__ import annotations

from tsviz.replay.stops.story import Fact
from tsviz.tui.clean import clean, fit
from tsviz.tui.lines import Line, Span, clip, line, wrapped
from tsviz.tui.numbers import grouped

_LABEL_CELLS = 9
_DEFICIT_CELLS = 36
_BOUND_CELLS = len("  ← bound here")
_LABELS = {
    "match": "match", "chunk": "chunk", "reserve": "reserve", "refusal": "refused", "admission": "admitted",
    "hold": "holds", "blocker": "blocker", "state": "state", "readmission": "returns", "publication": "published",
    "reclaim": "reclaims", "ticket": "transfer", "eviction": "evicts",
}  # fmt: skip
_ROLES = {
    "refusal": "bad", "admission": "good", "hold": "warn", "blocker": "warn", "eviction": "retracted",
    "ticket": "transfer", "publication": "dim", "reclaim": "dim", "state": "dim",
}  # fmt: skip


def fact_lines(fact: Fact, width: int, indent: int) -> list[Line]:
    """Return a fact and what is below it; words that are too long go on in the next line."""
    label = fit(_LABELS.get(fact.kind, fact.kind), _LABEL_CELLS)
    role = _ROLES.get(fact.kind, "text")
    lead = " " * indent
    room = max(width - indent - _LABEL_CELLS - 1, 10)
    words = f"{fact.request}: {fact.words}" if fact.kind in ("state", "readmission", "publication") else fact.words
    body = wrapped(words, room, role)
    lines = [
        line(Span(lead), Span(f"{label} ", "column" if role in ("text", "dim") else role), *body[0].spans),
        *(line(Span(lead + " " * (_LABEL_CELLS + 1)), *each.spans) for each in body[1:]),
    ]
    below = indent + _LABEL_CELLS + 1
    if fact.kind == "chunk":
        shown = [each for each in fact.facts if each.numbers or each.marked]
        longest = max(len(each.words) + (_BOUND_CELLS if each.marked else 0) for each in shown)
        below = min(below, max(width - longest - 11, indent + 2))
        lines += [_cut(each, width, below) for each in shown]
    elif fact.kind == "reserve":
        lines += [_term(each, width, below) for each in fact.facts if each.numbers["tokens"]]
    elif fact.kind == "refusal":
        lines += deficit_lines(fact, width, below)
    elif fact.kind == "eviction":
        lines += [clip(line(Span(" " * below), Span(clean(each.words), "dim")), width) for each in fact.facts]
    return [clip(each, width) for each in lines]


def _cut(step: Fact, width: int, indent: int) -> Line:
    number = grouped(step.numbers["tokens"]) if "tokens" in step.numbers else ""
    mark = "▶ " if step.marked else "  "
    role = "strong" if step.marked else "dim"
    words = step.words + ("  ← bound here" if step.marked else "")
    return clip(line(Span(" " * (indent - 2) + mark, "accent"), Span(f"{number:>9}  ", role), Span(words, role)), width)


def _term(term: Fact, width: int, indent: int) -> Line:
    role = "strong" if term.marked else "dim"
    mark = "▶ " if term.marked else "  "
    return clip(line(Span(" " * (indent - 2) + mark, "accent"), Span(term.words, role)), width)


def deficit_lines(refusal: Fact, width: int, indent: int) -> list[Line]:
    """Return need against supply: a line a group, then the blocks that there are and that are lacking."""
    indent = min(indent, max(width - _DEFICIT_CELLS, 0))
    lead = " " * indent
    numbers = refusal.numbers
    lines = [line(Span(lead + f"{'group':<10}{'need':>7}{'inside':>8}{'blocks':>7}", "column"))]
    for group in refusal.facts:
        n = group.numbers
        name = group.words.partition(":")[0]
        text = f"{fit(name, 10)}{n['need_pages']:>7,}{n['reachable_local_pages']:>8,}{n['need_blocks']:>7,}"
        lines.append(line(Span(lead), Span(text, "bad" if group.marked else "dim")))
    wanted = numbers["reachable_blocks"] + numbers["deficit_blocks"]
    rows = (
        ("needed", wanted, "strong"), ("free", numbers["free_blocks"], "text"),
        ("with evictions", numbers["reachable_blocks"], "text"), ("lacking", numbers["deficit_blocks"], "bad"),
    )  # fmt: skip
    lines += [line(Span(lead), Span(f"{name:<17}{value:>15,}", role)) for name, value, role in rows]
    return [clip(each, width) for each in lines]
