"""Nodes of a pair killed at random moments of their run: `python -m tests.executor.kills --times 50 --seed 1`.

A moment is a step of the node that is killed: it connects, says or hears a frame, computes, lands, ends. The steps of a
run are listed first; every kind of them comes in turn, in a random order, and of each kind a random one. The node dies
a little behind it, wherever it then is. Nodes are forked from this process, which has loaded everything: fifty take two
or three minutes.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("SPDLOG_LEVEL", "off")

from tests.executor.test_two_processes import COMMON, free_port
from tsviz.api import open_trace
from tsviz.cli import model_peer, model_recording, model_setup, recording  # noqa: F401  loaded before nodes are forked
from tsviz.cli.main import main as tsviz
from tsviz.executor import engine, greeting, meeting, models, peer, wire  # noqa: F401
from tsviz.executor.device import ExecutorDevice
from tsviz.trace.layout import PART_FILE, part_directory
from tsviz.trace.reader import open_bundle
from tsviz.trace.writer import BundleWriter

WORKLOAD = "poisson:requests=12,rate=150"
MOST_LATER_S = 0.01
PATIENCE_S = 90.0
Step = Callable[[str], None]


class Node:
    """A node in a process of its own; `kill_at` is the step at which it dies, a little later."""

    def __init__(self, name: str, port: int, folder: Path, kill_at: int | None = None, later_s: float = 0.0) -> None:
        self.name, self.bundle, self.out = name, folder / name, folder / f"{name}.txt"
        where = ("--node", name, "--peer", f"127.0.0.1:{port}", "--out", str(self.bundle), "--workload", WORKLOAD)
        self.pid = os.fork()
        if self.pid == 0:
            _run([*COMMON, *where], self.out, kill_at, later_s)

    def end(self) -> int:
        """Wait for its end; return its exit code, negative for the signal that killed it."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"{self.name} hangs: {self.said[-300:]}")

    @property
    def said(self) -> str:
        """What it wrote to its terminal."""
        return self.out.read_text()

    @property
    def steps(self) -> list[str]:
        """The steps that it came to."""
        return re.findall(r"^step (.*)$", self.said, re.M)


