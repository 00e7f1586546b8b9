"""Scenes on both implementations, or on the twin alone where a scenario needs another safe-step window."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.conftest import module, real, twin
from tests.conformance.notation import Group
from tests.incidents.scene import Scene

__all__ = ["module", "real", "twin"]

OpenScene = Callable[..., Scene]


def _opener(module: ModuleType, folder: Path) -> Iterator[OpenScene]:
    scenes: list[Scene] = []
    numbers = itertools.count()

    def open_scene(groups: list[Group], *, blocks: int, page: int = 4, **options: Any) -> Scene:
        recorded = folder / f"scene{next(numbers)}" if module.__name__ == "tsviz.scheduler.compat" else None
        made = Scene(module, groups, recorded, page=page, pages=blocks + 1, **options)
        scenes.append(made)
        return made

    yield open_scene
    for scene in scenes:
        scene.close()


@pytest.fixture
def scene(module: ModuleType, tmp_path: Path) -> Iterator[OpenScene]:
    """Open a scene of N usable blocks, on each implementation in turn."""
    yield from _opener(module, tmp_path)


@pytest.fixture
def twin_scene(twin: ModuleType, tmp_path: Path) -> Iterator[OpenScene]:
    """Open a scene on the twin alone: its safe-step window (`safe`) may be set."""
    yield from _opener(twin, tmp_path)
