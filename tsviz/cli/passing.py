"""Running another program as if this process were not there: its exit code, its output, its signals."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NoReturn

_PASSED = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH,
)  # fmt: skip
_MEANWHILE_SECONDS = 0.25
_KERNEL = 0x80
"""`si_code` of a signal that the terminal sends: to every process in the foreground, the program among them."""


def run_through(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    ours: Collection[signal.Signals] = (),
    taken: Callable[[signal.Signals], None] = lambda _: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> int:
    """Run a command to its end and return its wait status. Raises OSError when it cannot be started.

    Signals that are sent to this process reach it, but for `ours`, which `taken` is called with; those of the terminal
    reach it anyway. `meanwhile` is called now and then.
    """
    waited = {signal.SIGCHLD, *_PASSED, *ours}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        default = [signal.SIGPIPE, signal.SIGXFSZ, *_PASSED]
        child = os.posix_spawnp(command[0], list(command), environment, setsigmask=before, setsigdef=default)
        while True:
            received = signal.sigtimedwait(waited, _MEANWHILE_SECONDS)
            meanwhile()
            if received is None:
                continue
            if received.si_signo in ours:
                taken(signal.Signals(received.si_signo))
                continue
            if received.si_signo != signal.SIGCHLD:
                if received.si_code != _KERNEL:
                    os.kill(child, received.si_signo)
                continue
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
    finally:
        for number in waited & signal.sigpending():  # what came too late for the program is not for us
            signal.sigwait({number})
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def vanish(status: int) -> NoReturn:
    """End this process as a wait status says: with the same exit code, or by the same signal."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        sys.stderr.flush()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
