"""Every test has folders of its own for what the user keeps."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep state and configuration below `tmp_path`."""
    monkeypatch.setenv("TSVIZ_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TSVIZ_CONFIG", str(tmp_path / "config"))
    return tmp_path
