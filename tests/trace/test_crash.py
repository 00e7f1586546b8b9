"""A process that is killed while it records loses at most what it did not commit, a second at the most."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from tsviz.replay.reexecution.verify import verify
from tsviz.trace import compact, layout
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import open_bundle

ROOT = Path(__file__).resolve().parents[2]


def start(bundle: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a process that records for ever."""
    command = [sys.executable, "-m", "tests.trace.recording_process", str(bundle), str(log)]
    return subprocess.Popen(command, cwd=ROOT)


def wait_for(condition: object, seconds: float = 60) -> None:
    """Wait until `condition()`."""
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.005)


def logged(log: Path) -> list[tuple[int, float]]:
    """Return (calls, time) of the whole lines of a log."""
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [(int(calls), float(when)) for calls, when in (line.split() for line in lines)]


@pytest.mark.parametrize("after_seconds", [0.0, 0.37, 0.95, 1.31, 4.2])
def test_a_killed_recording_verifies_up_to_its_last_commit(
    real: ModuleType, tmp_path: Path, after_seconds: float
) -> None:
    """`kill -9` leaves a bundle that opens, is marked live, verifies, and lacks no call older than the flush period."""
    bundle, log = tmp_path / "bundle", tmp_path / "log"
    process = start(bundle, log)
    try:
        wait_for(lambda: logged(log))
        time.sleep(after_seconds)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    killed = time.monotonic()
    opened = open_bundle(bundle)
    part = opened.parts[0]
    assert opened.end is None
    assert part.live
    found = verify(part, real)
    assert found.complete
    assert found.calls == part.rows("calls")
    # A second is the promise; twice that leaves room for a machine that is busy with other things.
    old = [calls for calls, when in logged(log) if when < killed - 2.0]
    assert part.rows("calls") >= max(old, default=0)
    assert part.rows("operations") == sum(
        row["prefill_rows"] + row["decode_rows"] for row in part.table("rounds").to_pylist()
    )
    # What was saved can be compacted, and is then the same.
    before = {name: part.table(name).to_pylist() for name in ("calls", "operations", "events", "submissions")}
    compact.compact_part(part.directory)
    again = open_bundle(bundle).parts[0]
    assert {name: again.table(name).to_pylist() for name in before} == before
    assert not (part.directory / layout.HOT).exists()


def test_a_killed_bundle_reads_as_a_prefix_wherever_its_commits_are_cut(real: ModuleType, tmp_path: Path) -> None:
    """Cutting the commits of a killed recording at any byte gives the rows of an earlier commit, whole and verified."""
    bundle, log = tmp_path / "bundle", tmp_path / "log"
    process = start(bundle, log)
    try:
        wait_for(lambda: bundle.exists() and commits(bundle).exists() and commits(bundle).read_bytes().count(b"\n") > 2)
    finally:
        process.kill()
        process.wait()
    data = commits(bundle).read_bytes()
    whole = open_bundle(bundle).parts[0].table("calls").to_pylist()
    lines = data.count(b"\n")
    seen = set()
    for cut in [*range(0, len(data), 37), len(data) - 1, len(data)]:
        commits(bundle).write_bytes(data[:cut])
        part = open_bundle(bundle).parts[0]
        calls = part.table("calls").to_pylist()
        assert calls == whole[: len(calls)]
        assert (part.torn is not None) == (
            cut != len(data) and data[:cut][-1:] not in (b"", b"\n") and data[cut : cut + 1] != b"\n"
        )
        seen.add(len(calls))
    assert len(seen) == lines + 1
    assert verify(open_bundle(bundle).parts[0], real).complete


def commits(bundle: Path) -> Path:
    """Return the file of commits of the only part."""
    return bundle / "parts" / "N.0" / "hot" / "commits.jsonl"


def test_a_killed_bundle_says_so_when_a_table_is_shorter_than_committed(tmp_path: Path) -> None:
    """A table that lost committed bytes is named with its size, not read as far as it goes."""
    bundle, log = tmp_path / "bundle", tmp_path / "log"
    process = start(bundle, log)
    try:
        wait_for(lambda: bundle.exists() and commits(bundle).exists() and commits(bundle).read_bytes().count(b"\n") > 0)
    finally:
        process.kill()
        process.wait()
    calls = commits(bundle).with_name("calls.arrows")
    calls.write_bytes(calls.read_bytes()[:100])
    with pytest.raises(TraceError, match=r"calls\.arrows: size: expected at least \d+ bytes, found 100 bytes"):
        open_bundle(bundle).parts[0].table("calls")
