"""The installed command on a pseudo-terminal: start, step, quit; sizes; no terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Tsviz

pytestmark = pytest.mark.oracle

PATIENCE_SECONDS = 30.0
_ESCAPES = re.compile(rb"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[=>()][0-9A-Z]?")


class Terminal:
    """A process on a pseudo-terminal of a size."""

    def __init__(
        self, arguments: list[str], columns: int, rows: int, term: str = "xterm-256color", *, shell: bool = False
    ) -> None:
        """Run `tsviz` with arguments; `shell` runs an interactive shell instead, which controls the terminal."""
        self.master, slave = pty.openpty()
        self.resize(columns, rows)
        environment = os.environ | {"TERM": term, "COLORTERM": "truecolor", "PS1": "ready> "}
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"] if shell else [sys.executable, "-m", "tsviz", *arguments],
            stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
            preexec_fn=_control_terminal if shell else None,
        )  # fmt: skip
        os.close(slave)
        self.seen = b""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, text: str) -> None:
        """Read until `text` was on the screen since the last call."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            if text.encode() in _ESCAPES.sub(b"", self.seen):
                self.seen = b""
                return
            if not self._read(0.2) and self.process.poll() is not None:
                break
        raise AssertionError(f"{text!r} did not appear; last: {_ESCAPES.sub(b'', self.seen)[-2000:]!r}")

    def _read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            self.seen += os.read(self.master, 65536)
        except OSError:
            return False
        return True

    def send(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self) -> int:
        """Wait for the process to end and return its code."""
        until = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None and time.monotonic() < until:
            self._read(0.1)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError("the process did not end")
        return self.process.returncode


def _control_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    """Terminals whose processes are ended whatever happens."""
    made: list[Terminal] = []
    yield made
    for terminal in made:
        if terminal.process.poll() is None:
            os.killpg(terminal.process.pid, signal.SIGKILL)
        terminal.process.wait()
        os.close(terminal.master)


def test_a_trace_is_opened_stepped_and_left(recorded: Path, terminals: list[Terminal]) -> None:
    """`open TRACE@7` shows round 7; n and p step; ctrl+q ends with code 0."""
    terminal = Terminal(["open", f"{recorded}@7"], 120, 40)
    terminals.append(terminal)
    terminal.wait_for("7 of")
    terminal.send("n")
    terminal.wait_for("8")
    terminal.send("pp")
    terminal.wait_for("6")
    terminal.send("\x11")
    assert terminal.end() == 0


def test_every_size_has_a_screen(recorded: Path, terminals: list[Terminal]) -> None:
    """From 120x40 down to 20x5, which is said kindly, and back up, the screen lives."""
    terminal = Terminal(["open", str(recorded)], 120, 40)
    terminals.append(terminal)
    terminal.wait_for("Requests")
    for columns, rows in ((80, 24), (20, 5), (1, 1), (300, 80), (120, 40)):
        terminal.resize(columns, rows)
        time.sleep(0.3)
    terminal.seen = b""
    terminal.send("n")
    terminal.wait_for("2")
    terminal.send("\x11")
    assert terminal.end() == 0


def test_it_is_suspended_and_comes_back(recorded: Path, terminals: list[Terminal]) -> None:
    """Under a shell ctrl+z gives the terminal back (the shell says Stopped); `fg` draws all again, and keys work."""
    terminal = Terminal([], 120, 40, shell=True)
    terminals.append(terminal)
    terminal.wait_for("ready>")
    terminal.send(f"{shlex.quote(sys.executable)} -m tsviz open {shlex.quote(str(recorded))}@7\n")
    terminal.wait_for("7 of")
    terminal.send("\x1a")
    terminal.wait_for("Stopped")
    terminal.send("echo back-in-the-$((1+1))-shell\n")
    terminal.wait_for("back-in-the-2-shell")
    terminal.send("fg\n")
    terminal.wait_for("Inspector")
    terminal.send("n")
    terminal.wait_for("8")
    terminal.send("\x11")
    terminal.wait_for("ready>")
    terminal.send("exit $?\n")
    assert terminal.end() == 0


def test_without_a_terminal_open_says_so(tsviz: Tsviz, recorded: Path) -> None:
    """`open` without a terminal is a usage error that names the commands which need none."""
    ended = tsviz("open", recorded)
    assert ended.code == 2
    assert "terminal" in ended.err


def test_a_terminal_without_a_cursor_is_told(recorded: Path, terminals: list[Terminal]) -> None:
    """TERM=dumb ends with code 2 and says what is missing."""
    terminal = Terminal(["open", str(recorded)], 80, 24, term="dumb")
    terminals.append(terminal)
    terminal.wait_for("cannot move a cursor")
    assert terminal.end() == 2


def test_a_reader_that_leaves_is_no_error(recorded: Path) -> None:
    """`tsviz sql ... | head -1` ends quietly when the reader has left."""
    query = "select o.* from operations o, range(200)"
    command = f"{sys.executable} -m tsviz sql {recorded} '{query}' --limit 0 --format csv | head -1"
    ended = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout.startswith("trace,node,rank,round")
    assert ended.stderr == ""
    assert ended.returncode == 0


def test_interrupting_a_recording_leaves_it_complete(tsviz: Tsviz, tmp_path: Path) -> None:
    """Ctrl-C ends the run behind the current round with code 130; what was recorded verifies."""
    out = tmp_path / "stopped"
    workload = "poisson:requests=4000,rate=200,prompt_tokens=200,output_tokens=200"
    process = subprocess.Popen(
        [sys.executable, "-m", "tsviz", "record", "--workload", workload, "--out", str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    until = time.monotonic() + PATIENCE_SECONDS
    commits = out / "parts" / "F.0" / "hot" / "commits.jsonl"
    while not (commits.exists() and commits.stat().st_size) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert tsviz("info", out, "--format", "json").json()["parts"][0]["ended"] == "stopped"
    assert tsviz("verify", out).code == 0


def test_a_killed_recording_loses_at_most_its_last_flush(tsviz: Tsviz, tmp_path: Path) -> None:
    """`kill -9` leaves a bundle that opens, says that it was not closed, and verifies up to its last commit."""
    out = tmp_path / "killed"
    workload = "poisson:requests=4000,rate=200,prompt_tokens=200,output_tokens=200"
    process = subprocess.Popen(
        [sys.executable, "-m", "tsviz", "record", "--workload", workload, "--out", str(out)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    commits = out / "parts" / "F.0" / "hot" / "commits.jsonl"
    until = time.monotonic() + PATIENCE_SECONDS
    while not (commits.exists() and commits.read_bytes().count(b"\n") >= 2) and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.wait()
    view = tsviz("info", out, "--format", "json").json()
    assert "not closed" in view["warnings"][0]
    (part,) = tsviz("verify", out, "--format", "json").json()
    assert part["outcome"] == "equal"
    assert part["verified_rounds"] == part["recorded_rounds"] == view["parts"][0]["rounds"] > 0