def _run(arguments: list[str], out: Path, kill_at: int | None, later_s: float) -> None:
    """Be a node, and end with its exit code."""
    terminal = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(terminal, descriptor)
    taken: list[str] = []

    def step(what: str) -> None:
        os.write(1, f"step {what}\n".encode())
        taken.append(what)
        if len(taken) - 1 == kill_at:
            threading.Thread(target=_die, args=(later_s,), daemon=True).start()

    _count(step)
    code = 1
    try:
        tsviz(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        os._exit(code)


def _die(later_s: float) -> None:
    time.sleep(later_s)
    os.kill(os.getpid(), signal.SIGKILL)


def _count(step: Step) -> None:
    """Have a node tell its steps; who waits for it at the start is given less time than a person would."""
    meeting.CONNECT_SECONDS = 5.0

    def told(owner: Any, name: str, what: Callable[..., str | None]) -> None:
        before = getattr(owner, name)

        def after(*arguments: Any, **named: Any) -> Any:
            if (taken := what(*arguments)) is not None:
                step(taken)
            return before(*arguments, **named)

        setattr(owner, name, after)

    told(meeting, "listen", lambda *_: "listen")
    told(meeting, "connect", lambda *_: "connect")
    told(wire.Wire, "send", lambda _, head, *__: f"says {head['kind']}")
    told(wire.Wire, "_take", lambda _, frame: f"hears {frame.head['kind']}")
    told(ExecutorDevice, "execute", lambda _, __, planned: "computes" if planned.request_ids else None)
    told(ExecutorDevice, "land_remote", lambda *_: "lands")
    told(ExecutorDevice, "shutdown", lambda *_: "shuts down")
    told(BundleWriter, "close", lambda *_: "closes")


def killed(node: str, kill_at: int, later_s: float, folder: Path) -> tuple[str, str | None]:
    """Kill a node at a step; return which step that was and what is wrong with the other, None when nothing is."""
    port = free_port()
    nodes = {name: Node(name, port, folder, kill_at if name == node else None, later_s) for name in ("P", "D")}
    codes = {name: n.end() for name, n in nodes.items()}
    left = nodes["D" if node == "P" else "P"]
    steps = nodes[node].steps
    at = f"{node} {steps[kill_at]}" if kill_at < len(steps) else f"behind {node}'s end"
    if codes[node] not in (-signal.SIGKILL, 0):
        return at, f"{node} ended with {codes[node]}: {nodes[node].said[-300:]}"
    if codes[left.name] == 2 and not left.bundle.exists() and "--peer" in left.said:
        return at, None  # It never had a peer, says so, and wrote nothing.
    if codes[left.name]:
        return at, f"{left.name} ended with {codes[left.name]}: {left.said[-300:]}"
    return at, None


def wrong_with_traces(folder: Path, left: str) -> str | None:
    """Return what is wrong with the traces of a pair, one of whose nodes was killed; None when nothing is."""
    begun = {name: part_directory(folder / name, name, 0) / PART_FILE for name in ("P", "D")}
    bundles = [folder / name for name in ("P", "D") if begun[name].exists()]  # one may be killed before it has a part
    if (folder / left).exists():
        part = (open_bundle(folder / left).end or {})["parts"][f"{left}/0"]
        if part["live"] or part["reason"] != "drained":
            return f"{left} ended as {part['reason']} with {part['live']} live requests"
        if part["failed"] and "failed: " not in part["detail"]:
            return f"{left} does not say why {part['failed']} requests failed"
    if not bundles:
        return None
    try:
        rows = open_trace(*bundles).sql("SELECT node, count(*) AS rounds FROM rounds GROUP BY node").to_pylist()
    except Exception as error:
        return f"{[b.name for b in bundles]} do not open together: {type(error).__name__}: {error}"
    return None if {row["node"] for row in rows} <= {b.name for b in bundles} else f"traces of {rows}"


def _moments(steps: list[str], draw: random.Random) -> Iterator[int]:
    """Give steps without end: every kind before one comes again, each time another order and another one of a kind."""
    while True:
        kinds = sorted(set(steps))
        draw.shuffle(kinds)
        for kind in kinds:
            yield draw.choice([i for i, step in enumerate(steps) if step == kind])


def main() -> int:
    """Kill either side so many times in turn; 1 when the other did not free everything or a trace does not open."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw, wrong, seen = random.Random(options.seed), 0, Counter[str]()
    with tempfile.TemporaryDirectory() as root:
        os.environ["TSVIZ_CACHE"] = f"{root}/cache"
        whole = Path(root) / "whole"
        whole.mkdir()
        port = free_port()
        nodes = [Node(name, port, whole) for name in ("P", "D")]
        codes = [node.end() for node in nodes]
        if any(codes):
            print(*(node.said[-600:] for node in nodes), sep="\n")
            return 1
        steps = {node.name: node.steps for node in nodes}
        moments = {name: _moments(found, draw) for name, found in steps.items()}
        print(f"without a kill P comes to {len(steps['P'])} steps and D to {len(steps['D'])}")
        for i in range(options.times):
            node, folder = "PD"[i % 2], Path(root) / str(i)
            folder.mkdir()
            kill_at = next(moments[node])
            at, told = killed(node, kill_at, draw.uniform(0.0, MOST_LATER_S), folder)
            seen[at] += 1
            wrong += told is not None
            print(f"{i + 1}: {node} killed at step {kill_at}, {at}: {told or 'the other freed everything'}", flush=True)
        for i in range(options.times):  # now that no node is forked any more: reading traces starts threads
            left = "DP"[i % 2]
            if (told := wrong_with_traces(Path(root) / str(i), left)) is not None:
                wrong += 1
                print(f"{i + 1}: {told}")
    print(f"{options.times} kills, {wrong} wrong; at: " + ", ".join(f"{what} {n}" for what, n in seen.most_common()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
