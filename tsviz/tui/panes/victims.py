"""The candidates of a turn of the retraction loop, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from rich.cells import cell_len

from tsviz.replay.stops.story import Fact
from tsviz.tui.clean import clean, fit
from tsviz.tui.glyphs import OUTCOMES
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, Stack, clip, line, wrapped
from tsviz.tui.numbers import grouped

_NUMBERS_CELLS = 5 + 1 + 6 + 8 + 4
_TIER_CELLS = 8
_ORDINARY = "  behind in the order"
"""What is said of most; there is a column of words where it fits."""
_TIER_FROM_CELLS = _NUMBERS_CELLS + _TIER_CELLS + len(_ORDINARY)
_WORDS_FROM_CELLS = len(_ORDINARY)
_REASONS = 3


def victim_table(victims: Sequence[Fact], width: int, indent: int) -> Document:
    """Return every candidate of a turn: rank, tier, what it would release, its size, forwards out, and its fate.

    Where there is no room for words, mark and rank tell what became of each; lines below say why some are exempt.
    """
    victims = tuple(victims)
    cells = max(id_cells((fact.request for fact in victims), max(width - indent - 26, 7)), 7)
    room = width - indent - cells
    tier, words = room >= _TIER_FROM_CELLS, room - _NUMBERS_CELLS >= _WORDS_FROM_CELLS
    told = room - _NUMBERS_CELLS - _TIER_CELLS * tier - 2 if words else 0
    head = " " * indent + fit("rank", 5) + fit("request", cells + 1) + (fit("tier", _TIER_CELLS) if tier else "")
    head += fit("blocks", 6, "right") + fit("tokens", 8, "right") + fit("out", 4, "right")
    return Stack((
        Lines((clip(line(Span(head, "column")), width),)),
        Lazy(len(victims), partial(_victim, victims, width, indent, cells, tier, words)),
        Lines(_exempt(victims, width, indent, told)),
    ))  # fmt: skip


def _exempt(victims: Sequence[Fact], width: int, indent: int, told: int) -> list[Line]:
    """Return why victims are exempt, unless the `told` cells of the table say it."""
    reasons = dict.fromkeys(fact.words for fact in victims if fact.numbers["exempt"] and cell_len(fact.words) > told)
    return [each for words in list(reasons)[:_REASONS] for each in wrapped(f"– {words}", width, "dim", indent)]


def id_cells(requests: Iterable[str], most: int) -> int:
    """Return the cells of a column of request ids: those of the longest of the first hundred, up to `most`."""
    return min(max((cell_len(clean(each)) for each in islice(requests, 100)), default=0), most)


def _victim(victims: Sequence[Fact], width: int, indent: int, cells: int, tier: bool, words: bool, y: int) -> Line:
    fact = victims[y]
    numbers = fact.numbers
    exempt, taken = bool(numbers["exempt"]), fact.marked
    rank = "–" if exempt else grouped(numbers["choice"])
    role = "retracted" if taken else ("dim" if exempt else "text")
    spans = (
        Span(" " * (indent - 2) + (f"{OUTCOMES['retracted'].glyph} " if taken else "  "), "retracted"),
        Span(fit(rank, 5), role),
        Span(f"{fit(fact.request, cells)} ", role),
        Span(fit("prefill" if numbers["prefill_tier"] else "decode", _TIER_CELLS) if tier else "", "dim"),
        Span(fit("–" if numbers["prefill_tier"] else grouped(numbers["releasable_blocks"]), 6, "right"), role),
        Span(fit(grouped(numbers["tokens"]), 8, "right"), role),
        Span(fit(grouped(numbers["in_flight"]), 4, "right"), "warn" if numbers["in_flight"] else "dim"),
        Span(f"  {fact.words}" if words else "", role),
    )
    return clip(Line(spans, "", ("name", fact.request)), width)
