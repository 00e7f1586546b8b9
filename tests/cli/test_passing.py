"""Running another program: no signal is lost to a thread of a library, whichever moment it comes at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tsviz.cli.passing import run_through

ROOT = Path(__file__).resolve().parents[2]


def test_the_end_of_a_program_is_seen_though_a_thread_took_its_signal() -> None:
    """The program ends while something else is done, beside a thread that blocks no signal: its code is returned."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    ours, its = os.pipe()
    os.set_inheritable(ours, True)

    def meanwhile() -> None:
        os.write(its, b"end")
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # it ended just now, and not while signals are waited for

    try:
        program = f"import os; os.read({ours}, 3); raise SystemExit(5)"
        status = run_through([sys.executable, "-c", program], os.environ, meanwhile=meanwhile)
    finally:
        done.set()
        thread.join()
        os.close(ours)
        os.close(its)
    assert os.waitstatus_to_exitcode(status) == 5


@pytest.mark.timeout(60)
def test_what_cannot_be_started_ends_though_a_thread_takes_the_signal_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty times a program that is not there, beside threads that block no signal: an error each, no wait.

    The end of what could not be started is said to be pending still, as it was a moment before a thread took it.
    """
    monkeypatch.setattr(signal, "sigpending", lambda: {signal.SIGCHLD})
    done = threading.Event()
    threads = [threading.Thread(target=done.wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            with pytest.raises(FileNotFoundError):
                run_through(["no-such-program-at-all"], os.environ)
    finally:
        done.set()
        for thread in threads:
            thread.join()


_PASSES = """
import os, signal, sys, threading, time
from tsviz.cli.passing import held, run_through
sent = []
def meanwhile():
    if not sent:
        sent.append(os.kill(os.getpid(), signal.SIGTERM))
with held() as mask:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    program = "import signal; signal.sigwait({signal.SIGTERM}); print('asked to end')"
    starts = [sys.executable, "-c", "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {15});" + program]
    status = run_through(starts, os.environ, mask={signal.SIGTERM}, meanwhile=meanwhile)
sys.exit(os.waitstatus_to_exitcode(status) + 3)
"""


def test_a_signal_reaches_the_program_and_not_a_thread_that_a_library_started() -> None:
    """SIGTERM while something else is done, beside a thread that was started under `held`: the program gets it."""
    run = subprocess.run(
        [sys.executable, "-c", _PASSES], capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (3, "asked to end\n"), run.stderr


_EARLY = """
import os, signal
from tsviz.cli.passing import held, run_through
try:
    with held() as mask:
        os.kill(os.getpid(), signal.SIGINT)
        run_through(["/nonexistent"], os.environ, mask=mask)
except KeyboardInterrupt:
    print("interrupted", *signal.sigpending())
"""


def test_ctrl_c_before_there_is_a_program_ends_this_process() -> None:
    """A signal that was held while the program was not yet there is not swallowed, and nothing is started."""
    run = subprocess.run(
        [sys.executable, "-c", _EARLY], capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert run.stdout == "interrupted\n", run.stderr
