"""Small recordings of the real scheduler, made by the command line, and the twin."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tsviz.cli.main import main
from tsviz.replay.pages import large
from tsviz.replay.recorded import life_of
from tsviz.trace.reader import Part, open_bundle

os.environ["SPDLOG_LEVEL"] = "off"

# Six undeclared requests of 810 prompt and 1,080 output tokens on 64 pages of 16 tokens: they cannot all stay.
CROWDED = (
    {"id": "r1", "arrival_ms": 5, "prompt_tokens": 150, "output_tokens": 160, "max_new_tokens": 0},
    {"id": "r2", "arrival_ms": 10, "prompt_tokens": 90, "output_tokens": 220, "max_new_tokens": 0},
    {"id": "r3", "arrival_ms": 15, "prompt_tokens": 210, "output_tokens": 120, "max_new_tokens": 0},
    {"id": "r4", "arrival_ms": 20, "prompt_tokens": 60, "output_tokens": 260, "max_new_tokens": 0},
    {"id": "r5", "arrival_ms": 25, "prompt_tokens": 120, "output_tokens": 180, "max_new_tokens": 0},
    {"id": "r6", "arrival_ms": 30, "prompt_tokens": 180, "output_tokens": 140, "max_new_tokens": 0},
)

Record = Callable[..., Path]


@pytest.fixture
def twin() -> Any:
    """The drop-in module of the twin."""
    return importlib.import_module("tsviz.scheduler.compat")


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, ...], str | None], Path]:
    """Recordings of the real scheduler by options and workload, each made once, to be copied."""
    folder = tmp_path_factory.mktemp("recordings")
    crowded = folder / "crowded.jsonl"
    crowded.write_text("".join(json.dumps(row) + "\n" for row in CROWDED))

    @cache
    def made(options: tuple[str, ...], workload: str | None) -> Path:
        out = folder / f"{made.cache_info().misses}"
        named = workload or f"plain:{crowded}"
        with pytest.raises(SystemExit) as ended:
            main(["record", "--workload", named, "--out", str(out), "--format", "json", *options])
        assert ended.value.code in (0, None)
        return out

    return made


@pytest.fixture
def record(recordings: Callable[[tuple[str, ...], str | None], Path], tmp_path: Path) -> Record:
    """Record a workload with the real scheduler; returns the path of a bundle that is the test's own."""
    pytest.importorskip("tokenspeed_scheduler")
    made: list[Path] = []

    def run(*options: str, workload: str | None = None) -> Path:
        out = tmp_path / f"recorded{len(made)}"
        made.append(out)
        return Path(shutil.copytree(recordings(options, workload), out))

    return run


@pytest.fixture
def part_of() -> Callable[..., Part]:
    """Open the first part of a bundle, or the one of a node and rank."""

    def open_(path: Path, node: str | None = None, rank: int | None = None) -> Part:
        return open_bundle(path).part(node, rank)

    return open_


@pytest.fixture
def stretches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every part is a large one without an index, and a stretch of it reaches 32 rounds to both sides."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path))
    monkeypatch.setattr(life_of, "LARGE_ROWS", 0)
    monkeypatch.setattr(large, "REACH_ROUNDS", 32)
