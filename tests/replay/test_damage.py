"""Damage in a bundle or in its index: a clear error or what can be said without, never a wrong row, never a hang.

`TSVIZ_CAMPAIGN` is the number of random damages instead of 28 (500 in the campaign), `TSVIZ_SEED` where they begin.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tsviz.replay.reexecution.index import build_index
from tsviz.trace.reader import open_bundle

ROOT = Path(__file__).resolve().parents[2]
DAMAGES = int(os.environ.get("TSVIZ_CAMPAIGN", "28"))
SEED = int(os.environ.get("TSVIZ_SEED", "11"))


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a shipped trace and the cache that holds its index."""
    folder = tmp_path_factory.mktemp("indexed")
    shutil.copytree(ROOT / "traces" / "retract-and-grant", folder / "bundle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TSVIZ_CACHE", str(folder / "cache"))
        build_index(open_bundle(folder / "bundle").parts[0])
    return folder


def damages(folder: Path, inside: str, count: int) -> list[tuple[str, str]]:
    """Draw damages: mostly flipped bytes, some files cut, some gone; every file about as often as any other."""
    rng = random.Random(f"{SEED} {inside}")
    files = sorted(path for path in (folder / inside).rglob("*") if path.is_file())
    found = []
    for _ in range(count):
        path = rng.choice(files)
        size = path.stat().st_size
        flip = f"flip {rng.randrange(size)} {rng.randrange(1, 256)}"
        how = rng.choices((flip, f"cut {rng.randrange(size)}", "gone"), (8, 2, 1))[0]
        found.append((str(path.relative_to(folder)), how))
    return found


@pytest.mark.parametrize("datasets", ["0", "1"], ids=["in memory", "as datasets"])
@pytest.mark.parametrize("inside", ["cache", "bundle"])
def test_damage_is_told_or_does_not_matter(indexed: Path, tmp_path: Path, inside: str, datasets: str) -> None:
    """A quarter of the damages each in the bundle and the index, tables in memory and as datasets of large traces."""
    chosen = damages(indexed, inside, max(1, DAMAGES // 4))
    lines = "".join(f"{path}\t{how}\n" for path, how in chosen)
    run = subprocess.run(
        [sys.executable, "-m", "tests.replay.damaged_reader", str(indexed), str(tmp_path / "work"), datasets],
        input=lines, capture_output=True, text=True, cwd=ROOT, timeout=60 + 10 * len(chosen), check=False,
    )  # fmt: skip
    outcomes = run.stdout.splitlines()
    assert run.returncode == 0, (chosen[len(outcomes) : len(outcomes) + 1], run.stderr[-800:])
    good = ("same", "without") if inside == "cache" else ("same",)
    wrong = [
        (damage, found)
        for damage, found in zip(chosen, outcomes, strict=True)
        if found not in good and not found.startswith("error ")
    ]
    assert wrong == []
    assert sum(found.startswith("error ") or found == "without" for found in outcomes) > len(chosen) // 2
