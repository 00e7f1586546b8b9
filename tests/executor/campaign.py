"""Random engine lifetimes against the dense reference: `python -m tests.executor.campaign --lifetimes 2000`.

A lifetime that does not come to its end is a failure: its pool is drawn so that its longest request fits, and its
rounds so that a decode fits beside a prefill (`test_standstills` has what happens otherwise, on both schedulers).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("SPDLOG_LEVEL", "off")

import torch

from tests.executor.pairs import drawn_pair, run_pair
from tests.executor.rig import Lived, drawn, live
from tsviz.engine.summary import EndReason
from tsviz.executor.equality import Equality
from tsviz.executor.landing import CUT
from tsviz.executor.paths import PATHS

PAIR_PATHS = ("hand-over", "landing behind a prefix")
"""The ways of a pair: P->D, and P->D with pages that D has."""
PAIRS_EVERY = 10
"""Of so many lifetimes one is a pair's."""


@dataclass
class Tally:
    """What some lifetimes came to: equality, how often each way was gone, whose plans, what failed."""

    equality: Equality = field(default_factory=Equality)
    counts: Counter[str] = field(default_factory=Counter)
    lifetimes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add what others came to."""
        self.equality += other.equality
        self.counts.update(other.counts)
        self.lifetimes.update(other.lifetimes)
        self.failures += other.failures

    def lines(self) -> Iterator[str]:
        """Every way, also those that were never gone, and how often."""
        ways = (*PATHS, *PAIR_PATHS)
        for way in (*ways, *sorted(self.counts.keys() - set(ways))):
            yield f"{self.counts[way]:10,}  {way}"


def campaign(seeds: Iterable[int], schedulers: dict[str, Any], root: Path) -> Tally:
    """Live the lifetimes of seeds, on the schedulers in turn; a storage that was filled is used a second time."""
    tally, names = Tally(), list(schedulers)
    for done, seed in enumerate(seeds):
        if done and done % 100 == 0:
            print(f"{done} lifetimes, {len(tally.failures)} failures", file=sys.stderr, flush=True)
        is_pair = seed % PAIRS_EVERY == 0
        name = "pair" if is_pair else names[seed % len(names)]
        scheduler = schedulers[names[(seed // PAIRS_EVERY if is_pair else seed) % len(names)]]
        runs = pair_lifetime(seed, scheduler) if is_pair else lifetime(seed, scheduler, root / str(seed))
        tally.lifetimes[name] += 1
        try:
            for ran, equality, wrong in runs:
                tally.counts.update(ran)
                tally.equality += equality
                if wrong:
                    raise AssertionError(wrong)
        except Exception as error:  # a lifetime that breaks is a finding; the others go on
            tally.failures.append(f"seed {seed} ({name}): {type(error).__name__}: {error}")
            print(tally.failures[-1], file=sys.stderr, flush=True)
    return tally


def lifetime(seed: int, scheduler: Any, root: Path) -> Iterator[tuple[Counter[str], Equality, str]]:
    """Live a drawn lifetime, twice where it has a storage; give its counters, its equality and what is wrong."""
    life = drawn(seed)
    for _ in range(1 + life.pool.storage):
        lived = live(life, scheduler, root)
        yield lived.counts, lived.equality, "; ".join(_wrongs(lived))


def _wrongs(lived: Lived) -> Iterator[str]:
    summary = lived.summary
    if not lived.equality.is_exact:
        yield str(lived.equality)
    if lived.races:
        yield f"races: {', '.join(map(str, lived.races[:2]))}"
    if not lived.guard_is_zero:
        yield "the guard page was written to"
    if summary.reason is not EndReason.DRAINED:
        yield f"{summary.reason.value} after {summary.rounds} rounds, {summary.live} live: {summary.detail}"
    if summary.refusals:
        yield f"refused: {summary.refusals[0]}"


def pair_lifetime(seed: int, scheduler: Any) -> Iterator[tuple[Counter[str], Equality, str]]:
    """Live a drawn pair's lifetime; a landing that the real scheduler cuts fails alone (A1 in docs/failures.md)."""
    paired = run_pair(drawn_pair(seed, scheduler))
    counts, cut = paired.counts, paired.failures.get(CUT, 0)
    counts["landing cut by the scheduler"] += cut
    right = paired.equality.is_exact and not paired.races and paired.on_d.finished + cut == len(paired.requests)
    yield counts, paired.equality, "" if right else f"{paired.equality} races {paired.races} {paired.on_d}"


def main() -> int:
    """Run it and print the counters; 1 when a lifetime failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lifetimes", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scheduler", choices=("both", "twin", "real"), default="both")
    options = parser.parse_args()
    torch.set_num_threads(1)
    import tsviz.scheduler.compat as twin

    schedulers: dict[str, Any] = {"twin": twin}
    if options.scheduler != "twin":
        from tsviz.adapters.tokenspeed import load_real

        schedulers["real"] = load_real()
    if options.scheduler == "real":
        del schedulers["twin"]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        tally = campaign(range(options.seed, options.seed + options.lifetimes), schedulers, Path(root))
    print(*tally.lines(), sep="\n")
    print(*tally.failures, sep="\n")
    total = tally.equality
    print(
        f"{options.lifetimes} lifetimes from seed {options.seed} ({_words(tally.lifetimes)}), {total.tokens:,} tokens,"
        f" {total.bit_equal:,} with equal bits, {total.wrong} wrong, {len(tally.failures)} failures,"
        f" {time.monotonic() - began:.0f} s"
    )
    return 1 if tally.failures else 0


def _words(lifetimes: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(lifetimes.items()))


if __name__ == "__main__":
    sys.exit(main())
