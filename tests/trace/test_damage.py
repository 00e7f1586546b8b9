"""Damaged bytes give an error that names them, or the right rows; never wrong rows, a hang or a dead reader."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tests.trace.lives import record
from tests.trace.reading_process import everything
from tsviz.trace.errors import TraceError

ROOT = Path(__file__).resolve().parents[2]
FORMS = ("hot", "cold")


@pytest.fixture(scope="module")
def bundles(real: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same lifetime as a closed hot bundle and as a cold one."""
    folder = tmp_path_factory.mktemp("bundles")
    for form in FORMS:
        record(real, folder / form, 100, compacted=form == "cold")
    return {form: folder / form for form in FORMS}


def read_damaged(bundle: Path, work: Path, damages: Sequence[tuple[Path, str]]) -> list[str]:
    """Return what a reader makes of each damage."""
    lines = "".join(f"{path.relative_to(bundle)}\t{how}\n" for path, how in damages)
    run = subprocess.run(
        [sys.executable, "-m", "tests.trace.reading_process", str(bundle), str(work)],
        input=lines, capture_output=True, text=True, cwd=ROOT, timeout=100, check=False,
    )  # fmt: skip
    found = run.stdout.splitlines()
    dead = f"the reader died at {damages[len(found)]}: {run.stderr[-500:]}" if len(found) < len(damages) else ""
    assert run.returncode == 0, dead or run.stderr[-500:]
    assert len(found) == len(damages), dead
    return found


def files(bundle: Path) -> list[Path]:
    """Return all files of a bundle in order."""
    return sorted(path for path in bundle.rglob("*") if path.is_file())


@pytest.mark.parametrize("form", FORMS)
def test_a_flipped_byte_is_an_error_or_changes_nothing(bundles: dict[str, Path], tmp_path: Path, form: str) -> None:
    """60 flips spread over every file: an error with file, place, expected and found, or the very rows."""
    bundle, rng = bundles[form], random.Random(7)
    paths = files(bundle)
    chosen = [*paths, *rng.choices(paths, [path.stat().st_size for path in paths], k=max(0, 60 - len(paths)))]
    damages = [(path, f"flip {rng.randrange(path.stat().st_size)} {1 << rng.randrange(8)}") for path in chosen]
    outcomes = read_damaged(bundle, tmp_path / "work", damages)
    wrong = [(d, o) for d, o in zip(damages, outcomes, strict=True) if not o.startswith(("error ", "same"))]
    assert wrong == []
    assert sum(o.startswith("error ") for o in outcomes) >= 50


@pytest.mark.parametrize("form", FORMS)
def test_a_flipped_byte_in_data_is_always_an_error(bundles: dict[str, Path], tmp_path: Path, form: str) -> None:
    """In tables and commits no byte is without a checksum: every flip of 60 is an error, none is overlooked."""
    bundle, rng = bundles[form], random.Random(8)
    paths = [path for path in files(bundle) if path.suffix in (".arrows", ".parquet", ".jsonl")]
    damages = [
        (path, f"flip {rng.randrange(path.stat().st_size)} {rng.randrange(1, 256)}")
        for path in rng.choices(paths, k=60)
    ]
    outcomes = read_damaged(bundle, tmp_path / "work", damages)
    assert [(d, o) for d, o in zip(damages, outcomes, strict=True) if not o.startswith("error ")] == []


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_was_cut_is_an_error(bundles: dict[str, Path], tmp_path: Path, form: str) -> None:
    """Every file of a closed bundle, cut at its start, its end and six places between: an error that names it."""
    bundle, rng = bundles[form], random.Random(9)
    damages = []
    for path in files(bundle):
        size = path.stat().st_size
        cuts = {0, 1, size // 2, size - 1, *(rng.randrange(size) for _ in range(4))}
        damages += [(path, f"cut {cut}") for cut in sorted(cuts)]
    outcomes = read_damaged(bundle, tmp_path / "work", damages)
    harmless = [
        (path, how) for (path, how), found in zip(damages, outcomes, strict=True) if not found.startswith("error ")
    ]
    # The line end behind the last brace of a JSON object, or behind the last commit, holds nothing.
    assert all(how == f"cut {path.stat().st_size - 1}" and path.suffix in (".json", ".jsonl") for path, how in harmless)
    named = [(path, found) for (path, _), found in zip(damages, outcomes, strict=True) if found.startswith("error ")]
    assert [(p, f) for p, f in named if p.name not in f] == []


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_file_is_an_error_that_names_it(bundles: dict[str, Path], tmp_path: Path, form: str) -> None:
    """No file of a bundle can go unnoticed, but the one that says how the recording ended."""
    for path in files(bundles[form]):
        work = tmp_path / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(bundles[form], work)
        (work / path.relative_to(bundles[form])).unlink()
        if path.name == "end.json":
            assert everything(work)["end"] is None
        else:
            with pytest.raises(TraceError, match=f"{path.name}: "):
                everything(work)
