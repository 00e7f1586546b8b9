"""Long work beside the screen: one thread a job, its answers as messages, and a job that is replaced says no more."""

from __future__ import annotations

import threading
from collections.abc import Callable

from textual.message import Message

from tsviz.tui.desk import Stream


class Told(Message):
    """A job of a kind has an answer; `value` is a `Done` behind the last one."""

    def __init__(self, kind: str, serial: int, value: object) -> None:
        super().__init__()
        self.kind = kind
        self.serial = serial
        self.value = value


class Done:
    """There are no more answers; `error` says why where something broke."""

    def __init__(self, error: str = "") -> None:
        self.error = error


class Jobs:
    """The jobs of one screen, newest of a kind only. Everything but `deliver` happens on the screen's thread."""

    def __init__(self, deliver: Callable[[Told], object]) -> None:
        self._deliver = deliver
        self._running: dict[str, tuple[int, Stream]] = {}
        self._serial = 0
        self._closed = False

    def start(self, kind: str, stream: Stream) -> None:
        """Read a stream on a thread; an older job of that kind ends."""
        self.cancel(kind)
        self._serial += 1
        self._running[kind] = (self._serial, stream)
        arguments = (kind, self._serial, stream)
        threading.Thread(target=self._read, args=arguments, name=f"tsviz-{kind}", daemon=True).start()

    def _read(self, kind: str, serial: int, stream: Stream) -> None:
        error = ""
        try:
            for value in stream:
                self._say(Told(kind, serial, value))
        except Exception as problem:  # whatever broke is shown, and the screen lives on
            error = f"{type(problem).__name__}: {problem}"
        self._say(Told(kind, serial, Done(error)))

    def _say(self, told: Told) -> None:
        if not self._closed:  # behind the end there is nobody to tell
            self._deliver(told)

    def wanted(self, told: Told) -> bool:
        """Return whether an answer is of the newest job of its kind; the last one ends the job."""
        running = self._running.get(told.kind)
        if running is None or running[0] != told.serial:
            return False
        if isinstance(told.value, Done):
            del self._running[told.kind]
        return True

    def running(self, kind: str) -> bool:
        """Return whether a job of that kind is at work."""
        return kind in self._running

    @property
    def busy(self) -> bool:
        """Whether any job is at work."""
        return bool(self._running)

    def cancel(self, kind: str) -> bool:
        """End the job of that kind; return whether there was one."""
        running = self._running.pop(kind, None)
        if running is not None:
            running[1].cancel()
        return running is not None

    def close(self) -> None:
        """End all; nothing is delivered any more. Does not wait."""
        self._closed = True
        for kind in list(self._running):
            self.cancel(kind)
