"""A disk that is full or read-only: every message names what was to be written, and says what is left of it."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Tsviz
from tests.trace.lives import record
from tsviz.cli.exit_codes import CliError
from tsviz.cli.writing import stopped, writing
from tsviz.scheduler import compat
from tsviz.trace import compact, layout, segments
from tsviz.trace.layout import write_json
from tsviz.trace.reader import open_bundle


def no_room(*_: object) -> int:
    raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")


def test_what_only_happens_to_who_writes_names_the_output() -> None:
    """A full disk and a read-only one are the output's; a file that is not there is not."""
    for number, words in ((errno.ENOSPC, "No space left on device"), (errno.EROFS, "Read-only file system")):
        with pytest.raises(CliError, match=f"^out: cannot be written: {words}$"), writing(Path("out")):
            raise OSError(number, "in other words", "out.draft")
    with pytest.raises(FileNotFoundError), writing(Path("out")):
        raise FileNotFoundError(errno.ENOENT, "no such file", "in")


def test_a_recording_that_stopped_says_what_is_left(tmp_path: Path) -> None:
    """What was committed opens and is named; of what holds no commit nothing is left."""
    record(compat, tmp_path / "some", 7, compacted=False)
    (tmp_path / "some" / "end.json").unlink()
    said = stopped(tmp_path / "some", OSError(errno.ENOSPC, "full"))
    assert said.startswith(f"{tmp_path / 'some'}: recording stopped: No space left on device; what was committed")
    assert "N/0: " in said and (tmp_path / "some").exists()
    shutil.copytree(tmp_path / "some", tmp_path / "none")
    (tmp_path / "none" / "parts" / "N.0" / "hot" / "commits.jsonl").write_bytes(b"")
    said = stopped(tmp_path / "none", OSError(errno.ENOSPC, "full"))
    assert said.endswith("nothing had been committed, and it was removed") and not (tmp_path / "none").exists()


def test_a_recording_that_was_closed_and_not_compacted_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills up while tables are compacted: the file is named, every round is there, and no draft stays."""
    record(compat, tmp_path / "some", 7, compacted=False)
    (part,) = open_bundle(tmp_path / "some").parts
    monkeypatch.setattr(compact, "_write", no_room)
    with pytest.raises(OSError, match="No space left on device") as raised:
        compact.compact_part(part.directory)
    file = part.directory / "cold.draft" / "calls.parquet"
    assert (raised.value.filename, file.parent.exists()) == (str(file), False)
    said = stopped(tmp_path / "some", raised.value)
    assert said.startswith(f"{tmp_path / 'some'}: not compacted ({file}: No space left on device)")
    assert said.endswith(f"nothing of it is lost; N/0: {part.last_round} rounds")
    assert open_bundle(tmp_path / "some").parts[0].rows("rounds") == part.rows("rounds") > 0


def test_no_draft_of_a_small_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `bundle.json` cannot be written, neither is `bundle.draft` there."""
    monkeypatch.setattr(Path, "replace", no_room)
    with pytest.raises(OSError, match="No space"):
        write_json(tmp_path / layout.BUNDLE_FILE, {})
    assert list(tmp_path.iterdir()) == []


def test_commands_name_their_output_and_leave_nothing(
    tsviz: Tsviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`slice`, `repair`, `redact`, `export` and `record` on a full disk: the path, the reason, and no file."""
    record(compat, tmp_path / "a", 7)
    monkeypatch.setattr(compact, "_write", no_room)
    monkeypatch.setattr(segments._Counting, "write", no_room)
    out = tmp_path / "here" / "out"
    out.parent.mkdir()
    for command in (
        ("slice", tmp_path / "a", "2:4", "--out", out),
        ("repair", tmp_path / "a", out),
        ("redact", tmp_path / "a", out),
    ):  # fmt: skip
        ended = tsviz(*command)
        assert ended.code == 2 and f"{out}: cannot be written: No space left on device" in ended.err, ended
        assert list(out.parent.iterdir()) == []
    ended = tsviz("record", "--workload", "poisson:requests=2,rate=90", "--scheduler", "twin", "--out", out)
    assert ended.code == 3 and f"{out}: recording stopped: No space left on device" in ended.err
    assert list(out.parent.iterdir()) == []
