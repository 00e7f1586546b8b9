"""The two implementations under comparison, each bound by name or refused with a plain reason.

``real`` is the published package (the oracle); ``twin`` is this project's drop-in replacement of it.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from types import ModuleType

# The oracle's logger writes to standard output; it reads this once, when it is imported.
os.environ.setdefault("SPDLOG_LEVEL", "off")

IMPORT_NAMES = {"real": "tokenspeed_scheduler", "twin": "tsviz.scheduler.compat"}


@dataclass(frozen=True, slots=True)
class Missing:
    """An implementation that cannot be imported here, and why."""

    name: str
    reason: str


def load(name: str) -> ModuleType | Missing:
    """Return the implementation called ``name`` (a key of ``IMPORT_NAMES``), or why it is absent."""
    target = IMPORT_NAMES[name]
    try:
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{target}.".startswith(f"{error.name}."):
            raise  # it is there, and broken: that must not read as absent
        return Missing(name, f"{name} scheduler absent: import {target}: {error}")
