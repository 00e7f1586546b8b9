"""A trace that makes the real package end its process: the command stays, says where it was, and hears ctrl-C."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conformance.fatal import SURPLUS
from tsviz.adapters.tokenspeed import RULE_SET, recording_module
from tsviz.scheduler import compat
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.writer import BundleWriter

from .conftest import Tsviz

ROOT = Path(__file__).resolve().parents[2]
_HANGING = """
import sys, time
from tsviz.scheduler.compat import *
from tsviz.scheduler import compat

class Scheduler(compat.Scheduler):
    def next_execution_plan(self):
        print("planning", file=sys.stderr, flush=True)
        time.sleep(600)
"""
"""A package that never answers."""


def crafted(path: Path, name: str) -> Path:
    """Record a lifetime on the twin, which lives on where the real package ends its process."""
    clock = itertools.count(1_000, 7)
    writer = BundleWriter(path, meta={})
    recorded = recording_module(
        compat,
        lambda config: writer.recorder(
            node="N", rank=0, config=describe_config(config),
            engine={"name": "tokenspeed-scheduler", "version": "0.1.24"}, event_reader=event_reader(compat),
            now_ns=lambda: next(clock), clock="virtual", rule_set=RULE_SET,
        ),
    )  # fmt: skip
    with suppress(RuntimeError):
        SURPLUS[name](recorded)
    writer.close({"error": None})
    return path


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "calls", "round_"),
    [
        ("result-prefill-done", "submit advance plan advance advance", 2),
        ("result-decoding", "submit advance plan advance plan advance advance", 3),
    ],
)
def test_the_call_at_which_the_package_died_is_named(
    tsviz: Tsviz, tmp_path: Path, name: str, calls: str, round_: int
) -> None:
    """The last call of the trace has no answer: its number, kind and round are said, with code 3 and no row."""
    pytest.importorskip("tokenspeed_scheduler")
    trace = crafted(tmp_path / "trace", name)
    made = tsviz("sql", trace, "select string_agg(kind, ' ' order by seq) k from calls", "--format", "json").json()
    assert made == [{"k": calls}]
    ended = tsviz("verify", trace, "--with", "real")
    assert (ended.code, ended.out) == (3, "")
    last = len(calls.split()) - 1
    assert f"call {last} (advance) of round {round_}: expected an answer" in ended.err
    assert "ended its process (SIGABRT)" in ended.err
    assert tsviz("verify", trace, "--with", "twin").code == 0


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A verification whose package is in a call from which it does not come back."""
    trace = crafted(tmp_path / "trace", "result-prefill-done")
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "tokenspeed_scheduler.py").write_text(_HANGING)
    places = os.pathsep.join((str(tmp_path / "packages"), str(ROOT)))
    process = subprocess.Popen(
        [sys.executable, "-m", "tsviz", "verify", str(trace), "--with", "real"], cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": places}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline() == "planning\n"
    yield process
    process.kill()
    process.wait()


def test_ctrl_c_ends_a_package_that_never_answers(waiting: subprocess.Popen[str]) -> None:
    """Ctrl-C reaches the sheltered process: code 130 and the word."""
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate()
    assert (waiting.returncode, out, err.strip()) == (130, "", "interrupted")


def test_the_shelter_goes_with_its_command(waiting: subprocess.Popen[str]) -> None:
    """When the command is killed the sheltered process ends too: nobody holds its standard error any more."""
    waiting.kill()
    assert waiting.stderr is not None
    assert waiting.stderr.read() == ""
