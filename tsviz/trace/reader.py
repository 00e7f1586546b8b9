"""Opening a bundle: hot tables up to the last commit, or cold ones, one interface over both.

Opening reads only the small files; a table is read, checked and validated when it is first asked for.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from . import layout
from .catalogue import CALLS, LEVELS, PLANS, TABLES
from .cold import ColdTables
from .columns import Table
from .counts import check_calls, check_counts
from .errors import Damaged
from .grown import GrownTables
from .hot import HotTables
from .tokens import MODES

DATASET_ROWS = 2_000_000
"""Cold tables with more rows are handed out as a dataset that is read by column and row group, not whole."""

KEPT_ROWS = 1 << 19
"""Cold tables with more rows are not kept whole for the sake of some columns or rows of them."""

WHOLE_BYTES = 256 << 20
"""Of a part with more bytes `check_bytes` reads the footers only."""


class Part:
    """The recording of one scheduler in a bundle."""

    def __init__(self, directory: Path, *, closed: bool = False) -> None:
        """Read `part.json` of a part directory. Raises `TraceError`.

        `closed`: the bundle says that it was closed, so that a part whose last commit is missing is damaged.
        """
        self.directory = layout.directory(directory)
        self._closed = closed
        path = directory / layout.PART_FILE
        self.meta = layout.read_json(path)
        self.node: str = layout.field(path, self.meta, "node", str)
        self.rank: int = layout.field(path, self.meta, "rank", int)
        self.config: dict[str, Any] = layout.field(path, self.meta, "config", dict)
        self.engine: dict[str, Any] = layout.field(path, self.meta, "engine", dict)
        self.token_mode: str = layout.field(path, self.meta, "tokens", str)
        self.rule_set: str = layout.field(path, self.meta, "rule_set", str)
        self.clock: str = layout.field(path, self.meta, "clock", str)
        self.digest: str = layout.field(path, self.meta, "digest", str)
        if self.token_mode not in MODES:
            raise Damaged(path, "tokens", " or ".join(MODES), repr(self.token_mode)[:40])
        self.level: str = self.meta.get("level", PLANS)
        if self.level not in LEVELS:
            raise Damaged(path, "level", " or ".join(LEVELS), repr(self.level)[:40])
        self.recorded_level: str = self.meta.get(layout.RECORDED_LEVEL, self.level)
        """What the recorder kept; another one where the plans were made again from the calls."""
        self._loaded: dict[str, pa.Table] = {}
        self.prefix_tokens: int = layout.field(path, self.config, "prefix_granularity", int)
        if self.prefix_tokens < 1:
            raise Damaged(path, "prefix_granularity", "a number from 1", str(self.prefix_tokens))

    @classmethod
    def at(cls, directory: Path, store: HotTables) -> Part:
        """Return the part in a directory as it was when `store` was committed. Raises `TraceError`."""
        part = cls(directory)
        if part._whole:
            check_calls(directory / layout.HOT / layout.COMMITS_FILE, store.rows(TABLES["calls"]), store.last_seq)
        part.__dict__["_store"] = store
        return part

    @cached_property
    def _store(self) -> HotTables | ColdTables:
        found = self._open_store()
        if self._whole:
            check_calls(self._counting, found.rows(TABLES["calls"]), found.last_seq)
        return found

    def _open_store(self) -> HotTables | ColdTables:
        if self._compacted:
            return ColdTables(self.directory / layout.COLD)
        try:
            found = HotTables(self.directory / layout.HOT)
        except Damaged:
            if self._compacted:  # just now: the hot tables went away while they were opened
                return ColdTables(self.directory / layout.COLD)
            raise
        if self._closed and not found.final:
            commits = self.directory / layout.HOT / layout.COMMITS_FILE
            raise Damaged(commits, "last line", "the commit that closed the part", "none (the file was cut)")
        return found

    @property
    def _whole(self) -> bool:
        """Whether the part holds every call from the first round on; a slice from a later one does not."""
        return "starts_at" not in self.meta

    @property
    def _counting(self) -> Path:
        """The file that says how many rows the tables have."""
        if self._compacted:
            return self.directory / layout.COLD / layout.MANIFEST_FILE
        return self.directory / layout.HOT / layout.COMMITS_FILE

    @property
    def _compacted(self) -> bool:
        cold = self.directory / layout.COLD
        return (cold / layout.MANIFEST_FILE).exists() or (cold.exists() and not (self.directory / layout.HOT).exists())

    def _batches(self, table: Table) -> pa.Table:
        try:
            return pa.Table.from_batches(list(self._store.batches(table)), table.schema)
        except Damaged:
            if isinstance(self._store, ColdTables) or not self._compacted:
                raise
        # Compacted since it was opened: the same rows in the same order, of which those committed then are shown.
        whole = pa.Table.from_batches(list(ColdTables(self.directory / layout.COLD).batches(table)), table.schema)
        return whole.slice(0, self._store.rows(table))

    @property
    def cold(self) -> ColdTables | None:
        """The cold tables, for what reads pieces of them; None for a part that is being recorded or was cut off."""
        store = self._store
        return store if isinstance(store, ColdTables) else None

    @property
    def live(self) -> bool:
        """Whether the part was not closed: it is being recorded, or its process was killed."""
        return isinstance(self._store, HotTables) and not self._store.final

    @property
    def torn(self) -> str | None:
        """What lies behind the last commit, in words; None if nothing does."""
        return self._store.torn if isinstance(self._store, HotTables) else None

    @property
    def last_round(self) -> int:
        """The last round that is readable; 0 if none is."""
        return self._store.last_round

    def rows(self, name: str) -> int:
        """How many rows a table has. Raises KeyError for an unknown table."""
        return self._store.rows(TABLES[name])

    def table(self, name: str) -> pa.Table:
        """Return a table whole, validated. Raises `TraceError`, and KeyError for an unknown table."""
        if name not in self._loaded:
            table = TABLES[name]
            self._loaded[name] = self._batches(table).unify_dictionaries().combine_chunks()
        return self._loaded[name]

    def batches(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield a table piece by piece, validated; nothing is kept. Raises `TraceError`, KeyError."""
        return self._store.batches(TABLES[name])

    def large(self, name: str) -> ColdTables | GrownTables | None:
        """Return where a table of more than `KEPT_ROWS` rows that was not read whole before is read by group."""
        store = self._store
        if not isinstance(store, ColdTables | GrownTables) or name in self._loaded:
            return None
        return store if self.rows(name) > KEPT_ROWS else None

    def columns(self, name: str, names: Sequence[str]) -> pa.Table:
        """Return some columns of a table; of a large one nothing else is read and nothing kept. Raises `TraceError`."""
        store = self.large(name)
        if store is None:
            return self.table(name).select(list(names))
        batches = list(store.batches(TABLES[name], names))
        return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().select(list(names))

    def check(self, keep: Collection[str] = ()) -> None:
        """Read every table once, as it would be read for use. Raises `TraceError` for the first that is damaged.

        `keep` names tables that are needed soon: those that are not large are kept as `table` returns them.
        """
        for table in TABLES.values():
            if table.name in keep and self.large(table.name) is None:
                self.table(table.name)
                continue
            for _ in self._store.batches(table):
                pass

    def check_bytes(self, whole_bytes: int = WHOLE_BYTES) -> None:
        """Compare the files of tables with their CRCs, of a part of more than `whole_bytes` as far as that is cheap.

        For what answers without reading them. Raises `TraceError` for the first that is damaged.
        """
        store = ColdTables(self.directory / layout.COLD) if self._compacted else self._store
        store.check_bytes(whole_bytes)

    def check_counts(self) -> None:
        """Compare rows of tables with what calls and plans say of them. Raises `TraceError`."""
        if self._whole:
            check_counts(self._counting, self.columns, self.rows, plans=self.level != CALLS)

    def tables(self) -> Mapping[str, pa.Table | ds.Dataset]:
        """Return every table; those with more than `DATASET_ROWS` cold rows as datasets."""
        return {name: self._relation(table) for name, table in TABLES.items()}

    def _relation(self, table: Table) -> pa.Table | ds.Dataset:
        store = self._store
        if isinstance(store, ColdTables) and store.rows(table) > DATASET_ROWS:
            return store.dataset(table)
        return self.table(table.name)


