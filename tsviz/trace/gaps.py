"""Plans that were dropped while they were recorded: what is written of them, and which rounds a part lacks.

Where the disk cannot keep up, plans go and calls stay: every call is there, so the rounds of the gap are re-executed,
and not compared. What a plan says by difference starts anew behind a gap, at the recorder and in re-execution alike
(`PlanBook.lose`), so that the first plan behind it is compared in full: every table of it, and every counter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from .catalogue import PLAN_TABLES
from .privacy import BEHIND

UNCOUNTED = -1
"""In `dropped_rows`: a plan that is dropped is not read, so nobody knows how many rows it had."""


class Gap:
    """The plans that were dropped since the last one that was kept; for the writer."""

    def __init__(self) -> None:
        self._spans: list[list[int]] = []
        """First and last round of what was not told yet: several, where calls between them raised."""
        self.open = False
        """Whether plans are being dropped: set by the first one, until one is kept."""

    def drop(self, round_: int) -> None:
        """Note that the plan of a round is not there."""
        if self._spans and self._spans[-1][1] == round_ - 1:
            self._spans[-1][1] = round_
        else:
            self._spans.append([round_, round_])
        self.open = True

    def rows(self, *, plans: bool) -> Iterator[dict[str, Any]]:
        """Yield rows of table `gaps` for what was not told yet; `plans`: whether more than `rounds` is recorded."""
        spans, self._spans = self._spans, []
        for first, last in spans:
            for name in ("rounds", *(PLAN_TABLES if plans else ())):
                yield {
                    "round": first, "last_round": last, "table": name,
                    "dropped_rows": last - first + 1 if name == "rounds" else UNCOUNTED, "reason": BEHIND,
                }  # fmt: skip


class LostRounds:
    """The rounds of a part whose plans were dropped while it was recorded."""

    def __init__(self, gaps: pa.Table) -> None:
        """Read table `gaps`."""
        rows = [row for row in gaps.to_pylist() if (row["table"], row["reason"]) == ("rounds", BEHIND)]
        self.spans = _joined((row["round"], row["last_round"]) for row in rows)
        """First and last round of each gap, in order."""

    def __contains__(self, round_: int) -> bool:
        return any(first <= round_ <= last for first, last in self.spans)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)

    def words(self) -> list[str]:
        """Return each gap in words."""
        return [
            f"the plans of rounds {first:,} to {last:,} were dropped while recording ({BEHIND}):"
            " they are made again from their calls, and not compared"
            for first, last in self.spans
        ]

    def uncounted(self) -> str:
        """Return what figures over the rounds of the part are without, in words; empty where every plan was kept."""
        if not self.spans:
            return ""
        rounds = f"{len(self):,} round" + ("" if len(self) == 1 else "s")
        gaps = f"{len(self.spans):,} gap" + ("" if len(self.spans) == 1 else "s")
        return (
            f"without {rounds} in {gaps}: their plans were dropped while recording ({BEHIND}), so that what counts over"
            " rounds lacks them, and lost time counts them to what held before them"
        )


def spans(gaps: pa.Table) -> list[tuple[int, int]]:
    """Return first and last round of every stretch in which anything was dropped, in order."""
    return _joined(zip(gaps["round"].to_pylist(), gaps["last_round"].to_pylist(), strict=True))


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans of rounds in order, those that meet as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found
