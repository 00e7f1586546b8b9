"""Reports of shipped traces, without plotly's code: what the page says does not depend on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tsviz.cli.report import subject_of
from tsviz.cli.traces import open_place, parse_place
from tsviz.report.library import Library
from tsviz.report.page import page

os.environ["SPDLOG_LEVEL"] = "off"
ROOT = Path(__file__).resolve().parents[2]
NO_CODE = Library("0", "", "sha256-none")


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Indexes that these tests build are kept for the session."""
    os.environ["TSVIZ_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@cache
def _written(path: str, recorded_only: bool) -> str:
    place = parse_place(path)
    bundle, _ = open_place(place)
    return page(subject_of(place, bundle, bundle.parts, recorded_only), NO_CODE)


@pytest.fixture(scope="session")
def report() -> Callable[..., str]:
    """Return the page of a trace that ships with the project, by name."""

    def of(name: str, recorded_only: bool = False) -> str:
        return _written(str(ROOT / "traces" / name), recorded_only)

    return of
