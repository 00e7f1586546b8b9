"""Bundles made of Arrow tables in memory, and one of files for tests of the child process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tsviz.trace.catalogue import TABLES


@dataclass(frozen=True)
class FakePart:
    """A part that hands out what it was given."""

    data: Mapping[str, Any] = field(default_factory=dict)
    node: str = "F"
    rank: int = 0

    def tables(self) -> Mapping[str, pa.Table | ds.Dataset]:
        return self.data


@dataclass(frozen=True)
class FakeBundle:
    """A bundle of fake parts."""

    name: str
    parts: Sequence[FakePart]


def table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a table with these rows; what a row leaves out is null, or empty if the column has no null."""
    schema = TABLES[name].schema
    empty = {pa.types.is_integer: 0, pa.types.is_boolean: False, pa.types.is_list: [], pa.types.is_dictionary: ""}
    filled = []
    for row in rows:
        assert set(row) <= set(schema.names), set(row) - set(schema.names)
        defaults = {
            f.name: None if f.nullable else next(v for test, v in empty.items() if test(f.type)) for f in schema
        }
        if "applied" in defaults:
            defaults["applied"] = True
        filled.append(defaults | dict(row))
    return pa.Table.from_pylist(filled, schema=schema)


def save(folder: Path, tables: Mapping[str, pa.Table]) -> Path:
    """Write the tables as Parquet files of a folder that `open_folder` opens."""
    folder.mkdir()
    for name, data in tables.items():
        pq.write_table(data, folder / f"{name}.parquet")
    return folder


def open_folder(path: str) -> FakeBundle:
    """Open what `save` wrote; raises an error that names the path if there is none."""
    folder = Path(path)
    if not folder.is_dir():
        raise FileNotFoundError(f"{path}: expected a bundle, found nothing")
    data = {f.stem: ds.dataset(f, format="parquet") for f in sorted(folder.glob("*.parquet"))}
    return FakeBundle(folder.name, [FakePart(data)])


def open_never(path: str) -> FakeBundle:
    """Take for ever to open."""
    while Path(path).exists():
        time.sleep(0.1)
    return open_folder(path)


def open_noisy(path: str) -> FakeBundle:
    """Write on standard output while opening, as libraries do."""
    print("loading", path, flush=True)
    return open_folder(path)


def open_dying(path: str) -> FakeBundle:
    """End the process in the middle."""
    os.kill(os.getpid(), signal.SIGABRT)
    return open_folder(path)


def open_killed(path: str) -> FakeBundle:
    """Be killed in the middle, as `kill -9` does it."""
    os.kill(os.getpid(), signal.SIGKILL)
    return open_folder(path)
