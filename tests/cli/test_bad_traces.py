"""Traces that cannot be read: one clear sentence, code 3, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsviz.trace.layout import read_json, write_json

from .conftest import Tsviz

pytestmark = pytest.mark.oracle

COMMANDS = (("info",), ("verify",), ("sql", "select count(*) from operations"))


def ends(tsviz: Tsviz, trace: Path, *says: str) -> None:
    """Every command that reads a trace ends with code 3 and says what is wrong where."""
    for name, *rest in COMMANDS:
        ended = tsviz(name, trace, *rest)
        assert ended.code == 3, (name, ended.err)
        assert ended.out == ""
        for word in says:
            assert word in ended.err, (name, ended.err)
        assert "Traceback" not in ended.err


def test_nothing_there(tsviz: Tsviz, tmp_path: Path) -> None:
    """A path with nothing at it is named."""
    ends(tsviz, tmp_path / "gone", "gone", "expected a bundle", "found nothing")


def test_something_else(tsviz: Tsviz, tmp_path: Path) -> None:
    """A directory that is no bundle, and a file, are told from one."""
    (tmp_path / "notes.txt").write_text("hello")
    ends(tsviz, tmp_path, "bundle.json")
    ends(tsviz, tmp_path / "notes.txt", "found a file")


def test_a_newer_major_is_refused(tsviz: Tsviz, recorded: Path) -> None:
    """A bundle of a newer MAJOR says which version it has and that tsviz must be upgraded."""
    file = recorded / "bundle.json"
    write_json(file, read_json(file) | {"schema": "2.0"})
    ends(tsviz, recorded, "2.0", "upgrade")


def test_a_cut_table(tsviz: Tsviz, recorded: Path) -> None:
    """A table that lost its end is named with the bytes it should have."""
    file = recorded / "parts" / "F.0" / "cold" / "operations.parquet"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[: size // 2])
    ends(tsviz, recorded, "operations.parquet", f"{size} bytes")


def test_a_flipped_byte(tsviz: Tsviz, recorded: Path) -> None:
    """One changed byte in the middle of a table is found by its checksum."""
    file = recorded / "parts" / "F.0" / "cold" / "operations.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 0x10
    file.write_bytes(data)
    ended = tsviz("verify", recorded)
    assert ended.code in (0, 3), "a byte of no column that is read may pass; a wrong row may not"
    ended = tsviz("sql", recorded, "select sum(input_tokens), sum(slot), max(request) from operations")
    assert ended.code == 3, ended.err
    assert "operations.parquet" in ended.err


@pytest.mark.parametrize("table", ["table_changes", "zeroed", "operations"])
def test_verify_reads_every_table(tsviz: Tsviz, recorded: Path, table: str) -> None:
    """A table that re-execution does not need is read all the same: damage in it is not called equal."""
    file = recorded / "parts" / "F.0" / "cold" / f"{table}.parquet"
    file.write_bytes(bytes(file.stat().st_size))
    ended = tsviz("verify", recorded)
    assert ended.code == 3
    assert f"{table}.parquet" in ended.err


def test_a_loop_of_links_is_no_bundle(tsviz: Tsviz, tmp_path: Path) -> None:
    """A link to itself is told from a bundle like anything else."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    ends(tsviz, tmp_path / "loop", "loop", "found nothing")


@pytest.mark.parametrize(
    "content", [b"", bytes(300), b'{"parts": {}, "error": null}'], ids=["empty", "zeroed", "edited"]
)
def test_a_damaged_end_is_named_and_the_rest_is_told(tsviz: Tsviz, recorded: Path, content: bytes) -> None:
    """How it ended is unknown, which is not "not closed"; the file is named and the trace opens all the same."""
    (recorded / "end.json").write_bytes(content)
    ended = tsviz("info", recorded)
    assert ended.code == 0
    assert "warning" in ended.out
    assert "end.json: " in ended.out
    assert "unknown: end.json is damaged" in ended.out
    assert "not closed" not in ended.out
    assert tsviz("sql", recorded, "select count(*) from operations").code == 0


@pytest.mark.parametrize("command", ["info", "findings"])
def test_a_folder_of_bundles_is_told_as_one(tsviz: Tsviz, tmp_path: Path, command: str) -> None:
    """Where one bundle is wanted and the folder holds two: the hint counts them, names one and who takes all."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bundle.json").write_text("{}")
    ended = tsviz(command, tmp_path)
    assert ended.code == 3
    assert f"hint: this is a folder of 2 bundles: name one, such as {tmp_path / 'a'}; sql, hits and export" in ended.err
