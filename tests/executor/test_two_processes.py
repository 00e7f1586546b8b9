"""A prefill and a decode node in two processes over loopback, both recorded; one of them killed (section 5)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

from tests.executor.conftest import tsviz
from tsviz.trace.reader import open_bundle

ROOT = Path(__file__).resolve().parents[2]
COMMON = (
    "record", "--model", "tiny-state", "--scheduler", "twin", "--scale", "40", "--max-new", "undeclared",
    "--pages", "60", "--prefix-page", "8", "--chunk", "32", "--batch", "4", "--mode", "exact",
)  # fmt: skip
SHORT = "poisson:requests=6,rate=100"


def free_port() -> int:
    """Return a port that nobody listened on a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def start(node: str, port: int, out: Path, workload: str, *, layerwise: bool = False) -> subprocess.Popen[bytes]:
    """Start one node."""
    code = "from tsviz.cli.main import main; main()"
    where = ["--node", node, "--peer", f"127.0.0.1:{port}", "--workload", workload, "--out", str(out)]
    if layerwise and node == "P":
        where.append("--layerwise")
    return subprocess.Popen(
        [sys.executable, "-c", code, *COMMON, *where], cwd=ROOT, env={**os.environ, "SPDLOG_LEVEL": "off"},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def output_of(bundle: Path, node: str) -> dict[str, list[int]]:
    """Return, per request, the tokens that its results brought."""
    said: dict[str, list[int]] = {}
    for row in open_bundle(bundle).part(node, 0).table("events").to_pylist():
        if row["kind"] == "extend_result":
            said.setdefault(row["request"], []).extend(row["tokens"])
        elif row["kind"] == "remote_prefill_done":
            said.setdefault(row["request"], []).append(row["value"])
    return said


def test_two_processes_say_what_one_engine_says(tmp_path) -> None:
    """The tokens of the decode node's trace are those of a fused run; both traces verify and are queried together.

    Pages go layer by layer here, and whole where a node is killed.
    """
    port = free_port()
    nodes = [start(node, port, tmp_path / node, SHORT, layerwise=True) for node in ("P", "D")]
    for process in nodes:
        _, err = process.communicate(timeout=90)
        assert process.returncode == 0, err.decode()
    sent = open_bundle(tmp_path / "P").part("P", 0).table("device_ops").to_pylist()
    assert {op["layer"] for op in sent if op["kind"] == "send"} == {0, 1, 2}
    assert tsviz(*COMMON, "--workload", SHORT, "--out", tmp_path / "F") == 0
    assert output_of(tmp_path / "D", "D") == output_of(tmp_path / "F", "F")
    for node in ("P", "D"):
        assert tsviz("verify", tmp_path / node) == 0
    assert tsviz("sql", tmp_path / "P", tmp_path / "D", "SELECT node, count(*) FROM rounds GROUP BY node") == 0


@pytest.mark.timeout(300)
def test_when_a_node_is_killed_the_other_frees_everything() -> None:
    """At ten random moments of either: the other drains and says why requests failed; both traces open together."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.executor.kills", "--times", "10", "--seed", "6"],
        cwd=ROOT, env={**os.environ, "SPDLOG_LEVEL": "off"}, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 kills, 0 wrong" in done.stdout
