"""Recordings that were made to go do when they are beyond the limits, oldest first; nothing else is ever removed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Tsviz, tsviz
from tests.trace.lives import record
from tsviz.scheduler import compat
from tsviz.trace import writer
from tsviz.trace.errors import Full
from tsviz.trace.layout import write_json
from tsviz.trace.lock import RecordingLock
from tsviz.trace.retention import RETENTION_FILE, Retention, parse_retention, removed_by, sweep
from tsviz.trace.writer import BundleWriter

HOUR = 3600.0
NOW = 1_800_000_000.0
__all__ = ["tsviz"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small recording."""
    path = tmp_path_factory.mktemp("made") / "bundle"
    record(compat, path, 7, steps=30)
    return path


def place(bundle: Path, path: Path, hours_ago: float, *, to_go: bool = True) -> int:
    """Copy a recording, as one that ended so long ago; return its size."""
    shutil.copytree(bundle, path)
    if to_go:
        write_json(path / RETENTION_FILE, Retention(count=1).values())
    for file in path.rglob("*"):
        os.utime(file, (NOW - hours_ago * HOUR,) * 2)
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_limits_are_read() -> None:
    """10GB is 10 * 2**30 bytes, 7d 604,800 seconds, 20 a number of recordings; each kind once."""
    assert parse_retention(["10GB", "7d", "20"]) == Retention(10 * 2**30, 7 * 86400, 20)
    for texts in (["0"], ["1.5"], ["10 parsecs"], ["-1d"], ["1GB", "2MB"], [""]):
        with pytest.raises(ValueError, match="expected"):
            parse_retention(texts)


def test_the_oldest_go_first_and_each_limit_counts(bundle: Path, tmp_path: Path) -> None:
    """Of recordings that ended 9, 5 and 1 hours ago: 6 hours keep two, a count of 1 one, the bytes of two keep two."""
    for limits, kept in (
        (lambda _: Retention(seconds=6 * HOUR), ["b5", "b1"]),
        (lambda _: Retention(count=1), ["b1"]),
        (lambda size: Retention(bytes=2 * size), ["b5", "b1"]),
        (lambda size: Retention(bytes=3 * size), ["b9", "b5", "b1"]),
    ):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        sizes = [place(bundle, folder / f"b{hours}", hours) for hours in (9, 5, 1)]
        removed = sweep(folder, limits(sizes[0]), NOW)
        assert left(folder) == sorted(kept)
        assert sorted(each.path.name for each in removed) == sorted({"b9", "b5", "b1"} - set(kept))


def test_nothing_else_is_ever_removed(bundle: Path, tmp_path: Path) -> None:
    """Not a trace recorded without limits, nor a link, a folder, one with a note in it, or one that goes on."""
    place(bundle, tmp_path / "kept", 99, to_go=False)
    place(bundle, tmp_path / "noted", 99)
    (tmp_path / "noted" / "why.txt").write_text("mine")
    place(bundle, tmp_path / "live", 99)
    held = RecordingLock(tmp_path / "live")
    place(bundle, tmp_path / "elsewhere" / "b", 99)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "b")
    (tmp_path / "folder").mkdir()
    write_json(tmp_path / "folder" / RETENTION_FILE, Retention(count=1).values())
    (tmp_path / "file").write_text("text")
    before = left(tmp_path)
    assert sweep(tmp_path, Retention(bytes=1, seconds=1, count=0), NOW) == []
    assert left(tmp_path) == before
    held.release()
    assert [each.path.name for each in sweep(tmp_path, Retention(seconds=1), NOW)] == ["live"]


def test_a_recording_removes_older_ones_when_it_ends(tsviz: Tsviz, tmp_path: Path) -> None:
    """With `--retain 2` the third recording of a folder leaves itself and the second; one without limits stays."""
    for name in ("plain", "one", "two", "three"):
        limits = () if name == "plain" else ("--retain", "2")
        run = ("record", "--workload", "poisson:requests=2,rate=90", "--scheduler", "twin", "--out", tmp_path / name)
        assert tsviz(*run, *limits).code == 0
    assert left(tmp_path) == ["plain", "three", "two"]
    assert tsviz(*run[:-1], tmp_path / "r", "--retain", "soon").code == 2
    assert tsviz(*run[:-1], tmp_path / "r", "--retain", "2", "--ring", "1s").code == 2


def test_a_recording_as_large_as_all_may_be_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where 1,000 bytes are to be kept, a recording of more ends and says so; the program does not notice."""
    monkeypatch.setattr("tests.trace.lives.BundleWriter", lambda path, **options: BundleWriter(
        path, **options, retention=Retention(bytes=1000)))  # fmt: skip
    monkeypatch.setattr(writer, "FLUSH_SECONDS", 0.0)
    with pytest.raises(Full, match=r"bytes were recorded, and 1,000 are all that is to be kept"):
        record(compat, tmp_path / "b", 7)


def test_what_went_is_told_by_the_recording_that_was_made_meanwhile(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tsviz: Tsviz
) -> None:
    """With room for one, two older ones go: `info` names each, and of more than are named there is the number."""
    sizes = [place(bundle, tmp_path / f"b{hours}", hours) for hours in (9, 5)]
    monkeypatch.setattr("tests.trace.lives.BundleWriter", lambda path, **options: BundleWriter(
        path, **options, retention=Retention(count=1)))  # fmt: skip
    record(compat, tmp_path / "new", 7, steps=30)
    why = ["there were 3 recordings, more than 1", "there were 2 recordings, more than 1"]
    told = [f"b{hours}, {size:,} bytes: {words}" for hours, size, words in zip((9, 5), sizes, why, strict=True)]
    assert removed_by(tmp_path / "new") == told
    assert all(f"removed    {words}" in tsviz("info", tmp_path / "new").out for words in told)
    monkeypatch.setattr("tsviz.trace.retention._TOLD", 1)
    for hours, size in zip((9, 5), sizes, strict=True):
        assert place(bundle, tmp_path / f"c{hours}", hours) == size
    (tmp_path / "new" / RETENTION_FILE).unlink()
    record(compat, tmp_path / "newer", 7, steps=30)
    assert removed_by(tmp_path / "newer") == [f"1 before them, {sizes[0]:,} bytes", told[1].replace("b5", "c5")]
