"""The guided tour: its keys, pressed in the real application on the shipped traces, lead to what it says is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.docs.tour import DOCUMENT, ROOT, Walk, walks
from tests.docs.walk import screen_text, walked
from tsviz.replay.reexecution.index import build_index
from tsviz.trace.reader import open_bundle

WALKS = walks()
INCIDENTS = json.loads((ROOT / "traces" / "incidents.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start as somebody who has never used it, at the root of the checkout."""
    monkeypatch.setenv("TSVIZ_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TSVIZ_CONFIG", str(tmp_path / "config"))
    monkeypatch.chdir(ROOT)


def words(text: str) -> str:
    """Return a text without frames and with single spaces, so that a sentence may be broken over lines."""
    return " ".join(re.sub(r"[│├└─╭╮╰╯▁▂▃▄▅▆▇█]", " ", text).split())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("walk", WALKS, ids=[walk.trace for walk in WALKS])
async def test_the_keys_lead_to_what_is_told(walk: Walk, shared_indexes: None) -> None:
    """Each line of the block `screen` stands on the screen behind the keys of the block `keys`."""
    for part in open_bundle(ROOT / "traces" / walk.trace).parts:
        build_index(part)
    async with walked(walk.command, walk.keys) as pilot:
        screen = screen_text(pilot.app)
    missing = [line for line in walk.seen if words(line) not in words(screen)]
    assert not missing, screen


def test_every_incident_has_its_walk_and_each_is_short() -> None:
    """Each shipped incident is walked through once, in fewer than ten keys."""
    assert sorted(walk.trace for walk in WALKS) == sorted(INCIDENTS)
    assert {walk.trace: len(walk.keys) for walk in WALKS if not 1 <= len(walk.keys) < 10} == {}
    assert all(len(walk.seen) >= 2 for walk in WALKS)


def test_pictures_are_there_and_small() -> None:
    """Each picture that the tour or the README shows is in the repository, a PNG of at most 200 kB, and no other is."""
    named = {DOCUMENT.parent / walk.picture for walk in WALKS}
    named |= {ROOT / found for found in re.findall(r"\]\((docs/pictures/[^)]+)\)", (ROOT / "README.md").read_text())}
    assert named == set((ROOT / "docs" / "pictures").iterdir())
    for path in named:
        assert path.read_bytes().startswith(b"\x89PNG"), path
        assert path.stat().st_size <= 200_000, path
