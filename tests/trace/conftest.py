"""The real package as the recorded one; tests that need it are skipped where it is not installed."""

from __future__ import annotations

from types import ModuleType

import pytest

from tsviz.adapters.tokenspeed import PackageMissing, load_real


@pytest.fixture(scope="session")
def real() -> ModuleType:
    """The real scheduler package."""
    try:
        return load_real()
    except PackageMissing as missing:
        pytest.skip(str(missing))
