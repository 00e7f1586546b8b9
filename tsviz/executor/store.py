"""The storage tier in files (`executor-rules.md` section 6, *File-backed store*).

`<root>/<namespace>/<hh>/<key>`; a file is written aside, synced and linked into place, which only the first can do. A
page whose length, checksum or layout is not what it should be is a miss.
"""

from __future__ import annotations

import contextlib
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


class StoredPage(NamedTuple):
    """A page that goes into storage once its copy to the host has ended."""

    key: StorageKey
    group: GroupLayout
    host_page: int


@dataclass(frozen=True, slots=True)
class StoreFaults:
    """Accidents: a page is gone, or cut short, at its first read, with these seeded probabilities."""

    seed: int = 0
    vanish_rate: float = 0.0
    truncate_rate: float = 0.0


class PageStore:
    """Pages by key; a key that was missed counts as absent until it is put anew."""

    def __init__(self, root: Path, namespace: str, signature: str, faults: StoreFaults | None = None) -> None:
        """Open a namespace of a store; `namespace` must change with everything that changes bytes."""
        self._root = root / hashlib.sha256(namespace.encode()).hexdigest()[:16]
        self._signature = hashlib.sha256(signature.encode()).digest()
        self._faults = faults or StoreFaults()
        self._gone: set[StorageKey] = set()
        self._safe: set[StorageKey] = set()

    def batch_exists(self, keys: Sequence[StorageKey]) -> list[bool]:
        """Return which pages are there; an error is a miss."""
        return [key not in self._gone and self._path(key).exists() for key in keys]

    def batch_get(self, keys: Sequence[StorageKey]) -> list[bytes | None]:
        """Return the pages, None for what is missing or not whole."""
        out = []
        for key in keys:
            data = self._read(key)
            if data is None:
                self._gone.add(key)
            else:
                self._safe.add(key)
            out.append(data)
        return out

    def put(self, key: StorageKey, data: bytes) -> None:
        """Write a page unless it is there. Raises OSError."""
        path = self._path(key)
        if key in self._gone:
            self._gone.discard(key)
            self._safe.add(key)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
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

    def _read(self, key: StorageKey) -> bytes | None:
        if key in self._gone:
            return None
        faults = self._faults
        if key not in self._safe and seeded_unit(faults.seed, "vanish", *key) < faults.vanish_rate:
            return None
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        if key not in self._safe and seeded_unit(faults.seed, "truncate", *key) < faults.truncate_rate:
            content = content[:-1]
        if len(content) < _HEADER.size:
            return None
        magic, length, checksum, signature = _HEADER.unpack_from(content)
        data = content[_HEADER.size :]
        whole = magic == _MAGIC and length == len(data) and signature == self._signature
        return data if whole and zlib.crc32(data) == checksum else None

    def _path(self, key: StorageKey) -> Path:
        name = f"{key.content_hash}-{key.group_id}-{key.page_offset}"
        return self._root / key.content_hash[:2] / name
