"""What every test has: a silent oracle where it is installed, and a cache of its own instead of the user's."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from types import ModuleType

import pytest

from tsviz.adapters.tokenspeed import PackageMissing, load_real

os.environ.setdefault("SPDLOG_LEVEL", "off")
# Started in the background by a shell, everything below would ignore interrupts, which tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)
_CACHE = tempfile.mkdtemp(prefix="tsviz-tests-")
os.environ["TSVIZ_CACHE"] = _CACHE
atexit.register(shutil.rmtree, _CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def real() -> ModuleType:
    """The real scheduler package; a test that needs it is skipped where it is not installed."""
    try:
        return load_real()
    except PackageMissing as missing:
        pytest.skip(str(missing))
