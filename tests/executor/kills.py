"""Nodes of a pair killed at random moments: `python -m tests.executor.kills --times 50 --seed 1`."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.executor.test_two_processes import LONG, follow_until_round, free_port, start
from tsviz.trace.reader import open_bundle


def killed(node: str, after_s: float, folder: Path) -> str | None:
    """Kill one node some time after its first round; return what is wrong with the other, None when nothing is."""
    port = free_port()
    nodes = {name: start(name, port, folder / name, LONG) for name in ("P", "D")}
    left = "D" if node == "P" else "P"
    follow_until_round(folder / node, nodes[node])
    time.sleep(after_s)
    nodes[node].send_signal(signal.SIGKILL)
    nodes[node].communicate(timeout=60)
    _, err = nodes[left].communicate(timeout=120)
    if nodes[left].returncode:
        return f"{left} ended with {nodes[left].returncode}: {err.decode()[-300:]}"
    live = (open_bundle(folder / left).end or {})["parts"][f"{left}/0"]["live"]
    open_bundle(folder / node)
    return f"{left} has {live} live requests" if live else None


def main() -> int:
    """Kill either side so many times in turn; 1 when the other did not free everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw, wrong = random.Random(options.seed), 0
    for i in range(options.times):
        node, after_s = "PD"[i % 2], draw.uniform(0.0, 1.5)
        with tempfile.TemporaryDirectory() as folder:
            told = killed(node, after_s, Path(folder))
        wrong += told is not None
        print(f"{i + 1}: {node} killed {after_s:.2f} s after its first round: {told or 'the other freed everything'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
