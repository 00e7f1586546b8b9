"""The index of a trace: its decided tables, in the user's cache, keyed by content (architecture.md, section 5).

An index that came with a bundle is not looked at; one that is damaged, foreign or of another version is built anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from tsviz import scheduler
from tsviz.trace import layout
from tsviz.trace.catalogue import DECISIONS, TABLES
from tsviz.trace.cold import ColdTables
from tsviz.trace.decided import DECIDED
from tsviz.trace.drafts import draft, sweep
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import DATASET_ROWS, KEPT_ROWS, Part

from .derive import Derivation, derive
from .verify import Divergence

VERSION = 4
"""Of what stands in an index; another number makes every index be built anew."""
_CUT_VERSION = 2
"""Of what stands in one of a slice, of what is open at its start."""
_INDEX_FILE = "index.json"
_DRAFT = "draft-"
_CHECKED_BYTES = 1 << 25
"""An index up to this size is checked whole when it is opened, a larger one by its footers."""


def cache_directory() -> Path:
    """Return the folder of all indexes: `TSVIZ_CACHE`, or `tsviz` in the user's cache folder."""
    if chosen := os.environ.get("TSVIZ_CACHE"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tsviz"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tsviz"


class Index:
    """The decided tables of one part, as far as the twin agrees with the recording."""

    def __init__(self, directory: Path) -> None:
        """Open an index. Raises `TraceError` when it is damaged."""
        self.directory = directory
        """Where it lies; its keyframes too (`keyframe_files.py`)."""
        path = directory / _INDEX_FILE
        described = layout.read_json(path)
        if described.get("version") != VERSION:
            raise TraceError(path, "version", str(VERSION), repr(described.get("version"))[:40])
        self.verified_rounds: int = layout.field(path, described, "verified_rounds", int)
        self.recorded_rounds: int = layout.field(path, described, "recorded_rounds", int)
        found = described.get("divergence")
        self.divergence = Divergence(**found) if isinstance(found, dict) else None
        self._tables = ColdTables(directory / layout.COLD)
        self._check()
        self._loaded: dict[str, pa.Table] = {}

    def _check(self) -> None:
        """Compare the files with their CRCs, so that a damaged index is built anew instead of ending a command."""
        there = [table for table in DECIDED.values() if self._tables.rows(table)]
        whole = sum(self._tables.bytes(table) for table in there) <= _CHECKED_BYTES
        for table in there:
            self._tables.file(table, whole=whole)

    @property
    def last_round(self) -> int:
        """The last round whose decisions are known."""
        return self._tables.last_round

    def table(self, name: str) -> pa.Table:
        """Return a decided table, validated. Raises `TraceError`, and KeyError for a name that is none."""
        if name not in self._loaded:
            table = DECIDED[name]
            batches = list(self._tables.batches(table))
            self._loaded[name] = pa.Table.from_batches(batches, table.schema).unify_dictionaries().combine_chunks()
        return self._loaded[name]

    def large(self, name: str) -> ColdTables | None:
        """Return the cold tables where this one has more than `KEPT_ROWS` rows and was not read whole before."""
        return self._tables if name not in self._loaded and self._tables.rows(DECIDED[name]) > KEPT_ROWS else None

    def tables(self) -> Mapping[str, pa.Table | ds.Dataset]:
        """Return every decided table, large ones as datasets. Raises `TraceError` when one is damaged."""
        large = {name for name, table in DECIDED.items() if self._tables.rows(table) > DATASET_ROWS}
        return {n: self._tables.dataset(table) if n in large else self.table(n) for n, table in DECIDED.items()}


@cache
def _twin_key() -> str:
    """Return a digest of the twin's code: another twin may say other things of the same calls."""
    hasher = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(scheduler.__file__).parent.rglob("*.py")):
        hasher.update(path.name.encode())
        hasher.update(path.read_bytes())
    return hasher.hexdigest()


