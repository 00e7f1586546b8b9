"""A large table that answers a look-up by round without decoding whole row groups (performance.md, Q1).

A row group has near a million rows, which is right for scans; Arrow decodes it whole for the 64 rows of one round.
DuckDB's own reader skips pages, but a locked connection opens no files. So the locked engine is given a dataset that
looks at the filter which comes with a scan: where it holds a row to few rounds, the rows are read by an engine of our
own, which opens this file alone and is asked nothing but `SELECT columns WHERE round BETWEEN`. All else is scanned.

Bytes are trusted no further than before: the pages of a row group and column are read once with their checksums, and
only then by the other reader.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

_KEY = "round"
_MOST_GROUPS = 2
"""A look-up in more row groups than these is a scan."""
_BOUND = re.compile(rf"\b{_KEY} (==|>=|<=|>|<) (\d{{1,10}})\b")
_ONE = re.compile(rf"\({_KEY} == \d{{1,10}}\)")
"""The condition that holds for one round and asks for nothing else."""
_MEMBERS = re.compile(rf"\bis_in\({_KEY}, {{value_set=int\d+:\[([\d,\s]+)\]")
_MEMORY = "256MB"


class LookupDataset(ds.FileSystemDataset):  # type: ignore[misc]  # pyarrow has no types
    """One Parquet file, sorted by round, as a dataset whose scans of few rounds are quick."""

    def __init__(self, dataset: ds.FileSystemDataset) -> None:
        """Take over a dataset of one Parquet file whose row groups have statistics of `round` (see `lookups`)."""
        (fragment,) = dataset.get_fragments()
        super().__init__([fragment], dataset.schema, dataset.format, dataset.filesystem)
        self._fragment = fragment
        self._lows, self._highs = _bounds(fragment)
        self._file = _File(Path(fragment.path))
        self._checked: set[tuple[int, str]] = set()
        self._outside = _outside(dataset)

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **options: Any) -> Any:  # noqa: A002
        """Return something with `to_reader()`: the rows of a look-up, or a scan. This is what DuckDB calls."""
        if filter is not None and not options and (groups := self._groups(filter)) is not None:
            return self._look_up(list(columns or self.schema.names), filter, groups)
        return super().scanner(columns=columns, filter=filter, **options)

    def _groups(self, condition: Any) -> tuple[int, int, list[int]] | None:
        """Return first and last round that the condition can hold for and their row groups; None if these are many."""
        said = str(condition)
        guessed = _guess(said)
        if guessed is None:
            return None
        low, high = guessed
        groups = np.flatnonzero((self._lows <= high) & (self._highs >= low))
        if len(groups) > _MOST_GROUPS or not (_ONE.fullmatch(said) or self._proven(condition, low, high)):
            return None
        return low, high, groups.tolist()

    def _proven(self, condition: Any, low: int, high: int) -> bool:
        """Whether Arrow proves that the condition holds for no row outside of these rounds, null ones included."""
        return not any(True for _ in self._outside(low, high).get_fragments(condition))

    def _look_up(self, columns: list[str], condition: Any, at: tuple[int, int, list[int]]) -> pa.Table:
        low, high, groups = at
        if not groups:
            return self.schema.empty_table().select(columns)
        if self._file.changed():
            self._checked.clear()
        said = str(condition)
        needed = [name for name in self.schema.names if name in columns or name in said]
        pages = {(group, name) for group in groups for name in needed}
        if pages <= self._checked:
            with suppress(duckdb.Error, pa.ArrowException):
                found = self._file.rounds(needed, low, high).cast(pa.schema([self.schema.field(n) for n in needed]))
                return (found if _ONE.fullmatch(said) else found.filter(condition)).select(columns)
        # Rows are filtered behind the read: every page of these columns is decoded, with its checksum.
        fragment = self._fragment.subset(row_group_ids=groups)
        found = fragment.to_table(schema=self.schema, columns=needed).filter(condition).select(columns)
        self._checked |= pages
        return found


def lookups(dataset: ds.Dataset) -> ds.Dataset:
    """Return a dataset that answers look-ups by round quickly, or the same one where it cannot."""
    if not isinstance(dataset, ds.FileSystemDataset) or _KEY not in dataset.schema.names:
        return dataset
    fragments = list(dataset.get_fragments())
    if len(fragments) != 1 or not isinstance(fragments[0], ds.ParquetFileFragment):
        return dataset
    try:
        return LookupDataset(dataset)
    except (KeyError, TypeError):  # a row group without statistics of its rounds
        return dataset


class _File:
    """A Parquet file and the engine that reads rows of rounds from it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._state()
        self._lock = threading.Lock()
        self._engine: Any = None

    def _state(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def changed(self) -> bool:
        """Whether the file is another one than when it was last looked at."""
        before, self._seen = self._seen, self._state()
        return before != self._seen

    def rounds(self, columns: Sequence[str], low: int, high: int) -> pa.Table:
        """Return these columns of the rows of some rounds, in the order of the file. Raises duckdb.Error."""
        chosen = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        sql = f"SELECT {chosen} FROM _file WHERE {_KEY} BETWEEN {low:d} AND {high:d}"
        with self._lock:
            if self._engine is None:
                self._engine = self._open()
            return self._engine.sql(sql).to_arrow_table()

    def _open(self) -> Any:
        engine = duckdb.connect()
        path = "'" + str(self._path).replace("'", "''") + "'"
        for setting in (
            f"memory_limit='{_MEMORY}'",
            "threads=1",
            "temp_directory=''",
            "autoload_known_extensions=false",
            "autoinstall_known_extensions=false",
            "python_enable_replacements=false",
            "parquet_metadata_cache=true",
            f"allowed_paths=[{path}]",
            "enable_external_access=false",
            "lock_configuration=true",
        ):
            engine.execute("SET GLOBAL " + setting)
        engine.execute(f"CREATE VIEW _file AS FROM read_parquet({path})")
        return engine


def _bounds(fragment: Any) -> tuple[Any, Any]:
    """Return least and greatest round of every row group. Raises KeyError or TypeError where one does not say."""
    said = [(group.statistics[_KEY]["min"], group.statistics[_KEY]["max"]) for group in fragment.row_groups]
    return np.array([low for low, _ in said], np.int64), np.array([high for _, high in said], np.int64)


def _outside(dataset: ds.FileSystemDataset) -> Any:
    """Return what makes a dataset of no rows whose fragments stand for all rows outside of some rounds."""
    key = ds.field(_KEY)

    def outside(low: int, high: int) -> ds.FileSystemDataset:
        guarantees = (key < low, key > high, key.is_null())
        fragments = [
            dataset.format.make_fragment("none", filesystem=dataset.filesystem, partition_expression=guarantee)
            for guarantee in guarantees
        ]
        return ds.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)

    return outside


def _guess(condition: str) -> tuple[int, int] | None:
    """Guess from its text to which rounds a condition holds a row. A guess: `_proven` is asked before it is used."""
    low, high = 0, (1 << 31) - 1
    for sign, number in _BOUND.findall(condition):
        value = int(number)
        if sign in ("==", ">=", ">"):
            low = max(low, value + (sign == ">"))
        if sign in ("==", "<=", "<"):
            high = min(high, value - (sign == "<"))
    for listed in _MEMBERS.findall(condition):
        values = [int(value) for value in listed.replace(",", " ").split()]
        low, high = max(low, min(values)), min(high, max(values))
    return (low, high) if (low, high) != (0, (1 << 31) - 1) and low <= high else None
