"""A bundle as one file, and back: a zip archive that stores its files as they are (they are compressed already).

An archive may come from anyone. It is read entry by entry: only names that a bundle has, each once, plain files,
stored and not compressed, so that it cannot grow beyond its own size; and nothing is written outside the new folder.
"""

from __future__ import annotations

import re
import stat
import zipfile
from pathlib import Path

from . import layout
from .catalogue import TABLES
from .drafts import draft
from .errors import CannotRecord, Damaged, TraceError
from .lock import ALIVE, recorder_of
from .reader import open_bundle

_TABLE = "|".join(TABLES)
_NAME = re.compile(
    rf"(?:bundle\.json|end\.json|stopped\.json|parts/[A-Za-z0-9_-]{{1,64}}\.[0-9]{{1,7}}/"
    rf"(?:part\.json|cold/(?:manifest\.json|(?:{_TABLE})\.parquet)|hot/(?:commits\.jsonl|(?:{_TABLE})\.arrows)))"
)
_ENTRIES = 1 << 16
_BLOCK_BYTES = 1 << 20
LIMIT_BYTES = 64 << 30
_DATE = (1980, 1, 1, 0, 0, 0)


def pack(path: Path, out: Path) -> int:
    """Write the bundle at `path` as one file `out`; return its size. The same bundle gives the same bytes.

    Raises CannotRecord when the path is taken or the bundle is being recorded, `TraceError`, OSError.
    """
    open_bundle(path)
    if recorder_of(path) == ALIVE:
        raise CannotRecord(f"{path}: it is being recorded; pack it once it has ended")
    if out.exists():
        raise CannotRecord(f"{out}: expected a path that is free, found something there")
    files = [file for file in sorted(path.rglob("*")) if _NAME.fullmatch(file.relative_to(path).as_posix())]
    with draft(out.parent, f".{out.name}-") as place:
        made = place / "packed"
        with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
            for file in files:
                entry = zipfile.ZipInfo(file.relative_to(path).as_posix(), _DATE)
                entry.external_attr = (stat.S_IFREG | 0o644) << 16
                layout.regular_file(file)
                with file.open("rb") as source, archive.open(entry, "w", force_zip64=True) as target:
                    while block := source.read(_BLOCK_BYTES):
                        target.write(block)
        size = made.stat().st_size
        made.rename(out)
    return size


def unpack(path: Path, out: Path, *, limit_bytes: int = LIMIT_BYTES) -> int:
    """Write the bundle in the file `path` to the folder `out`; return how many bytes it has.

    Raises `Damaged` for an archive that is none, or that has what a packed bundle has not, CannotRecord when the path
    is taken, OSError.
    """
    if out.exists():
        raise CannotRecord(f"{out}: expected a path that is free, found something there")
    layout.regular_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _checked(path, archive, limit_bytes)
            with draft(out.parent, f".{out.name}-") as place:
                inner = place / "bundle"
                for entry in entries:
                    _write(path, archive, entry, inner / entry.filename)
                _open(path, inner)
                inner.rename(out)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise Damaged(path, "archive", "a packed bundle", str(error)[:120] or type(error).__name__) from None
    return sum(entry.file_size for entry in entries)


def _open(path: Path, inner: Path) -> None:
    try:
        open_bundle(inner)
    except TraceError as error:
        raise Damaged(path, f"{Path(error.path).name}: {error.place}", error.expected, error.found) from None


def _checked(path: Path, archive: zipfile.ZipFile, limit_bytes: int) -> list[zipfile.ZipInfo]:
    """Return the entries of an archive, if all of them are what a packed bundle has."""
    entries = archive.infolist()
    if len(entries) > _ENTRIES:
        raise Damaged(path, "entries", f"at most {_ENTRIES}", str(len(entries)))
    seen: set[str] = set()
    for entry in entries:
        place = f"entry {entry.filename!r}"[:120]
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if not _NAME.fullmatch(entry.filename) or entry.filename != entry.orig_filename:
            raise Damaged(path, place, "the name of a file of a bundle", "another")
        if entry.filename in seen:
            raise Damaged(path, place, "each name once", "it again")
        if kind not in (0, stat.S_IFREG):
            raise Damaged(path, place, "a plain file", "a link or another kind of file")
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise Damaged(path, place, "bytes as they are", "compressed ones")
        if entry.flag_bits & 1:
            raise Damaged(path, place, "bytes as they are", "encrypted ones")
        seen.add(entry.filename)
    total = sum(entry.file_size for entry in entries)
    if total > min(limit_bytes, path.stat().st_size):
        raise Damaged(path, "entries", f"at most {min(limit_bytes, path.stat().st_size):,} bytes", f"{total:,}")
    return entries


def _write(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with archive.open(entry) as source, target.open("xb") as file:
        while block := source.read(_BLOCK_BYTES):
            written += len(block)
            file.write(block)
    if written != entry.file_size:
        raise Damaged(path, f"entry {entry.filename!r}", f"{entry.file_size} bytes", f"{written}")
