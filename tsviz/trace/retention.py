"""How long recordings of a folder stay: by age, by number, by size; for recordings that were made to go, and no other.

A recording that is made with limits holds them in `retention.json`, and only what has that file is ever removed:
nothing that is no bundle, that was recorded without limits, cut, repaired or unpacked from one, that is being recorded,
or that somebody put files of his own into. Taking the file away keeps a recording for ever. What went while a recording
was made stands in its own `retention.json`, which `info` tells.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import layout
from .catalogue import TABLES
from .errors import Full, TraceError
from .lock import ALIVE, LOCK_FILE, recorder_of

RETENTION_FILE = "retention.json"
SWEEP_SECONDS = 60.0
_TOLD = 100
"""So many removed recordings are named, the newest; of those before them there is a number."""
_UNITS_S = {"m": 60, "h": 3600, "d": 86400}
_UNITS_BYTES = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_LIMIT = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(m|h|d|KB|MB|GB|TB)?")
_TABLE = "|".join(TABLES)
_OURS = re.compile(
    rf"(?:bundle\.json|end\.json|stopped\.json|{re.escape(RETENTION_FILE)}|{re.escape(LOCK_FILE)}|"
    rf"parts/[A-Za-z0-9_-]{{1,64}}\.\d{{1,7}}/(?:part\.json|cold(?:\.draft)?/(?:manifest\.json|(?:{_TABLE})\.parquet)|"
    rf"hot/(?:commits\.jsonl|(?:{_TABLE})\.arrows)))"
)


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of a folder; None: no such limit. A recording that is being made counts, and is never removed."""

    bytes: int | None = None
    seconds: float | None = None
    count: int | None = None

    def values(self) -> dict[str, Any]:
        """Return the limits as JSON-able data."""
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Retention:
        """Return limits from what `values` gave. Raises KeyError."""
        return cls(values["bytes"], values["seconds"], values["count"])


@dataclass(frozen=True, slots=True)
class Removed:
    """A recording that is gone: where it was, its size, and which limit it was beyond."""

    path: Path
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Recording:
    path: Path
    bytes: int
    ended_s: float


def parse_retention(texts: Sequence[str]) -> Retention:
    """Return the limits that texts such as `10GB`, `7d`, `12h` or `20` (recordings) say. Raises ValueError."""
    found: dict[str, Any] = {}
    for text in texts:
        match = _LIMIT.fullmatch(text.strip())
        number, unit = (float(match[1]), match[2]) if match is not None else (0.0, None)
        if number <= 0 or (unit is None and number != int(number)):
            raise ValueError(
                f"expected a size such as 10GB, an age such as 7d, or a number of recordings, found {text!r}"
            )
        kind = "count" if unit is None else "seconds" if unit in _UNITS_S else "bytes"
        if kind in found:
            raise ValueError(f"expected one limit of each kind, found a second one: {text!r}")
        scale = 1 if unit is None else _UNITS_S.get(unit) or _UNITS_BYTES[unit]
        found[kind] = number * scale if kind == "seconds" else int(number * scale)
    return Retention(**found)


def sweep(folder: Path, limits: Retention, now_s: float | None = None) -> list[Removed]:
    """Remove what is beyond the limits, oldest first, of the recordings right in a folder; return what went."""
    now_s = time.time() if now_s is None else now_s
    kept_bytes, done = 0, list[_Recording]()
    count = 0
    for path in sorted(folder.iterdir()):
        if not _made_to_go(path):
            continue
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        kept_bytes, count = kept_bytes + size, count + 1
        if recorder_of(path) != ALIVE and (path / layout.BUNDLE_FILE).is_file():
            done.append(_Recording(path, size, _ended_s(path)))
    removed = []
    for old in sorted(done, key=lambda each: (each.ended_s, each.path)):
        reason = _beyond(limits, kept_bytes, count, now_s - old.ended_s)
        if reason and _remove(old.path):
            removed.append(Removed(old.path, old.bytes, reason))
            kept_bytes, count = kept_bytes - old.bytes, count - 1
    return removed


