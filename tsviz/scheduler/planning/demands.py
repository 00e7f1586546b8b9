"""What an admission asks of each group (seed 1 *Reserve*, `scheduler-rules.md` 7.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tsviz.scheduler.cache.geometry import FULL, SLIDING, Group
from tsviz.scheduler.cache.tables import DENSE, SPARSE, Demand
from tsviz.scheduler.decisions import Reserve

NO_GROWTH: Final = -1
"""`growth_tokens` of an admission that does not finish shaping the state."""


def prefill_demands(
    groups: Sequence[Group], reserve: Reserve, before: int, tokens: int, page_tokens: int
) -> list[Demand]:
    """Demands of a local chunk over (before, before + tokens]."""
    after = before + tokens
    aligned = after - after % page_tokens
    checkpoint = aligned if aligned > before else after
    out = []
    for group in groups:
        if group.kind == FULL:
            out.append(Demand(DENSE, tokens, 0, reserve.full_tokens))
        elif group.kind == SLIDING:
            out.append(Demand(DENSE, tokens, 0, reserve.decode_tokens))
        else:
            g = group.granularity_tokens
            out.append(Demand(SPARSE, after, (checkpoint - 1) // g, reserve.state_tokens(g)))
    return out


def landing_demands(
    groups: Sequence[Group], reserve: Reserve, hit_tokens: int, prompt_tokens: int, tokens: int
) -> list[Demand]:
    """Demands of a remote landing: the peer computes the prompt, only what decode reads must land."""
    out = []
    for group in groups:
        g = group.granularity_tokens
        if group.kind == FULL:
            out.append(Demand(DENSE, tokens, 0, reserve.full_tokens))
        elif group.kind == SLIDING:
            first = max(hit_tokens // g, max(0, prompt_tokens - group.window_tokens + 1) // g)
            out.append(Demand(SPARSE, prompt_tokens, first, reserve.decode_tokens))
        else:
            out.append(Demand(SPARSE, prompt_tokens, (prompt_tokens - 1) // g, reserve.state_tokens(g)))
    return out
