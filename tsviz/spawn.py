"""Starting this very Python again: a process that imports what this one imports."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def python_command(module: str) -> list[str]:
    """Return the command that runs a module of ours, without the current folder among the places of imports."""
    return [sys.executable, "-P", "-X", "utf8", "-m", module]


def python_environment() -> dict[str, str]:
    """Return the environment in which it finds the same packages as this process."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)}
