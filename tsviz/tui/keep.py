"""What the user's own folders keep: notes, watches and old queries by trace, and the keys they chose.

The one place of this room that writes files. State is never read from a bundle (architecture.md, section 7), and what
is found damaged is told and not overwritten.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LIMIT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class NotKept:
    """Why something could not be read or written, in words: of what is read the name first, the whole path behind."""

    reason: str
    path: str = ""

    def unread(self, what: str) -> str:
        """Return the sentence for what is neither read nor written over (`notes are`), and what to do."""
        return f"{self.reason}: {what} not read and not kept; mend or delete it ({self.path})"


def state_directory() -> Path:
    """Return the folder of what was noted: `TSVIZ_STATE`, or `tsviz` in the user's state folder."""
    return _directory("TSVIZ_STATE", "XDG_STATE_HOME", Path(".local") / "state")


def config_directory() -> Path:
    """Return the folder of what the user chose: `TSVIZ_CONFIG`, or `tsviz` in the user's configuration folder."""
    return _directory("TSVIZ_CONFIG", "XDG_CONFIG_HOME", Path(".config"))


def _directory(variable: str, xdg: str, below_home: Path) -> Path:
    if chosen := os.environ.get(variable):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "tsviz"
    return Path(os.environ.get(xdg) or Path.home() / below_home) / "tsviz"


def of_trace(key: str, name: str) -> Path:
    """Return where `name` of the trace with this key is kept."""
    return state_directory() / "traces" / key / f"{name}.json"


def read(path: Path) -> Any:
    """Return what a file keeps, None where there is none, `NotKept` where it is damaged."""
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return NotKept(f"{path.name} cannot be read ({error.strerror or error})", str(path))
    if len(data) > _LIMIT_BYTES:
        return NotKept(f"{path.name} has more than {_LIMIT_BYTES:,} bytes", str(path))
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return NotKept(f"{path.name} is damaged", str(path))


def write(path: Path, value: Any) -> NotKept | None:
    """Keep plain values in a file that only its owner reads; a reader sees the old ones or the new ones, never half."""
    draft = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, draft = tempfile.mkstemp(prefix=".draft-", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            json.dump(value, file, ensure_ascii=False, indent=1)
        Path(draft).replace(path)
    except OSError as error:
        if draft:
            Path(draft).unlink(missing_ok=True)
        return NotKept(f"{path}: {error.strerror or error}")
    return None
