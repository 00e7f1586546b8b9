"""Following a recording: nothing is lost, nothing is shown before it is committed, and its end is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tests.trace.recording_process import recorded, serve
from tsviz.replay.follow import Follower
from tsviz.replay.follow_values import FINISHED, KILLED, LIVE, Look
from tsviz.replay.view import open_view
from tsviz.trace import layout, writer
from tsviz.trace.catalogue import TABLES
from tsviz.trace.errors import Damaged
from tsviz.trace.hot import HotTables
from tsviz.trace.lock import ALIVE, GONE, UNKNOWN, recorder_of
from tsviz.trace.reader import open_bundle
from tsviz.trace.tail import Tail
from tsviz.trace.writer import BundleWriter

_PATIENCE_S = 60.0


@contextmanager
def recording(bundle: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that records into a bundle, until the bundle has its first commit; end it behind the block."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: any(p.stat().st_size for p in bundle.glob(f"parts/*/hot/{layout.COMMITS_FILE}")))
        yield process
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(holds: object) -> None:
    """Wait until something holds."""
    until = time.monotonic() + _PATIENCE_S
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < until, "it did not come to hold"
        time.sleep(0.05)


class Nowhere:
    """A log that nobody reads."""

    def write(self, text: str) -> None:
        """Forget."""

    def flush(self) -> None:
        """Nothing to do."""


def test_a_tail_says_at_every_commit_what_reading_anew_says(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve times while a recording grows: every table by the tail equals every table read from the start."""
    monkeypatch.setattr(writer, "FLUSH_SECONDS", 0.0)
    target = BundleWriter(tmp_path / "b", meta={})
    module, scheduler = recorded(real, target)
    hot = layout.part_directory(tmp_path / "b", "N", 0) / layout.HOT
    tail, kept = Tail(hot), []
    for turn in range(12):
        serve_some(module, scheduler, turn)
        wait_for(tail.refresh)
        frozen, anew = tail.committed(), HotTables(hot)
        if anew.last_seq != frozen.last_seq:
            continue
        assert [list(frozen.batches(table)) for table in TABLES.values()] == [
            list(anew.batches(table)) for table in TABLES.values()
        ]
        kept.append((frozen, frozen.last_round, frozen.rows(TABLES["operations"])))
    target.close()
    assert len(kept) > 3
    for frozen, last_round, rows in kept:
        assert sum(batch.num_rows for batch in frozen.batches(TABLES["operations"])) == rows
        assert frozen.last_round == last_round


def serve_some(module: object, scheduler: object, turn: int) -> None:
    """Serve ten rounds; ids are used again, so each turn takes a scheduler that has nothing left to do with them."""
    plans = scheduler.next_execution_plan  # type: ignore[attr-defined]
    spec = module.RequestSpec()  # type: ignore[attr-defined]
    spec.request_id, spec.tokens = f"t{turn}", list(range(9))
    scheduler.submit_requests([spec])  # type: ignore[attr-defined]
    for _ in range(10):
        plans()


def test_a_follower_loses_no_round(real: ModuleType, tmp_path: Path) -> None:
    """A paced recorder, followed, left alone and caught up: each view has every committed round."""
    target = BundleWriter(tmp_path / "b", meta={})
    module, scheduler = recorded(real, target)
    follower = Follower(tmp_path / "b", "N", 0)
    assert recorder_of(tmp_path / "b") == ALIVE
    serve(module, scheduler, Nowhere(), 0.02, rounds=50)
    wait_for(lambda: follower.look().rounds > 0)
    view = follower.view()
    assert (follower.look().state, view.head.live) == (LIVE, True)
    numbers = [view.snapshot(r).round for r in range(1, view.head.rounds + 1)]
    assert numbers == list(range(1, view.head.rounds + 1))
    target.close({"parts": {"N/0": {"reason": "drained"}}})
    look = follower.look()
    assert (look.state, look.rounds, look.reason) == (FINISHED, 50, "drained")
    last, anew = follower.view(), open_view(open_bundle(tmp_path / "b"))
    assert not last.head.live
    assert [last.snapshot(r) for r in range(1, 51)] == [anew.snapshot(r) for r in range(1, 51)]


def test_a_real_recording_in_another_process_is_followed_to_its_end(real: ModuleType, tmp_path: Path) -> None:
    """`tsviz record` is stopped and continued while it is followed; at the end no round is missing."""
    bundle = tmp_path / "b"
    command = ("-m", "tsviz", "record", "--workload", "poisson:requests=400,rate=5", "--out", str(bundle),
               "--max-rounds", "6000")  # fmt: skip
    commits = bundle / "parts" / "F.0" / "hot" / "commits.jsonl"
    with recording(bundle, *command) as process:
        wait_for(lambda: commits.exists() and commits.read_bytes() != b"")
        os.kill(process.pid, signal.SIGSTOP)
        follower = Follower(bundle, "F", 0)
        first = follower.view()
        assert (follower.look().state, first.head.live) == (LIVE, True)
        behind = follower.look().rounds
        assert first.head.rounds == behind
        os.kill(process.pid, signal.SIGCONT)
        process.wait()
    look = follower.look()
    assert look.state == FINISHED
    last = follower.view()
    assert (last.head.rounds, last.head.live) == (look.rounds, False)
    assert look.rounds >= behind
    some = range(1, behind + 1, max(behind // 50, 1))
    assert [first.snapshot(r).rows for r in some] == [last.snapshot(r).rows for r in some]


def test_a_killed_recorder_is_said_to_be_killed(real: ModuleType, tmp_path: Path) -> None:
    """kill -9: what was committed stays, and once nothing came for two seconds the follower says that it was killed."""
    bundle = tmp_path / "b"
    with recording(bundle, "-m", "tests.trace.recording_process", str(bundle), str(tmp_path / "log")) as process:
        follower = Follower(bundle, "N", 0)
        assert follower.look().recorder == ALIVE
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    looks: list[Look] = []

    def killed() -> bool:
        looks.append(follower.look())
        return looks[-1].state == KILLED

    wait_for(killed)
    assert looks[-1].recorder == GONE
    assert follower.view().head.rounds == looks[-1].rounds > 0


def test_without_a_lock_nothing_is_claimed(real: ModuleType, tmp_path: Path) -> None:
    """A recording of an older version has no lock: whether its process lives is not known."""
    target = BundleWriter(tmp_path / "b", meta={})
    recorded(real, target)
    (tmp_path / "b" / "recording.lock").unlink()
    assert recorder_of(tmp_path / "b") == UNKNOWN
    target.close()
    assert not (tmp_path / "b" / "recording.lock").exists()


def test_damage_in_a_growing_trace_is_told(real: ModuleType, tmp_path: Path) -> None:
    """A byte that contradicts a commit is named by file, not shown."""
    target = BundleWriter(tmp_path / "b", meta={})
    module, scheduler = recorded(real, target)
    serve(module, scheduler, Nowhere(), 0.0, rounds=30)
    follower = Follower(tmp_path / "b", "N", 0)
    wait_for(lambda: follower.look().rounds == 30)
    path = layout.part_directory(tmp_path / "b", "N", 0) / layout.HOT / "operations.arrows"
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(Damaged, match=r"operations\.arrows"):
        follower.view()
    target.close(compacted=False)
