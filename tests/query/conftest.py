"""A locked connection on the tiny trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Locked

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
