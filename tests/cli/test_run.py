"""`tsviz run`: a program that knows nothing of tsviz is recorded, and everything else about it is as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tsviz.replay.reexecution.verify import verify
from tsviz.trace.catalogue import TABLES
from tsviz.trace.reader import Part, open_bundle

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "adapters" / "plain_program.py"
TSVIZ = [sys.executable, "-c", "from tsviz.cli.main import main; main()"]


def start(out: Path, mode: str, *more: str | Path, **environment: str) -> subprocess.Popen[str]:
    """Start the program under `tsviz run`, for 20 rounds."""
    paths = os.pathsep.join(filter(None, [environment.pop("PYTHONPATH", ""), str(ROOT)]))
    return subprocess.Popen(
        [*TSVIZ, "run", "--out", str(out), "--", sys.executable, str(PROGRAM), "20", mode, *map(str, more)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths, "SPDLOG_LEVEL": "off"} | environment,
    )  # fmt: skip


def only_part(path: Path) -> Part:
    """Return the part of a bundle that has one."""
    (part,) = open_bundle(path).parts
    return part


def test_a_program_is_recorded_and_ends_as_it_would(real: ModuleType, tmp_path: Path) -> None:
    """Input, output and exit code 7 pass through, its own sitecustomize runs, and the trace holds no token."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "sitecustomize.py").write_text(
        "import sys\nif sys.orig_argv[1].endswith('plain_program.py'): print('their start')\n"
    )
    process = start(tmp_path / "out", "exit", PYTHONPATH=str(tmp_path / "theirs"))
    out, err = process.communicate("hello", timeout=60)
    assert (process.returncode, out) == (7, "their start\nserved by tsviz input hello\n")
    assert err == f"said on stderr\ntsviz: {tmp_path / 'out'}: F/0: 20 rounds\n"
    part = only_part(tmp_path / "out")
    assert verify(part, real).complete
    assert (part.token_mode, part.last_round, part.live) == ("identity", 20, False)
    assert part.table("submissions")["tail"].null_count == part.rows("submissions")


def test_a_killed_program_is_killed_for_its_caller_too(real: ModuleType, tmp_path: Path) -> None:
    """SIGKILL shows as SIGKILL, and what was committed opens and verifies."""
    process = start(tmp_path / "out", "kill", tmp_path / "out")
    _, err = process.communicate("", timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert "not closed (killed, or no room on the disk)" in err
    part = only_part(tmp_path / "out")
    assert verify(part, real).complete
    assert 0 < part.last_round <= 20


def test_a_signal_reaches_the_program(real: ModuleType, tmp_path: Path) -> None:
    """SIGTERM to `tsviz run` is SIGTERM to the program, which ends with 9; its bundle is closed."""
    process = start(tmp_path / "out", "wait")
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.stdin = None
    while process.stdout.readline() != "ready\n":
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 9
    assert open_bundle(tmp_path / "out").end is not None


@pytest.mark.parametrize("mode", ["fork", "pool"])
def test_a_child_process_has_a_bundle_of_its_own(real: ModuleType, tmp_path: Path, mode: str) -> None:
    """A forked child that builds a scheduler writes `out-2`; the parent's bundle is whole all the same."""
    process = start(tmp_path / "out", mode)
    process.communicate("", timeout=60)
    assert process.returncode == 7
    for path in (tmp_path / "out", tmp_path / "out-2"):
        bundle = open_bundle(path)
        assert bundle.end is not None
        assert all(verify(part, real).complete and part.last_round == 20 for part in bundle.parts)
        for part in bundle.parts:
            for name in TABLES:
                part.table(name)


def test_a_program_that_cannot_be_recorded_runs_all_the_same(real: ModuleType, tmp_path: Path) -> None:
    """Where no bundle can be made that alone is said, once, and output and exit code are the program's."""
    (tmp_path / "file").write_text("")
    process = start(tmp_path / "file" / "out", "exit")
    out, err = process.communicate("x", timeout=60)
    assert (process.returncode, out) == (7, "served by tsviz input x\n")
    assert err.count("tsviz: ") == err.count("tsviz: not recorded") == 1, err


def test_a_command_that_is_no_program_is_a_mistake_in_the_call(tmp_path: Path) -> None:
    """What cannot be started ends with 2 and its name."""
    run = subprocess.run(
        [*TSVIZ, "run", "--out", str(tmp_path / "out"), "--", "no-such-program-at-all"],
        capture_output=True, text=True, cwd=ROOT, timeout=60, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (2, "error: no-such-program-at-all: No such file or directory\n")
