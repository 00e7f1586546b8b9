"""Random engine lifetimes against the dense reference: `python -m tests.executor.campaign --lifetimes 2000`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("SPDLOG_LEVEL", "off")

import torch

from tests.executor.pairs import drawn_pair, run_pair
from tests.executor.rig import drawn, live
from tsviz.engine.summary import EndReason
from tsviz.executor.equality import Equality
from tsviz.executor.landing import CUT
from tsviz.executor.paths import PATHS

PAIR_PATHS = ("hand-over", "landing behind a prefix")
"""The ways of a pair: P->D, and P->D with pages that D has."""
PAIRS_EVERY = 10
"""Of so many lifetimes one is a pair's."""


def campaign(
    first: int, lifetimes: int, schedulers: dict[str, Any], root: Path
) -> tuple[Equality, Counter[str], list[str]]:
    """Run lifetimes of consecutive seeds, schedulers in turn; a storage that was filled is used a second time."""
    total, counts, failures = Equality(), Counter(dict.fromkeys((*PATHS, *PAIR_PATHS), 0)), []
    names = list(schedulers)
    for seed in range(first, first + lifetimes):
        if seed > first and (seed - first) % 100 == 0:
            print(f"{seed - first} of {lifetimes} lifetimes, {len(failures)} failures", file=sys.stderr, flush=True)
        pairs = seed % PAIRS_EVERY == 0
        name = names[(seed // PAIRS_EVERY if pairs else seed) % len(names)]
        scheduler = schedulers[name]
        runs = pair_lifetime(seed, scheduler) if pairs else lifetime(seed, scheduler, root / str(seed))
        try:
            for ran, equality, wrong in runs:
                counts.update(ran)
                total += equality
                if wrong:
                    raise AssertionError(wrong)
        except Exception as error:  # a lifetime that breaks is a finding; the others go on
            failures.append(f"seed {seed} ({name}): {type(error).__name__}: {error}")
            print(failures[-1], file=sys.stderr, flush=True)
    return total, counts, failures


def lifetime(seed: int, scheduler: Any, root: Path) -> Iterator[tuple[Counter[str], Equality, str]]:
    """Live a drawn lifetime, twice where it has a storage; give its counters, its equality and what is wrong."""
    life = drawn(seed)
    for _ in range(1 + life.pool.storage):
        lived = live(life, scheduler, root)
        counts = lived.counts.copy()
        if lived.summary.reason is not EndReason.DRAINED:
            counts[f"the scheduler's own standstill: {lived.summary.reason.value}"] += 1
        right = lived.equality.is_exact and not lived.races and lived.guard_is_zero
        yield counts, lived.equality, "" if right else f"{lived.equality} races {list(map(str, lived.races[:2]))}"


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
        total, counts, failures = campaign(options.seed, options.lifetimes, schedulers, Path(root))
    for what, count in counts.most_common():
        print(f"{count:10,}  {what}")
    print(*failures, sep="\n")
    print(
        f"{options.lifetimes} lifetimes from seed {options.seed}, {total.tokens:,} tokens, {total.bit_equal:,} with"
        f" equal bits, {total.wrong} wrong, {len(failures)} failures, {time.monotonic() - began:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
