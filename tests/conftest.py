"""What every test has: a silent oracle where it is installed, and a cache of its own instead of the user's."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from types import ModuleType

import pytest

from tsviz.adapters.tokenspeed import PackageMissing, load_real

os.environ.setdefault("SPDLOG_LEVEL", "off")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes are started, which would compile everything
# Started in the background by a shell, everything below would ignore interrupts, which tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)
_CACHE = tempfile.mkdtemp(prefix="tsviz-tests-")
os.environ["TSVIZ_CACHE"] = _CACHE
atexit.register(shutil.rmtree, _CACHE, ignore_errors=True)
_SHARED = "TSVIZ_TESTS_INDEXES"
if _SHARED not in os.environ:  # made by the process that starts the others, which have it from there
    os.environ[_SHARED] = tempfile.mkdtemp(prefix="tsviz-indexes-")
    atexit.register(shutil.rmtree, os.environ[_SHARED], ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def nothing_ends_the_process_of_the_tests() -> Iterator[None]:
    """Let what would end this process at once fail its test: else those behind it were not run, and nobody said so."""
    here, leave = os.getpid(), os._exit

    def refuse(code: int) -> None:
        if os.getpid() != here:  # a child of this one may
            leave(code)
        raise AssertionError(f"os._exit({code}) in the process that runs the tests")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "_exit", refuse)
        yield


@pytest.fixture(scope="session")
def indexes_of_shipped_traces() -> str:
    """The folder in which indexes of traces that ship are kept for all tests, whichever process runs them."""
    return os.environ[_SHARED]


@pytest.fixture(scope="module")
def shared_indexes(indexes_of_shipped_traces: str) -> Iterator[None]:
    """Have a module's indexes kept in that folder: what it asks must not depend on whether one is there already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TSVIZ_CACHE", indexes_of_shipped_traces)
        yield


@pytest.fixture(scope="session")
def real() -> ModuleType:
    """The real scheduler package; a test that needs it is skipped where it is not installed."""
    try:
        return load_real()
    except PackageMissing as missing:
        pytest.skip(str(missing))
