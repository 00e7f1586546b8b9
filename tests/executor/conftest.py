"""Shared between the tests of the executor."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest

from tsviz.cli.main import main

os.environ["SPDLOG_LEVEL"] = "off"
os.environ["TRITON_INTERPRET"] = "1"  # asked when it is imported, by whomever


def tsviz(*arguments: str | Path) -> int:
    """Run a command in this process; return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    return int(ended.value.code or 0)


@pytest.fixture(scope="session")
def real_scheduler() -> ModuleType:
    """The real package, silenced."""
    return pytest.importorskip("tokenspeed_scheduler", reason="the real scheduler is not installed")
