"""Leaving with work under way: a thread inside a native library must not meet the end of the interpreter.

A daemon thread that comes back from such a library while the interpreter is taken down is ended by unwinding its stack,
and the C++ in it aborts the process. So threads are waited for, and whom that does not end is left by `os._exit`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import NoReturn

PATIENCE_S = 1.0


def threads_left(patience_s: float = PATIENCE_S) -> list[threading.Thread]:
    """Wait for the threads of closed screens (`tsviz-…`), so many seconds together; return those that still run."""
    until = time.monotonic() + patience_s
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("tsviz-")]
    for thread in ours:
        thread.join(max(until - time.monotonic(), 0.0))
    return [thread for thread in ours if thread.is_alive()]


def leave_at_once(code: int) -> NoReturn:
    """End the process without taking the interpreter down; what was printed is out."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
