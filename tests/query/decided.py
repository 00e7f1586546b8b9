"""Decisions behind the tiny trace, made by hand, as an index would add them up to its last round.

    round 1   a holds the line at 6 of 8, b waits behind it
    round 4   c is refused: it needs 2 pages and has 1 in a parent of 2; b (6 tokens) is retracted for it
    round 5   b comes back with a headroom of 4, c joins it

Group `full` has pages of 2 tokens, 2 in a parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .fakes import FakeBundle, FakePart, table
from .tiny import A, B, C, tiny

CONFIG = {
    "role": "Fused",
    "max_scheduled_tokens": 8,
    "max_batch_size": 4,
    "prefix_granularity": 2,
    "num_device_pages": 9,
    "num_host_pages": "many",
    "cache_groups": [
        {
            "group_id": "full", "family": "History", "retention": "FullHistory", "block_granularity": 2,
            "cache_blocks_per_lcm_block": 2, "sliding_window_tokens": None, "replayable": False,
        }
    ],
}  # fmt: skip


@dataclass(frozen=True)
class DerivedPart(FakePart):
    """A part with a config, whose decisions are known up to a round."""

    config: Mapping[str, Any] | None = None
    derived_round: int = 6


def _at(round_: int, stop: int, item: int, **row: Any) -> dict[str, Any]:
    return {"round": round_, "stop": stop, "item": item, **row}


def _verdict(round_: int, item: int, who: dict[str, Any], cause: str, holder: str = "") -> dict[str, Any]:
    return _at(round_, 9, item, **who, cause=cause, holder=holder, op_id=-1)


DECISIONS: dict[str, list[dict[str, Any]]] = {
    "verdicts": [
        _verdict(1, 9, A, "scheduled"),
        _verdict(1, 10, B, "head_of_line", "a"),
        _verdict(2, 9, B, "scheduled"),
        _verdict(4, 9, B, "retracted", "c"),
        _verdict(4, 10, C, "capacity"),
        _verdict(5, 9, B, "scheduled"),
        _verdict(5, 10, C, "scheduled"),
    ],
    "holds": [_at(1, 2, 3, **A, computed_tokens=6, prompt_tokens=8)],
    "phases": [_at(4, 1, 0, name="new_prompts", budget_tokens=8)],
    "candidates": [_at(4, 2, 1, **C)],
    "attempts": [
        _at(4, 3, 2, **C, kind="first_chunk", need_pages=[2], hit_tokens=2),
        _at(5, 3, 2, **B, kind="first_chunk", need_pages=[2], hit_tokens=2),
        _at(5, 5, 5, **C, kind="first_chunk", need_pages=[1], hit_tokens=2),
    ],
    "refusals": [_at(4, 3, 3, **C, need_pages=[2], free_local_pages=[1], reachable_local_pages=[1])],
    "admissions": [_at(5, 3, 4, **B, fresh_pages=[2]), _at(5, 5, 6, **C, fresh_pages=[0])],
    "reserves": [
        _at(5, 2, 1, **B, decode_tokens=1, headroom_tokens=4, growth_tokens=-1),
        _at(5, 4, 4, **C, decode_tokens=1, rest_of_prompt_tokens=3, growth_tokens=2),
    ],
    "retractions": [_at(4, 6, 4, blocker="c", victim="b", outcome="retracted", op_id=-1)],
    "victims": [
        _at(4, 6, 5, **B, tier="decode", choice=0, releasable_blocks=3, tokens=6),
        _at(4, 6, 6, **A, tier="decode", choice=-1, releasable_blocks=5, tokens=10, exempt=True),
    ],
}


def decided_part(derived_round: int = 6, **more: list[dict[str, Any]]) -> DerivedPart:
    """Return the tiny trace with these decisions (`more` replaces tables)."""
    decisions = DECISIONS | more
    data = tiny() | {name: table(name, rows) for name, rows in decisions.items()}
    return DerivedPart(data, config=CONFIG, derived_round=derived_round)


def decided(derived_round: int = 6) -> FakeBundle:
    """Return the tiny trace with decisions as a bundle."""
    return FakeBundle("tiny", [decided_part(derived_round)])
