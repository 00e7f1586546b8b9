"""A program that knows nothing of tsviz: `plain_program.py ROUNDS MODE` serves on the real scheduler, then ends.

MODE: `exit` (with 7), `kill` (SIGKILL to itself), `wait` (says so, and waits for SIGTERM, on which it exits with 9),
`done` (ends with 0), `raise` (nobody catches it),
`full` (no file may grow beyond 6,000 bytes),
`fork` (a child serves as well, then both exit), `pool` (a multiprocessing child serves), `inner` (classes are taken
from the extension module).
"""

import io
import multiprocessing
import os
import resource
import signal
import sys
import time
from pathlib import Path

import tokenspeed_scheduler

from tests.trace.recording_process import serve, small_config


def work(module=tokenspeed_scheduler, pause=0.0):
    """Serve so many rounds as the command line says."""
    serve(module, module.Scheduler(small_config(tokenspeed_scheduler)), io.StringIO(), pause, int(sys.argv[1]))


def ended(*_):
    """End as a server does that is asked to."""
    sys.exit(9)


if __name__ == "__main__":
    mode = sys.argv[2]
    print("served by", tokenspeed_scheduler.Scheduler.__module__.partition(".")[0], "input", sys.stdin.read())
    if mode == "inner":
        inner = tokenspeed_scheduler.tokenspeed_scheduler_ext
        tokenspeed_scheduler.Scheduler = inner.Scheduler
        tokenspeed_scheduler.ExecutionEvent = inner.ExecutionEvent
    if mode == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
    work()
    if mode == "kill":
        commits = Path(sys.argv[3], "parts", "F.0", *(sys.argv[4:] or ["hot"]), "commits.jsonl")
        while not (commits.exists() and commits.read_bytes()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "wait":
        signal.signal(signal.SIGTERM, ended)
        print("ready", flush=True)
        while True:
            time.sleep(0.05)
    if mode == "fork":
        child = os.fork()
        work()
        if child:
            os.waitpid(child, 0)
    if mode == "pool":
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join()
    if mode == "done":
        sys.exit(0)
    if mode == "raise":
        raise KeyError("a secret of the program")
    print("said on stderr", file=sys.stderr)
    sys.exit(7)
