"""Where the reference aborts its process the twin raises, or carries on, and stays usable."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conformance.fatal import EVENTS, SURPLUS
from tests.conformance.notation import Drive, full

_ROOT = Path(__file__).resolve().parents[2]


def _dedicated_errors() -> tuple[type[Exception], ...]:
    errors = importlib.import_module("tsviz.scheduler.errors")
    return tuple(value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception))


@pytest.mark.oracle
@pytest.mark.parametrize("name", [*SURPLUS, *EVENTS])
def test_the_reference_aborts(real: ModuleType, name: str) -> None:
    """The scenario ends the reference's process by SIGABRT."""
    assert real is not None
    command = [sys.executable, "-m", "tests.conformance.fatal", name]
    environment = {**os.environ, "SPDLOG_LEVEL": "off"}
    ended = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, check=False, timeout=60)
    assert ended.returncode == -signal.SIGABRT, ended.stderr.decode()


@pytest.mark.parametrize("name", SURPLUS)
def test_the_twin_refuses_a_surplus_result(twin: ModuleType, name: str) -> None:
    """A result with nothing in flight raises one of the twin's own errors."""
    with pytest.raises(_dedicated_errors()):
        SURPLUS[name](twin)


def test_the_twin_goes_on_after_a_surplus_result(twin: ModuleType) -> None:
    """The refused result changes nothing: the next plan decodes as if it had not come."""
    drive = Drive(twin, [full(2)], page=2, pages=33)
    drive.submit("a", 3)
    drive.round()
    size = drive.scheduler.request_token_size("a")
    with pytest.raises(_dedicated_errors()):
        drive.event("ExtendResult", "a", [1])
    assert drive.scheduler.request_token_size("a") == size
    assert drive.plan().rows == "a:D[1/3]@1"


@pytest.mark.parametrize("name", EVENTS)
def test_the_twin_publishes_without_a_descriptor(twin: ModuleType, name: str) -> None:
    """With events on, the plan is the one that both make with events off."""
    assert EVENTS[name](twin) == EVENTS[name](twin, events=False)
