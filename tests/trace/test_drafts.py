"""Drafts: what a killed process left behind goes with the next one, what a living one fills stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tsviz.trace.drafts import abandon, draft

ROOT = Path(__file__).resolve().parents[2]
_FILL = """
import sys, time
from pathlib import Path
from tsviz.trace.drafts import draft
with draft(Path(sys.argv[1]), "draft-") as path:
    (path / "half").write_text("half")
    print(path, flush=True)
    time.sleep(60)
"""


@contextmanager
def filling(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process in the middle of its draft, and where that is."""
    process = subprocess.Popen([sys.executable, "-c", _FILL, str(folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()


def kill(process: subprocess.Popen[str]) -> None:
    """End a process as a machine does that runs out of memory."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_the_draft_of_a_killed_process_goes_with_the_next_one(tmp_path: Path) -> None:
    """A draft that was half full when its process was killed is gone once another process makes one."""
    with filling(tmp_path) as (process, left):
        kill(process)
    assert (left / "half").exists()
    with draft(tmp_path, "draft-") as mine:
        assert list(tmp_path.iterdir()) == [mine]
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_ends_as_it_stands_takes_its_drafts_along(tmp_path: Path) -> None:
    """What this process fills is gone when it gives it up, what another one fills stays."""
    with filling(tmp_path) as (_, theirs), draft(tmp_path, "draft-") as mine:
        (mine / "half").write_text("half")
        abandon()
        assert list(tmp_path.iterdir()) == [theirs]


def test_the_draft_of_a_living_process_stays(tmp_path: Path) -> None:
    """A draft that a process still fills is not touched, however old it looks."""
    with filling(tmp_path) as (_, theirs):
        os.utime(theirs, (0, 0))
        with draft(tmp_path, "draft-", own=True):
            assert (theirs / "half").exists()
        assert (theirs / "half").exists()


def test_drafts_without_a_lock_go_when_they_are_old(tmp_path: Path) -> None:
    """In a folder of our own, drafts of an earlier version go an hour after they were touched last."""
    for name in ("draft-old", "draft-new", "kept"):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / "draft-old", (0, 0))
    os.utime(tmp_path / "kept", (0, 0))
    with draft(tmp_path, "draft-", own=True):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["draft-new", "kept"]


def test_what_others_made_stays(tmp_path: Path) -> None:
    """Where others may name things, a folder of theirs that begins like a draft stays, and so does a link to one."""
    (tmp_path / ".run-mine").mkdir()
    os.utime(tmp_path / ".run-mine", (0, 0))
    (tmp_path / ".run-tsviz-held-link").symlink_to(tmp_path / ".run-mine")
    with draft(tmp_path, ".run-"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [".run-mine", ".run-tsviz-held-link"]


def test_what_was_moved_away_is_kept(tmp_path: Path) -> None:
    """A draft that was moved into its place is not removed; one whose filling raised is."""
    with draft(tmp_path, "draft-") as path:
        (path / "whole").write_text("whole")
        path.replace(tmp_path / "done")
    with pytest.raises(ValueError), draft(tmp_path, "draft-"):
        raise ValueError
    assert [path.name for path in tmp_path.iterdir()] == ["done"]
    assert (tmp_path / "done" / "whole").exists()
