"""Shared between the tests of the executor."""

from __future__ import annotations

import os
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def real_scheduler() -> ModuleType:
    """The real package, silenced."""
    os.environ.setdefault("SPDLOG_LEVEL", "off")
    return pytest.importorskip("tokenspeed_scheduler", reason="the real scheduler is not installed")
