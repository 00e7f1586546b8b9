"""A disk that is slow, full, or turns read-only: the recorded program never waits for it and never fails."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.trace.recording_process import recorded
from tests.trace.test_followers import step
from tests.trace.test_full_disk import wait_for
from tsviz.replay.overview import overview
from tsviz.replay.redaction.survives import survey
from tsviz.replay.reexecution.verify import verify
from tsviz.scheduler import compat
from tsviz.trace import apart, segments, writer
from tsviz.trace.apart import ApartWriter
from tsviz.trace.errors import FellBehind
from tsviz.trace.lock import GONE, recorder_of
from tsviz.trace.reader import open_bundle
from tsviz.trace.repair import repair
from tsviz.trace.writer import BundleWriter

STOPPED = r"had to stop .* at 20\d\d-.* UTC: FellBehind: \d+ entries waited to be written, more than 100"
ROOT = Path(__file__).resolve().parents[2]


def stops_of(about: dict[str, Any]) -> list[str]:
    """Return what `info` warns of a recording that had to stop."""
    return [words for words in about["warnings"] if "had to stop" in words]


class Stuck:
    """A disk whose second flush comes back only when it is let; the writer commits whenever it looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writer, "FLUSH_SECONDS", 0.0)
        self.entered, self.let = threading.Event(), threading.Event()
        original = segments.HotSegments.commit

        def commit(segment: Any, last_round: int, last_seq: int) -> None:
            if segment._sequence:
                self.entered.set()
                self.let.wait(60)
            original(segment, last_round, last_seq)

        monkeypatch.setattr(segments.HotSegments, "commit", commit)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Stuck:
    """A disk that hangs."""
    return Stuck(monkeypatch)


def test_the_program_does_not_wait_for_a_slow_disk_and_its_memory_is_not_filled(
    real: ModuleType, tmp_path: Path, stuck: Stuck
) -> None:
    """With a disk that hangs calls go on; at 100 calls recording ends, and what was committed verifies."""
    target = BundleWriter(tmp_path / "b", meta={}, most_waiting=20)
    module, scheduler = recorded(real, target)

    def serve_on() -> bool:
        step(module, scheduler)
        return isinstance(target.error, FellBehind)

    wait_for(serve_on)
    before = target._parts[0].recorder.waiting_entries()
    step(module, scheduler)
    assert target._parts[0].recorder.waiting_entries() == before == 0
    stuck.let.set()
    with pytest.raises(FellBehind, match=r"\d+ entries waited to be written, more than 100"):
        target.close()
    bundle = open_bundle(tmp_path / "b")
    assert bundle.parts[0].rows("calls") > 0
    assert verify(bundle.parts[0], real).complete
    (said,) = stops_of(overview(bundle))
    assert re.search(STOPPED, said)
    repair(tmp_path / "b", tmp_path / "sound")
    sound = open_bundle(tmp_path / "sound")
    assert sound.end is not None and re.search(STOPPED, sound.end["error"])
    assert any(left.place == "stopped.json" and left.private for left in survey(bundle))
    (tmp_path / "b" / "stopped.json").write_text("{")
    (damaged,) = stops_of(overview(bundle))
    assert "stopped.json is damaged" in damaged


def test_a_writing_process_that_is_too_slow_ends_the_recording(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program, at whose end of the pipe entries wait, says why and when; what came through verifies."""
    target = ApartWriter(tmp_path / "b", meta={}, most_waiting=20)
    module, scheduler = recorded(real, target)
    step(module, scheduler)
    wait_for(lambda: list((tmp_path / "b").glob("parts/*/hot/commits.jsonl")))

    def too_many(*_: object) -> None:
        raise FellBehind("101 entries waited to be written, more than 100")

    monkeypatch.setattr(apart.Backlog, "look", too_many)
    wait_for(lambda: target.error is not None)
    step(module, scheduler)
    with pytest.raises(FellBehind):
        target.close()
    wait_for(lambda: recorder_of(tmp_path / "b") == GONE)
    bundle = open_bundle(tmp_path / "b")
    assert verify(bundle.parts[0], real).complete
    assert re.search(STOPPED, stops_of(overview(bundle))[0])


def test_the_end_of_a_program_does_not_wait_for_a_disk_that_hangs(
    real: ModuleType, tmp_path: Path, stuck: Stuck
) -> None:
    """Closing gives up after its patience; the bundle is one of a killed recording, and can be repaired."""
    target = BundleWriter(tmp_path / "b", meta={})
    module, scheduler = recorded(real, target)

    def hangs() -> bool:
        step(module, scheduler)
        return stuck.entered.is_set()

    wait_for(hangs)
    with pytest.raises(FellBehind, match=r"the disk took nothing for 0\.01 s at the end"):
        target.close(patience_seconds=0.01)
    assert open_bundle(tmp_path / "b").end is None
    target._folder._lock.release()
    repair(tmp_path / "b", tmp_path / "sound")
    assert verify(open_bundle(tmp_path / "sound").parts[0], compat).complete
    stuck.let.set()
    target._thread.join()


def test_a_disk_that_turns_read_only_costs_what_was_not_committed(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EROFS in the middle: the program serves on, and earlier commits verify."""
    monkeypatch.setattr(writer, "FLUSH_SECONDS", 0.0)
    target = BundleWriter(tmp_path / "b", meta={})
    module, scheduler = recorded(real, target)
    step(module, scheduler)
    commits = tmp_path / "b" / "parts" / "N.0" / "hot" / "commits.jsonl"
    wait_for(lambda: commits.read_bytes())

    def refused(*_: Any) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(segments._Counting, "write", refused)

    def serve_on() -> bool:
        step(module, scheduler)
        return target.error is not None

    wait_for(serve_on)
    with pytest.raises(OSError, match="Read-only file system"):
        target.close()
    assert verify(open_bundle(tmp_path / "b").parts[0], real).complete


def test_a_program_under_tsviz_run_survives_a_full_disk(real: ModuleType, tmp_path: Path) -> None:
    """Where no file may be larger than 6 kB the program ends as it would, and the trace is whole up to a commit."""
    program = ROOT / "tests" / "adapters" / "plain_program.py"
    run = subprocess.run(
        [sys.executable, "-c", "from tsviz.cli.main import main; main()", "run", "--out", str(tmp_path / "out"), "--",
         sys.executable, str(program), "150", "full"],
        input="", capture_output=True, text=True, cwd=ROOT, timeout=100, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert run.returncode == 7
    assert "File too large" in run.stderr or "not closed" in run.stderr
    part = open_bundle(tmp_path / "out").parts[0]
    assert verify(part, compat).complete
    assert part.last_round < 150
