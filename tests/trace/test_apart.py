"""Recording with a process of its own that writes: the same rows, and nothing that reaches the recorded program."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.trace import lives
from tests.trace.lives import record
from tests.trace.recording_process import recorded
from tests.trace.test_followers import step
from tests.trace.test_full_disk import wait_for
from tsviz.replay.reexecution.verify import verify
from tsviz.trace.apart import ApartWriter
from tsviz.trace.endings import stopped_of
from tsviz.trace.errors import CannotRecord, FellBehind
from tsviz.trace.frame_pipe import FramePipe
from tsviz.trace.lock import ALIVE, GONE, recorder_of
from tsviz.trace.reader import open_bundle
from tsviz.trace.writer import BundleWriter


def storage(config: Any) -> None:
    """Have a host tier and a storage tier: every kind of call."""
    config.num_host_pages, config.enable_l3_storage, config.enable_kv_cache_events = 40, True, False


@pytest.mark.parametrize(("role", "tokens"), [("Fused", "full"), ("P", "full"), ("D", "identity")])
def test_both_ways_write_the_same_rows(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str, tokens: str
) -> None:
    """A lifetime with every kind of call, raising ones too: all tables are equal but for how long calls took."""
    parts = {}
    for kind in (BundleWriter, ApartWriter):
        monkeypatch.setattr(lives, "BundleWriter", kind)
        path = tmp_path / kind.__name__
        record(real, path, 601, role=role, tokens=tokens, tune=storage)
        assert open_bundle(path).end == {"error": None}
        (parts[kind],) = open_bundle(path).parts
    one, two = parts.values()
    assert one.meta == two.meta
    for name in one.tables():
        rows = [[{**row, "duration_ns": 0} for row in part.table(name).to_pylist()] for part in (one, two)]
        assert rows[0] == rows[1], name


def parents_child(pid: int) -> bool:
    """Return whether a process is a child of this one."""
    return f"\nPPid:\t{os.getpid()}\n" in Path(f"/proc/{pid}/status").read_text()


def writing_process(path: Path) -> int:
    """Return the process that holds the lock of a bundle."""
    inode = (path / "recording.lock").stat().st_ino
    wait_for(lambda: any(f":{inode} " in line for line in Path("/proc/locks").read_text().splitlines()))
    (line,) = [line for line in Path("/proc/locks").read_text().splitlines() if f":{inode} " in line]
    return int(line.split()[4])


def test_the_writing_process_is_no_child_and_its_death_ends_the_recording_alone(
    real: ModuleType, tmp_path: Path
) -> None:
    """Killed, it leaves what it committed; the program serves on, its memory is not filled, and close says so."""
    target = ApartWriter(tmp_path / "b", meta={})
    module, scheduler = recorded(real, target)  # type: ignore[arg-type]
    commits = tmp_path / "b" / "parts" / "N.0" / "hot" / "commits.jsonl"

    def committed() -> bool:
        step(module, scheduler)
        time.sleep(0.02)
        return commits.exists() and bool(commits.read_bytes())

    wait_for(committed)
    writing = writing_process(tmp_path / "b")
    assert not parents_child(writing)
    os.kill(writing, signal.SIGKILL)

    def noticed() -> bool:
        step(module, scheduler)
        return target.error is not None

    wait_for(noticed)
    step(module, scheduler)
    assert target._parts[0].recorder.waiting_entries() == 0
    with pytest.raises(OSError, match="the writing process ended"):
        target.close()
    bundle = open_bundle(tmp_path / "b")
    assert bundle.end is None
    assert verify(bundle.parts[0], real).complete


def test_a_pipe_that_ends_without_a_word_leaves_all_that_came_through(real: ModuleType, tmp_path: Path) -> None:
    """As when the program is killed: every call is committed, the bundle is not closed, and its lock is free."""
    target = ApartWriter(tmp_path / "b", meta={})
    module, scheduler = recorded(real, target)  # type: ignore[arg-type]
    wait_for(lambda: recorder_of(tmp_path / "b") == ALIVE)
    step(module, scheduler)
    target._stop.set()
    target._thread.join()
    target._take_all()
    target.abandon()
    wait_for(lambda: recorder_of(tmp_path / "b") != ALIVE)
    bundle = open_bundle(tmp_path / "b")
    assert bundle.end is None
    assert bundle.parts[0].rows("calls") == 18


def test_a_path_that_is_taken_is_refused_at_once(tmp_path: Path) -> None:
    """Before any process is started."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").touch()
    with pytest.raises(CannotRecord, match="expected a path that is free"):
        ApartWriter(tmp_path / "b", meta={})


def test_frames_that_the_other_end_does_not_take_wait_and_come_in_order() -> None:
    """A pipe of 1 MiB and 3 MiB of frames: none of the calls waits, and at the end every byte came once."""
    there, ours = os.pipe()
    pipe = FramePipe(ours)
    frames = [bytes([number]) * (100_000 + number) for number in range(30)]
    for frame in frames:
        pipe.put(frame)
    assert 15 < pipe.waiting < 25
    assert (
        0 <= pipe.waiting_bytes - (sum(map(len, frames)) - (1 << 20)) < 1 << 18
    )  # a page of the pipe may be half full
    read = bytearray()

    def reads() -> None:
        while piece := os.read(there, 1 << 16):
            read.extend(piece)

    reader = threading.Thread(target=reads)
    reader.start()
    pipe.drain_all()
    assert (pipe.waiting, pipe.waiting_bytes) == (0, 0)
    pipe.close()
    reader.join()
    os.close(there)
    assert bytes(read) == b"".join(frames)


def test_an_end_that_the_disk_does_not_take_is_said_in_the_bundle(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writing process is stopped behind a pipe of 4 KiB: closing gives up, and `stopped.json` says why."""
    monkeypatch.setattr("tsviz.trace.frame_pipe._PIPE_BYTES", 4096)
    target = ApartWriter(tmp_path / "b", meta={}, tokens="identity")
    module, scheduler = recorded(real, target)  # type: ignore[arg-type]
    wait_for(lambda: (tmp_path / "b" / "recording.lock").exists())
    writing = writing_process(tmp_path / "b")
    os.kill(writing, signal.SIGSTOP)
    for _ in range(20):
        step(module, scheduler)
    wait_for(lambda: target._pipe.waiting > 0)
    with pytest.raises(FellBehind, match=r"the disk had not taken everything 0\.01 s after the end"):
        target.close(patience_seconds=0.01)
    wait_for(lambda: "had not taken everything" in stopped_of(tmp_path / "b"))
    os.kill(writing, signal.SIGCONT)
    target._thread.join()
    target.abandon()
    wait_for(lambda: recorder_of(tmp_path / "b") == GONE)
    assert verify(open_bundle(tmp_path / "b").parts[0], real).complete