class Bundle:
    """A bundle: its parts, its metadata, and how it ended."""

    def __init__(self, path: Path) -> None:
        """Open the bundle at `path`. Raises `TraceError`."""
        self.path = path
        self.name = Path(os.path.realpath(path)).name  # Path.resolve raises for a loop of links
        self.description = layout.read_bundle_file(path)
        self.schema: str = self.description["schema"]
        self.meta: dict[str, Any] = layout.field(path / layout.BUNDLE_FILE, self.description, "meta", dict)
        names = layout.part_names(path, self.description)
        closed = (path / layout.END_FILE).exists()
        layout.directory(path / layout.PARTS)
        self.parts = [self._open_part(node, rank, closed=closed) for node, rank in names]

    def _open_part(self, node: str, rank: int, *, closed: bool) -> Part:
        """Open a part and compare what it says of itself with what the bundle says of it."""
        part = Part(layout.part_directory(self.path, node, rank), closed=closed)
        for place, expected, found in (
            ("node", node, part.node),
            ("rank", rank, part.rank),
            ("tokens", self.description.get("tokens"), part.token_mode),
        ):
            if expected != found:
                path = part.directory / layout.PART_FILE
                raise Damaged(path, place, f"{expected!r} (as {layout.BUNDLE_FILE} says)", repr(found)[:80])
        return part

    @cached_property
    def end(self) -> dict[str, Any] | None:
        """Why the recording ended and its totals; None for a bundle that was not closed."""
        path = self.path / layout.END_FILE
        return layout.read_json(path) if path.exists() else None

    def part(self, node: str | None = None, rank: int | None = None) -> Part:
        """Return the part of a node and rank, or the first one. Raises KeyError naming those there are."""
        for part in self.parts:
            if node in (None, part.node) and rank in (None, part.rank):
                return part
        there = ", ".join(f"{p.node}/{p.rank}" for p in self.parts)
        raise KeyError(f"no part {node}/{rank}; there are {there}")


def open_bundle(path: str | Path) -> Bundle:
    """Open the bundle at `path`. Raises `TraceError` naming file, place, expected and found."""
    return Bundle(Path(path))
