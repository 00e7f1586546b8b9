"""Two recordings side by side: where they part, what each request met, what became of the fleet (debugger.md 1, 4).

Also rank against rank of one recording: mirrored schedulers get the same calls, so any difference is a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tsviz.replay.figures.requests import Alignment, align
from tsviz.replay.figures.run import Figures, figures_of
from tsviz.trace.reader import Bundle, Part

from .rows import Difference, first_input_difference, first_plan_difference, first_row_difference


@dataclass(frozen=True, slots=True)
class Diff:
    """Outcome of `diff`: sides are `left` and `right`; changes are right minus left.

    `config`: fields of the scheduler's configuration that differ, with both values. `inputs`: the first difference of
    what the schedulers were told; it is a cause of the plans' only if its round is not behind theirs.
    `plans`: the first difference of any field of a plan; `rows`: the first scheduled row that serves another request or
    computes something else. `equal_rounds`: of those that both hold, how many are equal in front of that.
    """

    left: str
    right: str
    config: tuple[tuple[str, str, str], ...]
    inputs: Difference | None
    equal_rounds: int
    plans: Difference | None
    rows: Difference | None
    left_figures: Figures
    right_figures: Figures
    requests: Alignment

    @property
    def equal(self) -> bool:
        """Whether every plan is equal and there are as many."""
        return self.plans is None


def diff(left: Part, right: Part, names: tuple[str, str] = ("left", "right")) -> Diff:
    """Compare two parts. Raises `TraceError` when one cannot be read."""
    equal_rounds, plans = first_plan_difference(left, right)
    left_figures, left_requests = figures_of(left)
    right_figures, right_requests = figures_of(right)
    return Diff(
        *names,
        config=_config(left.config, right.config),
        inputs=first_input_difference(left, right),
        equal_rounds=equal_rounds,
        plans=plans,
        rows=None if plans is None else first_row_difference(left, right),
        left_figures=left_figures,
        right_figures=right_figures,
        requests=align(left_requests, right_requests),
    )


def _config(left: dict[str, Any], right: dict[str, Any]) -> tuple[tuple[str, str, str], ...]:
    found = []
    for name in sorted(left.keys() | right.keys()):
        one, other = left.get(name), right.get(name)
        if name == "cache_groups" and isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            for index, (group, fellow) in enumerate(zip(one, other, strict=True)):
                for key in sorted(group.keys() | fellow.keys()):
                    if group.get(key) != fellow.get(key):
                        where = f"cache_groups[{index}].{key}"
                        found.append((where, str(group.get(key)), str(fellow.get(key))))
        elif one != other:
            found.append((name, str(one), str(other)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class RankDiff:
    """One rank against rank 0 of its node."""

    node: str
    rank: int
    config: tuple[tuple[str, str, str], ...]
    inputs: Difference | None
    equal_rounds: int
    plans: Difference | None
    rows: Difference | None


def diff_ranks(bundle: Bundle) -> tuple[RankDiff, ...]:
    """Compare every rank with rank 0 of its node, in order of node and rank. Raises `TraceError`."""
    found = []
    for node in dict.fromkeys(part.node for part in bundle.parts):
        ranks = sorted((p for p in bundle.parts if p.node == node), key=lambda p: p.rank)
        for part in ranks[1:]:
            equal_rounds, plans = first_plan_difference(ranks[0], part)
            inputs = first_input_difference(ranks[0], part)
            config = _config(ranks[0].config, part.config)
            rows = None if plans is None else first_row_difference(ranks[0], part)
            found.append(RankDiff(node, part.rank, config, inputs, equal_rounds, plans, rows))
    return tuple(found)


def first_to_disagree(ranks: Sequence[RankDiff]) -> RankDiff | None:
    """Return the rank whose plans part from rank 0's in the earliest round; the lowest of several."""
    apart = [rank for rank in ranks if rank.plans is not None]
    return min(apart, key=lambda rank: (rank.plans.round if rank.plans else 0, rank.node, rank.rank), default=None)
