"""Which bundles an argument means, and traces of every kind in one query."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsviz.query.paths import bundles_of, unnamed
from tsviz.trace.layout import BUNDLE_FILE


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Bundles a, b and deep/c, with a bundle's own folder inside one, and a file that is none."""
    for name in ("b", "a", "deep/c", "a/parts/F.0"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("a", "b", "deep/c", "a/parts/F.0"):
        (tmp_path / name / BUNDLE_FILE).write_text("{}")
    (tmp_path / "notes.txt").write_text("")
    return tmp_path


def _names(runs: Path, *paths: str) -> list[str]:
    return [str(Path(p).relative_to(runs)) for p in bundles_of([str(runs / p) for p in paths])]


def test_a_folder_stands_for_its_bundles(runs: Path) -> None:
    """A folder means the bundles right in it by name, and no deeper ones."""
    assert _names(runs, ".") == ["a", "b"]
    assert _names(runs, "deep", "b") == ["deep/c", "b"]


def test_a_pattern_stands_for_what_it_matches(runs: Path) -> None:
    """A pattern means the bundles among its matches and in the folders among them; none is inside another."""
    assert _names(runs, "[ab]") == ["a", "b"]
    assert _names(runs, "*") == ["a", "b", "deep/c"]
    assert _names(runs, "**") == ["a", "b", "deep/c"]


def test_bundles_that_were_not_named(runs: Path) -> None:
    """Bundles that stand for a folder or pattern are told from those that an argument names."""
    paths = [str(runs / "a"), str(runs)]
    assert unnamed(bundles_of(paths), paths) == {str(runs / "b")}


def test_what_holds_no_bundle_stays(runs: Path) -> None:
    """A path without a bundle is left to the opener, whose error names it; so is a pattern without a match."""
    assert _names(runs, "notes.txt", "nowhere", "x*") == ["notes.txt", "nowhere", "x*"]


def test_a_name_with_pattern_characters_is_a_name(runs: Path) -> None:
    """A bundle whose name looks like a pattern is opened by its name."""
    folder = runs / "[ab]"
    folder.mkdir()
    (folder / BUNDLE_FILE).write_text("{}")
    assert _names(runs, "[ab]") == ["[ab]"]
