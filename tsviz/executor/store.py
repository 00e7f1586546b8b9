"""The storage tier in files (`executor-rules.md` section 6, *File-backed store*).

`<root>/<namespace>/<hh>/<key>`; a file is written aside, synced and linked into place, which only the first can do. A
page whose length, checksum or layout is not what it should be is a miss, and so is one that cannot be read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import struct
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tsviz.engine.faults import seeded_unit
from tsviz.engine.port import StorageKey
from tsviz.executor.layout import GroupLayout

_HEADER = struct.Struct("<8sQI32s")
_MAGIC = b"tsvpage1"


class StorageFailed(RuntimeError):
    """A page could not be put, however often it was tried; names its file and why. The engine ends."""


class StoredPage(NamedTuple):
    """A page that goes into storage once its copy to the host has ended."""

    key: StorageKey
    group: GroupLayout
    host_page: int


@dataclass(frozen=True, slots=True)
class StoreFaults:
    """Accidents with these seeded probabilities: a page is gone, cut short or an error at its first read; the disk has
    no room at the first attempt to put it."""

    seed: int = 0
    vanish_rate: float = 0.0
    truncate_rate: float = 0.0
    raise_rate: float = 0.0
    failed_put_rate: float = 0.0

    def has(self, what: str, rate: float, key: StorageKey) -> bool:
        """Return whether this happens to a page."""
        return seeded_unit(self.seed, what, *key) < rate


class PageStore:
    """Pages by key, of one namespace. Asking never raises; reads and puts may be made from two threads."""

    def __init__(self, root: Path, namespace: str, signature: str, faults: StoreFaults | None = None) -> None:
        """Open a namespace of a store; `namespace` must change with everything that changes bytes."""
        self._root = root / hashlib.sha256(namespace.encode()).hexdigest()[:16]
        self._signature = hashlib.sha256(signature.encode()).digest()
        self._faults = faults or StoreFaults()
        self._safe: set[StorageKey] = set()
        self._tried: set[StorageKey] = set()

    def check(self) -> None:
        """Write, link and remove a file where pages go. Raises OSError."""
        self._root.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._root)
        os.close(handle)
        aside, linked = Path(name), Path(f"{name}.linked")
        try:
            os.link(aside, linked)
            linked.unlink()
        finally:
            aside.unlink()

    def batch_exists(self, keys: Sequence[StorageKey]) -> list[bool]:
        """Return which pages are there; an error is a miss."""
        return [self._exists(key) for key in keys]

    def batch_get(self, keys: Sequence[StorageKey]) -> list[bytes | None]:
        """Return the pages, None for what is missing, not whole, or cannot be read."""
        return [self._read(key) for key in keys]

    def put(self, key: StorageKey, data: bytes, *, anew: bool = False) -> None:
        """Write a page unless it is there; with `anew` in place of one that was a miss. Raises OSError."""
        path = self.path(key)
        if key not in self._tried and self._faults.has("put", self._faults.failed_put_rate, key):
            self._tried.add(key)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if anew:
            self._safe.add(key)
            path.unlink(missing_ok=True)
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        header = _HEADER.pack(_MAGIC, len(data), zlib.crc32(data), self._signature)
        handle, aside = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(header + data)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
        finally:
            Path(aside).unlink()

    def path(self, key: StorageKey) -> Path:
        """Return where a page lies."""
        name = f"{key.content_hash}-{key.group_id}-{key.page_offset}"
        return self._root / key.content_hash[:2] / name

    def _exists(self, key: StorageKey) -> bool:
        try:
            self.path(key).stat()
        except OSError:
            return False
        return True

    def _read(self, key: StorageKey) -> bytes | None:
        faults, is_safe = self._faults, key in self._safe
        try:
            if not is_safe and faults.has("raise", faults.raise_rate, key):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            content = self.path(key).read_bytes()
        except OSError:
            return None
        if not is_safe and faults.has("vanish", faults.vanish_rate, key):
            return None
        if not is_safe and faults.has("truncate", faults.truncate_rate, key):
            content = content[:-1]
        if len(content) < _HEADER.size:
            return None
        magic, length, checksum, signature = _HEADER.unpack_from(content)
        data = content[_HEADER.size :]
        if (magic, length, signature, checksum) != (_MAGIC, len(data), self._signature, zlib.crc32(data)):
            return None
        self._safe.add(key)
        return data
