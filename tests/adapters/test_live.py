"""Recording a program from inside it: `install`, with a flight recorder whose keeper it starts itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.trace.test_crash import wait_for
from tsviz.adapters.live import Live, LiveOptions
from tsviz.replay.overview import overview
from tsviz.replay.reexecution.verify import verify
from tsviz.scheduler import compat
from tsviz.trace.reader import open_bundle

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import io, sys
import tokenspeed_scheduler as package
from tests.trace.recording_process import serve, small_config
from tsviz.adapters.live import LiveOptions, install
ring = {"seconds": 60.0, "bytes": None, "triggers": [], "keep": 2}
install(package, LiveOptions(sys.argv[1], ring=ring))
serve(package, package.Scheduler(small_config(package)), io.StringIO(), 0.0, 30)
"""


def test_a_program_can_have_a_flight_recorder_by_itself(real: ModuleType, tmp_path: Path) -> None:
    """Two lines in the program: its last part is a trace when it has ended, and no folder is left."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "out")], capture_output=True, text=True, cwd=ROOT, timeout=100,
        env=os.environ | {"PYTHONPATH": str(ROOT), "SPDLOG_LEVEL": "off"}, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    wait_for(lambda: (tmp_path / "out").exists() and not (tmp_path / "out.ring").exists())
    bundle = open_bundle(tmp_path / "out")
    assert overview(bundle)["parts"][0]["ended"] == "ring: the recording ended"
    assert (bundle.parts[0].last_round, verify(bundle.parts[0], compat).complete) == (30, True)


def test_an_interrupt_while_it_waits_for_the_end_is_said_and_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second ctrl-C at the end of a program: one line that names the bundle, and no traceback of an exit function."""

    class Waiting:
        path = tmp_path / "out\x1b[2J"

        def close(self, *_: object, **__: object) -> None:
            raise KeyboardInterrupt

    live = Live(LiveOptions(str(tmp_path / "out")))
    live._writer = Waiting()  # type: ignore[assignment]
    live.close()
    shown = f"tsviz: {tmp_path}/out\ufffd[2J: interrupted: not waited for; what was sent by then is written\n"
    assert capsys.readouterr().err == shown
