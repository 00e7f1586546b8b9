"""Which scheduler a command means by `real` and `twin`."""

from __future__ import annotations

import importlib
from typing import Any

from .exit_codes import CliError, ExitCode

NAMES = ("real", "twin")


class SchedulerMissing(CliError):
    """The scheduler that a command needs is not installed."""


def load_scheduler(name: str) -> Any:
    """Return the module with the scheduler API: the real package, or our twin of it. Raises `SchedulerMissing`."""
    if name == "twin":
        try:
            return importlib.import_module("tsviz.scheduler.compat")
        except ImportError:
            raise SchedulerMissing(
                ExitCode.USAGE, "the twin is not part of this version of tsviz; use 'real'"
            ) from None
    from tsviz.adapters.tokenspeed import PackageMissing, load_real

    try:
        return load_real()
    except PackageMissing as error:
        raise SchedulerMissing(ExitCode.USAGE, str(error)) from error
