"""Running another program as if this process were not there: its exit code, its output, its signals."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NoReturn

_PASSED = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH,
)  # fmt: skip
_MEANWHILE_SECONDS = 0.25
_KERNEL = 0x80
"""`si_code` of a signal that the terminal sends: to every process in the foreground, the program among them."""
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
_JOB_CONTROL = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT}
_TIMERS = {signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF}


@contextlib.contextmanager
def held() -> Iterator[set[signal.Signals]]:
    """Block what `run_through` waits for, before any library starts a thread; gives what was blocked before.

    A thread inherits what is blocked. One that lacked it would take a signal that comes while `meanwhile` runs: the end
    of the program would be lost, and a SIGTERM would end this process instead of the program.
    """
    signals = set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP} - _FAULTS - _JOB_CONTROL - _TIMERS
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_through(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    mask: Collection[signal.Signals] | None = None,
    ours: Collection[signal.Signals] = (),
    taken: Callable[[signal.Signals], None] = lambda _: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> int:
    """Run a command to its end and return its wait status. Raises OSError when it cannot be started.

    Signals that are sent to this process reach it, but for `ours`, which `taken` is called with; those of the terminal
    reach it anyway. `meanwhile` is called now and then. It starts with `mask` blocked, or with what is blocked here.
    """
    waited = {signal.SIGCHLD, *_PASSED, *ours}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    blocked = before if mask is None else mask
    try:
        if signal.sigpending() & set(_PASSED):  # it came before there was a program: it is meant for this process
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            signal.pthread_sigmask(signal.SIG_BLOCK, waited)
        default = [signal.SIGPIPE, signal.SIGXFSZ, *_PASSED]
        child = os.posix_spawnp(command[0], list(command), environment, setsigmask=blocked, setsigdef=default)
        while True:
            received = signal.sigtimedwait(waited, _MEANWHILE_SECONDS)
            meanwhile()
            if received is not None and received.si_signo in ours:
                taken(signal.Signals(received.si_signo))
            elif received is not None and received.si_signo != signal.SIGCHLD and received.si_code != _KERNEL:
                os.kill(child, received.si_signo)
            ended, status = os.waitpid(child, os.WNOHANG)  # each time: a thread here may have taken its SIGCHLD
            if ended:
                return status
    finally:
        # What came too late for the program is not for us; a thread here may have taken it a moment ago.
        while signal.sigtimedwait(waited, 0) is not None:
            pass
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
