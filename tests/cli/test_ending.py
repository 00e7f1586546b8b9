"""How every command ends when it is interrupted, and when nobody reads what it writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tsviz.cli import main as main_module

from .conftest import Tsviz

TRACES = Path(__file__).resolve().parents[2] / "traces"


def _put(monkeypatch: pytest.MonkeyPatch, command: click.Command) -> None:
    """Make `info` mean another command."""
    monkeypatch.setattr(main_module.LazyGroup, "get_command", lambda *_: command)


@pytest.mark.parametrize("follows", [RuntimeError("Query interrupted"), OSError(4, "interrupted"), None])
def test_what_an_interrupt_was_made_into_ends_with_130(
    tsviz: Tsviz, monkeypatch: pytest.MonkeyPatch, follows: Exception | None
) -> None:
    """An error that a library makes of ctrl-C ends with 130 and one word, as the interrupt itself does."""

    @click.command()
    def command() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            if follows is None:
                raise
            raise follows from None

    _put(monkeypatch, command)
    ended = tsviz("info")
    assert (ended.code, ended.out, ended.err.strip()) == (130, "", "interrupted")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_while_imports_run_ends_with_130(tmp_path: Path) -> None:
    """Ctrl-C while the command line itself is being imported ends with 130 and one word."""
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    ended = subprocess.run(
        [sys.executable, "-m", "tsviz", "info"], env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, cwd=TRACES.parent, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


def test_an_error_that_nobody_interrupted_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same error without ctrl-C is a fault, and is raised."""

    @click.command()
    def command() -> None:
        raise RuntimeError("Query interrupted")

    _put(monkeypatch, command)
    with pytest.raises(RuntimeError, match="Query interrupted"):
        main_module.main(["info"])


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["info", "--help"],
        ["info", str(TRACES / "head-of-line")],
        ["why", str(TRACES / "head-of-line"), "chat-2@8"],
        ["diff", str(TRACES / "head-of-line"), str(TRACES / "mixed-stall")],
        ["sql", str(TRACES / "head-of-line"), "FROM range(9)"],
    ],
    ids=["help", "command_help", "info", "why", "diff", "sql"],
)
def test_a_reader_that_has_left_ends_any_command_with_0(words: list[str], tmp_path: Path) -> None:
    """Where standard output is a pipe that nobody reads every command ends with 0, and without a traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = os.environ | {"TSVIZ_CACHE": str(tmp_path)}
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "tsviz", *words], stdout=writing, stderr=subprocess.PIPE, env=environment,
            cwd=TRACES.parent, timeout=120, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert ended.returncode == 0
    assert b"Traceback" not in ended.stderr
    assert b"BrokenPipe" not in ended.stderr
