"""The big run: ``python -m tests.conformance.campaign --lifetimes 20000 --processes 2 --seed 1``.

Prints lifetimes, rounds, rows, divergences with their seeds, the share of exempt lifetimes, and the table
of features against the floor. Ends with status 1 on any divergence or feature below the floor.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Queue

from tests.conformance.coverage import FEATURES
from tests.conformance.workers import Summary, run_seeds

FLOOR_LIFETIMES = 100
_SHOWN = 20


@dataclass(slots=True)
class Totals:
    """Sums over lifetimes; ``features`` and ``exemptions`` count lifetimes, not occurrences."""

    lifetimes: int = 0
    rounds: int = 0
    rows: int = 0
    calls: int = 0
    exempt_lifetimes: int = 0
    ended_early: int = 0
    divergences: list[str] = field(default_factory=list)
    features: Counter[str] = field(default_factory=Counter)
    exemptions: Counter[str] = field(default_factory=Counter)

    def add(self, summary: Summary) -> None:
        """Count one lifetime."""
        self.lifetimes += 1
        self.rounds += summary.rounds
        self.rows += summary.rows
        self.calls += summary.calls
        self.ended_early += summary.ended_early
        self.features.update(summary.features.keys())
        faults = {fault for _, fault in summary.exemptions}
        self.exempt_lifetimes += bool(faults)
        self.exemptions.update(faults)
        if summary.difference:
            self.divergences.append(summary.difference)

    def below_floor(self, floor: int) -> list[str]:
        """Features seen in fewer than ``floor`` lifetimes."""
        return [feature for feature in FEATURES if self.features[feature] < floor]

    def report(self, floor: int) -> str:
        """The whole summary as text."""
        share = 100 * self.exempt_lifetimes / max(1, self.lifetimes)
        early = 100 * self.ended_early / max(1, self.lifetimes)
        lines = [
            f"lifetimes {self.lifetimes}, calls {self.calls}, rounds {self.rounds}, rows {self.rows}",
            f"divergences {len(self.divergences)}",
            *self.divergences[:_SHOWN],
            f"lifetimes with an exempt event {self.exempt_lifetimes} ({share:.2f} %), ended by it"
            f" {self.ended_early} ({early:.2f} %)",
            *(f"  {count:7d}  {fault}" for fault, count in self.exemptions.most_common()),
            f"lifetimes per feature (floor {floor}):",
        ]
        for feature in FEATURES:
            mark = "  BELOW" if self.features[feature] < floor else ""
            lines.append(f"  {self.features[feature]:7d}  {feature}{mark}")
        return "\n".join(lines)


def run(lifetimes: int, processes: int, first_seed: int, subject: str) -> Totals:
    """Run seeds ``first_seed ..`` in ``processes`` children and sum them."""
    seeds = range(first_seed, first_seed + lifetimes)
    chunks: Queue[list[int]] = Queue()
    for start in range(0, lifetimes, 200):
        chunks.put(list(seeds[start : start + 200]))
    totals, started = Totals(), time.monotonic()

    def work(_: int) -> None:
        while not chunks.empty():
            for summary in run_seeds(chunks.get(), subject):
                totals.add(summary)
                if summary.difference:
                    print(summary.difference, file=sys.stderr, flush=True)
            seconds = time.monotonic() - started
            print(f"{totals.lifetimes} lifetimes, {seconds:.0f} s", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(work, range(processes)))
    return totals


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lifetimes", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--subject", choices=("twin", "real"), default="twin")
    parser.add_argument("--floor", type=int, default=FLOOR_LIFETIMES, help="lifetimes per feature")
    arguments = parser.parse_args()
    totals = run(arguments.lifetimes, arguments.processes, arguments.seed, arguments.subject)
    print(totals.report(arguments.floor))
    return 1 if totals.divergences or totals.below_floor(arguments.floor) else 0


if __name__ == "__main__":
    sys.exit(main())
