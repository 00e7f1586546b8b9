"""A folder that is filled out of sight and moved into place when it is whole; what a killed process left is removed.

The process that fills a draft holds a lock on it, which ends with the process however that ends. So a draft that
nobody holds is nobody's, and the next one to make a draft in the same folder takes it away.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HELD = "tsviz-held-"
_LOCKLESS_SECONDS = 3600.0
"""Drafts without a lock, of an earlier version or caught between their making and their lock, go after this time."""

_FILLED: set[Path] = set()
"""Drafts that this process fills."""


@contextmanager
def draft(folder: Path, prefix: str, *, own: bool = False) -> Iterator[Path]:
    """Give an empty folder in `folder`, which must exist; gone when the block is left, unless it was moved away.

    Drafts of the same prefix that no process holds any more are removed first. `own`: nobody but tsviz names anything
    in `folder`, so that old folders of the prefix are drafts even without a lock. Raises OSError.
    """
    sweep(folder, prefix, own=own)
    made = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
    path = made
    holder = os.open(made, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        path = made.rename(folder / f"{prefix}{_HELD}{made.name.removeprefix(prefix)}")
        _FILLED.add(path)
        yield path
    finally:
        _FILLED.discard(path)
        shutil.rmtree(path, ignore_errors=True)
        os.close(holder)


def abandon() -> None:
    """Remove the drafts that this process fills: for a process that ends as it stands, from another of its threads."""
    for path in list(_FILLED):
        shutil.rmtree(path, ignore_errors=True)


def sweep(folder: Path, prefix: str, *, own: bool) -> None:
    """Remove the drafts that nobody holds; one that cannot be looked at, or goes meanwhile, is left alone.

    `own` as for `draft`. Raises OSError.
    """
    for path in folder.iterdir():
        held = path.name.startswith(prefix + _HELD)
        if not held and not (own and path.name.startswith(prefix)):
            continue
        try:
            if not path.is_symlink() and path.is_dir() and _abandoned(path, held=held):
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue


def _abandoned(path: Path, *, held: bool) -> bool:
    found = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(found)
    return held or time.time() - path.stat().st_mtime > _LOCKLESS_SECONDS
