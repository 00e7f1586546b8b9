"""A full disk ends the recording, not the recorded program; what was committed before stays readable."""

from __future__ import annotations

import errno
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.trace.recording_process import recorded
from tests.trace.test_followers import assert_whole, step
from tsviz.replay.reexecution.verify import verify
from tsviz.trace import compact, segments, writer
from tsviz.trace.errors import CannotRecord
from tsviz.trace.lock import GONE, recorder_of
from tsviz.trace.reader import open_bundle
from tsviz.trace.writer import BundleWriter


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that commits whenever it looks."""
    monkeypatch.setattr(writer, "TAKE_SECONDS", 0.01)
    monkeypatch.setattr(writer, "FLUSH_SECONDS", 0.0)


def wait_for(condition: Any) -> None:
    """Wait for the writer thread."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("room_bytes", [0, 1_000, 12_000, 60_000])
def test_the_program_goes_on_and_the_commits_stay(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_bytes: int
) -> None:
    """When a table's file raises ENOSPC the scheduler serves on; close() raises it; earlier commits verify."""
    left = [room_bytes]
    original = segments._Counting.write

    def write(self: Any, data: Any) -> int:
        left[0] -= memoryview(data).nbytes
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, data)

    monkeypatch.setattr(segments._Counting, "write", write)
    target = BundleWriter(tmp_path / "b", meta={})
    module, scheduler = recorded(real, target)

    def serve_on() -> bool:
        step(module, scheduler)
        return target.error is not None

    wait_for(serve_on)
    step(module, scheduler)
    with pytest.raises(OSError, match="No space left"):
        target.close()
    opened = open_bundle(tmp_path / "b")
    assert (opened.end, recorder_of(tmp_path / "b")) == (None, GONE)
    part = opened.parts[0]
    assert_whole(part)
    assert verify(part, real).complete
    assert part.rows("calls") > 0 or room_bytes < 60_000


def test_a_scheduler_that_is_built_after_the_failure_is_not_held_in_memory(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries are dropped like those of the schedulers before it."""

    def write(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(segments._Counting, "write", write)
    target = BundleWriter(tmp_path / "b", meta={})
    module, scheduler = recorded(real, target)
    step(module, scheduler)
    wait_for(lambda: target.error is not None)
    late = target.recorder(
        node="late", rank=0, config={"role": "Fused", "prefix_granularity": 4, "enable_l3_storage": False},
        engine={}, event_reader={}, now_ns=lambda: 0, clock="virtual", rule_set="0.1.24",
    )  # fmt: skip
    late.forward(1, 2)
    assert late.waiting_entries() == 0
    with pytest.raises(OSError, match="No space"):
        target.close()


def test_no_room_to_compact_leaves_the_hot_tables(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full at close costs the compaction only: the bundle is complete, closed and verifies."""

    def no_room(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(compact, "_write", no_room)
    target = BundleWriter(tmp_path / "b", meta={})
    module, scheduler = recorded(real, target)
    step(module, scheduler)
    with pytest.raises(OSError, match="No space"):
        target.close({"why": "done"})
    opened = open_bundle(tmp_path / "b")
    assert opened.end == {"why": "done"}
    assert not opened.parts[0].live
    assert opened.parts[0].rows("calls") == 18
    assert verify(opened.parts[0], real).complete
    assert not (opened.parts[0].directory / "cold.draft").exists()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 KiB; the test is skipped where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full(real: ModuleType, tiny_disk: Path) -> None:
    """On a file system of 200 KiB the recording stops with ENOSPC and verifies up to its last commit."""
    target = BundleWriter(tiny_disk / "b", meta={})
    module, scheduler = recorded(real, target)

    def serve_on() -> bool:
        step(module, scheduler)
        return target.error is not None

    wait_for(serve_on)
    with pytest.raises(OSError) as raised:
        target.close()
    assert raised.value.errno == errno.ENOSPC
    part = open_bundle(tiny_disk / "b").parts[0]
    assert part.rows("calls") > 100
    assert_whole(part)
    assert verify(part, real).complete
    with pytest.raises(CannotRecord, match="cannot be written"):
        BundleWriter(tiny_disk / "c", meta={})
