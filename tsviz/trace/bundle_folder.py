"""The folder of a bundle that is being written, or of a ring: its description, its lock, its limits and its end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import layout
from .endings import say_stopped
from .errors import CannotRecord
from .lock import RecordingLock
from .retention import Limits, Retention
from .ring import RingOptions


class BundleFolder:
    """What stands beside the parts of one recording."""

    def __init__(
        self, path: Path, meta: Mapping[str, Any], tokens: str, ring: RingOptions | None, retention: Retention | None,
        *, made: bool, now_ns: Callable[[], int],
    ) -> None:  # fmt: skip
        """Make the folder, or take the one that was `made` for this recording, and the lock of who records.

        `now_ns` is the clock of the times that are recorded, which the anchor puts on the one on the wall.

        Raises CannotRecord when the path is taken or cannot be made.
        """
        self.path, self._ring = path, ring
        self.limits = Limits(path, retention)
        self._said: dict[str, Any] = {} if ring is None else {"ring": ring.values()}
        self._names: list[dict[str, Any]] = []
        try:
            if not made:
                check_free(path)
            anchor = {"wall_ns": time.time_ns(), "monotonic_ns": now_ns()}
            self._said |= {
                "format": layout.FORMAT, "schema": layout.schema_version(), "tokens": tokens, "clock_anchor": anchor,
                "meta": dict(meta),
            }  # fmt: skip
            self._describe()
            self.limits.write()
            self._lock = RecordingLock(path)
        except OSError as error:
            with contextlib.suppress(OSError):  # only what is empty
                path.rmdir()
            raise CannotRecord(f"{path}: cannot be written: {error.strerror}") from error

    def _describe(self) -> None:
        name = layout.BUNDLE_FILE if self._ring is None else layout.RING_FILE
        layout.write_json(self.path / name, {**self._said, "parts": self._names})

    def add(self, node: str, rank: int) -> None:
        """Name a part. Raises OSError."""
        self._names.append({"node": node, "rank": rank})
        self._describe()

    def stopped(self, error: BaseException, *, hangs: bool) -> None:
        """Say why recording had to stop; `hangs`: the disk does, so that nobody waits for it."""
        if hangs:
            threading.Thread(target=say_stopped, args=(self.path, error), daemon=True).start()
        else:
            say_stopped(self.path, error)

    def end(self, end: Mapping[str, Any]) -> None:
        """Close the bundle, and let go of the lock. Raises OSError."""
        layout.write_json(self.path / layout.END_FILE, dict(end))
        self._lock.release()

    def abandon(self) -> None:
        """Let go of the lock of what was not closed, or is a parent's."""
        self._lock.abandon()


def check_free(path: Path) -> None:
    """Make the directory of a new bundle. Raises CannotRecord when something is there already, OSError."""
    if shown := layout.not_utf8(path):
        raise CannotRecord(f"{shown}: expected names in UTF-8, which Arrow needs, found bytes that are none")
    if (outer := layout.enclosing_bundle(path.parent)) is not None:
        raise CannotRecord(f"{path}: expected a path outside every bundle, found the bundle {outer}")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise CannotRecord(f"{path}: expected a path that is free, found a file or a directory with content")
    path.mkdir(parents=True, exist_ok=True)
