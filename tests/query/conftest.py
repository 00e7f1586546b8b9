"""A locked connection on the tiny trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Locked
from tsviz.query.paths import bundles_of
from tsviz.replay.reexecution.index import build_index, open_indexed
from tsviz.trace.reader import open_bundle

from .fakes import FakeBundle, FakePart, save
from .tiny import tiny

Rows = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def locked() -> Iterator[Locked]:
    connection = Locked(Catalog([FakeBundle("tiny", [FakePart(tiny())])]))
    yield connection
    connection.close()


@pytest.fixture
def ask_rows(locked: Locked) -> Rows:
    """Ask a query on the tiny trace and return its rows as tuples."""

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in locked.query(sql)[0].to_pylist()]

    return rows


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The tiny trace as a folder, for the child process."""
    return save(tmp_path / "tiny", tiny())


TRACES = Path(__file__).resolve().parents[2] / "traces"


@pytest.fixture(scope="session")
def indexes(indexes_of_shipped_traces: str) -> Iterator[Callable[[str], None]]:
    """Derive the decisions of a shipped trace."""
    done: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TSVIZ_CACHE", indexes_of_shipped_traces)

        def index(name: str) -> None:
            if name not in done:
                for part in open_bundle(TRACES / name).parts:
                    build_index(part)
            done.add(name)

        yield index


@pytest.fixture(scope="session")
def shipped(indexes: Callable[[str], None]) -> Callable[[str], Locked]:
    """Open a shipped trace with its decisions; `.` is all of them, without."""
    opened: dict[str, Locked] = {}

    def open_(name: str) -> Locked:
        if name not in opened:
            if name != ".":
                indexes(name)
            opened[name] = Locked(Catalog([open_indexed(path) for path in bundles_of([str(TRACES / name)])]))
        return opened[name]

    return open_
