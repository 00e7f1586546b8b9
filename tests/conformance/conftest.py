"""Fixtures that hand a test one implementation, or both, and skip it plainly where one is absent."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.conformance.modules import IMPORT_NAMES, Missing, load


def require(name: str) -> ModuleType:
    """The implementation called ``name``; skips the running test with the reason when it is absent."""
    found = load(name)
    if isinstance(found, Missing):
        pytest.skip(found.reason)
    return found


_MARKS = {"real": [pytest.mark.oracle], "twin": []}


@pytest.fixture(params=[pytest.param(name, marks=_MARKS[name]) for name in sorted(IMPORT_NAMES)])
def module(request: pytest.FixtureRequest) -> ModuleType:
    """Each implementation in turn."""
    return require(request.param)


@pytest.fixture
def real() -> ModuleType:
    """The real package."""
    return require("real")


@pytest.fixture
def twin() -> ModuleType:
    """The Python twin."""
    return require("twin")