def content_key(part: Part) -> str:
    """Return the key of a part's index: a digest of its description and of what says that its tables are whole."""
    hasher = hashlib.blake2b(digest_size=16)
    hasher.update(f"{VERSION}/{layout.schema_version()}/{sorted(TABLES)}/{_twin_key()}".encode())
    if "starts_at" in part.meta:
        hasher.update(f"cut {_CUT_VERSION}".encode())
    for relative in (layout.PART_FILE, f"{layout.COLD}/{layout.MANIFEST_FILE}", f"{layout.HOT}/{layout.COMMITS_FILE}"):
        path = part.directory / relative
        if path.exists():
            hasher.update(relative.encode())
            hasher.update(path.read_bytes())
    return hasher.hexdigest()


def open_index(part: Part) -> Index | None:
    """Return the part's index if a sound one is in the cache."""
    directory = cache_directory() / content_key(part)
    if not directory.is_dir():
        return None
    try:
        return Index(directory)
    except (TraceError, TypeError):
        shutil.rmtree(directory, ignore_errors=True)
        return None


def build_index(part: Part, *, progress: Callable[[int, int], None] | None = None) -> Index:
    """Return the part's index, building it if there is none. Raises `TraceError`, OSError."""
    existing = open_index(part)
    if existing is not None:
        return existing
    with index_draft() as directory:
        derivation = derive(part, directory, progress=progress)
        return keep_index(directory, derivation, part)


@contextmanager
def index_draft() -> Iterator[Path]:
    """Give a folder of the cache in which an index is built. Raises OSError."""
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with draft(cache, _DRAFT, own=True) as directory:
        yield directory


def sweep_drafts() -> None:
    """Remove what processes that were ended left in the cache; what cannot be removed goes with the next index."""
    with suppress(OSError):
        sweep(cache_directory(), _DRAFT, own=True)


def keep_index(directory: Path, derivation: Derivation, part: Part) -> Index:
    """Make what was derived in a draft the index of a part. Raises `TraceError`, OSError."""
    layout.write_json(directory / _INDEX_FILE, _describe(derivation))
    target = cache_directory() / content_key(part)
    shutil.rmtree(target, ignore_errors=True)
    directory.replace(target)
    return Index(target)


class IndexedPart:
    """A part with the decided tables of its index; it is what the catalog takes as a derived part."""

    def __init__(self, part: Part, index: Index) -> None:
        """Put an index beside its part. Raises `TraceError` when a table of the index is damaged."""
        self._part, self._decided = part, index.tables()
        self.node, self.rank, self.config = part.node, part.rank, part.config
        self.derived_round, self.recorded_level = index.last_round, part.recorded_level

    def tables(self) -> Mapping[str, pa.Table | ds.Dataset]:
        """Return every table, the decided ones from the index. Raises `TraceError`."""
        return {**self._part.tables(), **self._decided}


@dataclass(frozen=True, slots=True)
class IndexedBundle:
    """A bundle whose parts have decided tables wherever these are recorded or in the user's cache."""

    name: str
    parts: Sequence[Part | IndexedPart]


def open_indexed(path: str | Path) -> IndexedBundle:
    """Open a bundle with its indexes, and its plans if they were made again: the opener of the query room.

    Raises `TraceError`.
    """
    from .filled import open_filled

    bundle = open_filled(path)
    return IndexedBundle(bundle.name, [_with_index(part) for part in bundle.parts])


def _with_index(part: Part) -> Part | IndexedPart:
    index = None if part.level == DECISIONS else open_index(part)
    if index is None:
        return part
    try:
        return IndexedPart(part, index)
    except TraceError:  # damaged: the trace is sound without it, and the next `tsviz index` builds it anew
        shutil.rmtree(cache_directory() / content_key(part), ignore_errors=True)
        return part


def _describe(derivation: Derivation) -> dict[str, Any]:
    return {"version": VERSION} | asdict(derivation)
