"""Fixtures for workloads: small files made on the spot, and the samples where they are there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "workloads"


@pytest.fixture
def samples() -> Path:
    """The folder of workload samples beside the repository."""
    if not SAMPLES.is_dir():
        pytest.skip("no ../shared/workloads beside the repository")
    return SAMPLES


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """Write a file (text or bytes; text as it is, with its line ends) and return its path."""

    def write(content: str | bytes, name: str = "input") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def mooncake_file(put: Callable[..., Path]) -> Callable[..., Path]:
    """Write Mooncake rows given as (timestamp, input_length, output_length, hash_ids)."""

    def write(*rows: tuple[Any, ...]) -> Path:
        names = ("timestamp", "input_length", "output_length", "hash_ids")
        return put("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows), "trace.jsonl")

    return write
