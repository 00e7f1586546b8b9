"""The campaign of kills: `python -m tests.trace.kills COUNT [SEED]`; not part of the suite, which has a few of them.

Each time a recording is killed at a random moment: a plain one, a flight recorder, or one together with its keeper, of
which `tsviz repair` then has to make a trace; the latter two also of calls alone. Every trace must open, verify to its
last round, and say that it was cut; of one of calls every plan is made again.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.trace.test_crash import ROOT, logged, wait_for
from tsviz.cli.main import main as tsviz
from tsviz.replay.overview import overview
from tsviz.replay.reexecution.plans import plans_again
from tsviz.replay.reexecution.verify import verify
from tsviz.scheduler import compat
from tsviz.trace.catalogue import PLANS
from tsviz.trace.reader import open_bundle

KINDS = ("plain", "ring", "both", "ring of calls", "both of calls")


def kill_once(folder: Path, kind: str, rng: random.Random) -> tuple[int, bool]:
    """Record, kill, and hold what is left to the promise; return its rounds, and whether it begins behind round 1."""
    bundle, log = folder / "b", folder / "log"
    kind, _, level = kind.partition(" of ")
    ring = [] if kind == "plain" else ["1.2", level or PLANS]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.trace.recording_process", str(bundle), str(log), *ring], cwd=ROOT
    )
    wait_for(lambda: logged(log))
    time.sleep(rng.uniform(0.0, 5.0 if kind == "plain" else 8.0))
    if kind == "both":
        os.kill(keeper_of(bundle), signal.SIGKILL)
    process.kill()
    process.wait()
    if kind == "ring":
        wait_for(lambda: not Path(f"{bundle}.ring").exists(), 120)
    elif kind == "both":
        try:
            tsviz(["repair", f"{bundle}.ring", str(bundle), "--format", "csv"])
        except SystemExit as ended:
            assert ended.code == 0 or logged(log)[-1][0] < 2000, ended.code
    if not bundle.exists():  # killed before its first commit
        return 0, False
    opened = open_bundle(bundle)
    (part,) = opened.parts
    found = verify(part, compat)
    assert found.complete, found
    assert part.level == (level or PLANS)
    made = plans_again(part, part.last_round + 1).tables["operations"]
    assert (made.num_rows > 0) == (part.last_round > 0)
    if kind == "plain":
        assert opened.end is None
    else:
        assert overview(opened)["parts"][0]["ended"].startswith("ring: ")
    return part.last_round, "starts_at" in part.meta


def keeper_of(bundle: Path) -> int:
    """Return the process of a ring's keeper."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"tsviz.replay.ring.keeper" in words and f"{bundle}.ring".encode() in words:
                return int(entry.name)
    raise LookupError("no keeper")


def main() -> None:
    """Kill so many times, and say what was left."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng, told = random.Random(seed), Counter[str]()
    for number in range(count):
        folder = Path(tempfile.mkdtemp(prefix="kills-"))
        kind = KINDS[number % len(KINDS)]
        rounds, later = kill_once(folder, kind, rng)
        told[f"{kind}: {'nothing committed' if not rounds else 'from a keyframe' if later else 'from round 1'}"] += 1
        shutil.rmtree(folder)
        print(f"{number + 1} of {count}, {kind}: verified to round {rounds:,}", file=sys.stderr, flush=True)
    for what, times in sorted(told.items()):
        print(f"{what}: {times}")


if __name__ == "__main__":
    main()
