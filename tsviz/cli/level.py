"""`--level`: how much is recorded. One option, the same words wherever something is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from .traces import gaps_of

CALLS, PLANS, DECISIONS = "calls", "plans", "decisions"
LEVELS = (CALLS, PLANS, DECISIONS)
"""As `tsviz.trace.catalogue` has them, without its imports: the command line must start at once."""
_SAYS = {
    CALLS: "calls and the digest of each plan, the rest of which `tsviz index` makes again",
    PLANS: "what every plan says",
    DECISIONS: "also why; only the twin knows",
}


def level_option(levels: Sequence[str], default: str) -> Callable[[Any], Any]:
    """Return the option with these levels; it arrives as `level`, None where nothing was said."""
    told = "; ".join(f"{level}: {_SAYS[level]}" for level in levels)
    return click.option("--level", type=click.Choice(levels), help=f"{told}. {default}")


def without_decisions(paths: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return, in words, which of some traces have no decisions behind the relations of these names, or not all."""
    from tsviz.query.paths import split_part
    from tsviz.replay.reexecution.filled import open_filled
    from tsviz.replay.reexecution.index import open_index
    from tsviz.trace.errors import TraceError

    said = []
    for path in paths if names else ():
        try:
            bundle = open_filled(split_part(path)[0])
            indexes = [(part, open_index(part)) for part in bundle.parts if part.level != DECISIONS]
        except (TraceError, OSError):  # whoever asked was told
            continue
        known = [(part, 0 if index is None else index.last_round) for part, index in indexes]
        if short := [f"{part.node}/{part.rank} up to round {last:,} of {part.last_round:,}" if last
                     else f"{part.node}/{part.rank}" for part, last in known if last < part.last_round]:  # fmt: skip
            said.append(
                f"{path}: decisions are not known of {', '.join(short)}; what {', '.join(names)} would say of them"
                " is missing (`tsviz index` derives it)"
                if all(not last for _, last in known)
                else f"{path}: decisions are known of {', '.join(short)}; what lies behind is missing in"
                f" {', '.join(names)}"
            )
    return said


def without_rounds(paths: Sequence[str], asked: Sequence[tuple[str, int]]) -> list[str]:
    """Return, in words, which macros are asked of a round that none of the traces has, and which rounds they have."""
    from tsviz.query.paths import split_part
    from tsviz.trace.errors import TraceError
    from tsviz.trace.reader import open_bundle

    spans: dict[str, tuple[int, int]] = {}
    for path in paths if asked else ():
        try:
            parts = open_bundle(split_part(path)[0]).parts
        except (TraceError, OSError):  # whoever asked was told
            continue
        spans |= {f"{path} {p.node}/{p.rank}": (p.meta.get("starts_at", 1), p.last_round) for p in parts}
    had = "; ".join(f"{name} has rounds {first:,} to {last:,}" for name, (first, last) in list(spans.items())[:4])
    had += f" and {len(spans) - 4:,} parts more" if len(spans) > 4 else ""
    return [
        f"no round {round_:,} for {name}: {had}"
        for name, round_ in asked
        if spans and not any(first <= round_ <= last for first, last in spans.values())
    ]


def not_recorded(paths: Sequence[str]) -> list[str]:
    """Return, in words, what traces lack: plans where only calls were recorded, and rounds that were dropped."""
    from tsviz.query.paths import split_part
    from tsviz.trace.errors import TraceError
    from tsviz.trace.reader import open_bundle

    said = []
    for path in paths:
        try:
            bundle = open_bundle(split_part(path)[0])
            said += [f"{path}: {words}" for words in gaps_of(bundle.parts)]
        except (TraceError, OSError):  # whoever asked was told
            continue
        if any(part.level == CALLS for part in bundle.parts):
            from tsviz.replay.reexecution.filled import filled, needs_plans
            from tsviz.trace.catalogue import PLAN_TABLES

            if needs_plans(filled(bundle)):
                said.append(
                    f"{path}: not recorded at level calls: {', '.join(PLAN_TABLES)} (`tsviz index` makes them again)"
                )
    return said