def _beyond(limits: Retention, total_bytes: int, count: int, age_s: float) -> str:
    if limits.seconds is not None and age_s > limits.seconds:
        return f"it ended {age_s / 3600:,.1f} h ago, more than {limits.seconds / 3600:,.1f} h"
    if limits.count is not None and count > limits.count:
        return f"there were {count:,} recordings, more than {limits.count:,}"
    if limits.bytes is not None and total_bytes > limits.bytes:
        return f"there were {total_bytes:,} bytes, more than {limits.bytes:,}"
    return ""


def _made_to_go(path: Path) -> bool:
    """Return whether a path is a recording that was made with limits, and holds nothing but what tsviz writes."""
    if path.is_symlink() or not (path / RETENTION_FILE).is_file():
        return False
    try:
        layout.read_json(path / RETENTION_FILE)
        layout.read_bundle_file(path)
    except (TraceError, OSError):
        return False
    names = [file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_symlink() or not file.is_dir()]
    return all(_OURS.fullmatch(name) for name in names)


def _ended_s(path: Path) -> float:
    """Return when anything was written to a recording last."""
    return max(file.stat().st_mtime for file in path.rglob("*") if file.is_file() and file.name != RETENTION_FILE)


def _remove(path: Path) -> bool:
    """Take a recording away: first out of sight, so that half of one never stands where it was."""
    gone = path.with_name(f".{path.name}.going")
    try:
        path.rename(gone)
    except OSError:
        return False
    with contextlib.suppress(OSError):
        shutil.rmtree(gone)
    return True


class Limits:
    """Holds the recordings beside one that is being written, and that one, within their limits."""

    def __init__(self, path: Path, limits: Retention | None) -> None:
        """Of the recording at `path`; None: no limits."""
        self._path, self._limits, self._swept = path, limits, float("-inf")
        self._removed: list[Removed] = []
        self._earlier = Counter[str]()

    def write(self) -> None:
        """Write `retention.json`: the limits, and what was removed, the newest one by one. Raises OSError."""
        if self._limits is None:
            return
        while len(self._removed) > _TOLD:
            oldest = self._removed.pop(0)
            self._earlier.update(recordings=1, bytes=oldest.bytes)
        told = [{"name": one.path.name, "bytes": one.bytes, "reason": one.reason} for one in self._removed]
        values = {**self._limits.values(), "removed": told, "removed_earlier": dict(self._earlier)}
        layout.write_json(self._path / RETENTION_FILE, values)

    def keep(self, now: float, written_bytes: int) -> None:
        """Remove old recordings, once a minute; `now` in monotonic seconds, infinite at the end.

        Raises Full when this one alone is as large as all may be.
        """
        limits = self._limits
        if limits is None:
            return
        if limits.bytes is not None and written_bytes > limits.bytes:
            raise Full(f"{written_bytes:,} bytes were recorded, and {limits.bytes:,} are all that is to be kept")
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            with contextlib.suppress(OSError):
                removed = sweep(self._path.parent, limits)
                self._removed += removed
                if removed:
                    self.write()


def removed_by(recording: Path) -> list[str]:
    """Return, in words, which recordings were removed while one was made; nothing where it has no limits.

    Raises `TraceError`.
    """
    path = recording / RETENTION_FILE
    if not path.is_file():
        return []
    values = layout.read_json(path)
    said = []
    if earlier := values.get("removed_earlier"):
        count = int(earlier["recordings"])
        said.append(f"{count:,} before them{'' if count == 1 else ', together'}, {int(earlier['bytes']):,} bytes")
    return [
        *said,
        *(f"{one['name']}, {int(one['bytes']):,} bytes: {one['reason']}" for one in values.get("removed", ())),
    ]
