"""Recording with a process of its own that writes: what is left to this one is reading plans and events off the loop.

A thread takes the entries, reads them (`wire.py`) and puts them into a pipe; everything else (differences, digests,
columns, compression, the disk) happens beyond the interpreter's lock. The writing process (`apart_process.py`) is no
child of this one, so that a program that waits for its children never sees it. If this process is killed the pipe ends,
and what had come through is committed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import layout
from .aside import Aside
from .backlog import LOOK_SECONDS, Backlog
from .bundle_folder import check_free
from .catalogue import PLANS
from .endings import say_stopped
from .entries import EventReader
from .errors import CannotRecord, FellBehind
from .frame_pipe import FramePipe
from .recorder import Bell, Recorder, drop
from .retention import Retention
from .ring import RingOptions
from .tokens import FULL, MODES
from .wire import Encoder

HEADER = struct.Struct("<BHI")
"""Kind, part, length of what follows."""
OPEN, PART, ENTRY, CLOSE, LOOP = range(5)
BUSY_SECONDS, LULL_SECONDS, IDLE_SECONDS = 0.002, 0.005, 0.02
"""How long entries are left to come together: behind some that were there, behind none, and where none came for long.

A plan that is kept is memory which its scheduler finds cold: few rounds of it are cheaper for the loop than many. A
loop that waits for a device is read while it waits, and not in its next round (measured: docs/performance.md)."""
_LULLS = 50
_FRAMES = 8
"""So many go into the pipe at once: each write wakes the other process."""
_SAY_SECONDS = 0.2
_RESULT = "ExtendResult"
_START = "import subprocess,sys;subprocess.Popen(sys.argv[1:],start_new_session=True)"
"""Starts the writing process and ends: that one then has no parent here."""


@dataclass(slots=True)
class _Part:
    recorder: Recorder
    encoder: Encoder
    backlog: Backlog
    told: bytes
    """What the other end is to know of it; empty once that was sent."""
    loop: int | None = None
    """The thread that plans, once the other end knows it."""


class ApartWriter:
    """A `BundleWriter` whose work is done in a process of its own. `error` is what ended the recording."""

    def __init__(
        self, path: Path, *, meta: Mapping[str, Any], tokens: str = FULL, ring: RingOptions | None = None,
        most_waiting: int | None = None, retention: Retention | None = None,
    ) -> None:  # fmt: skip
        """Make the directory `path` and start the process. As `BundleWriter`.

        Raises CannotRecord when the path is taken or the process cannot be started, ValueError for a token mode.
        """
        if tokens not in MODES:
            raise ValueError(f"tokens: expected one of {', '.join(MODES)}, found {tokens!r}")
        self.path, self._tokens, self._most_waiting = path, tokens, most_waiting
        self.error: BaseException | None = None
        self._parts: list[_Part] = []
        self._closed = False
        self._stop, self._lock, self._bell = threading.Event(), threading.Lock(), Bell()
        try:
            check_free(path)
            there, self._answer = _start()
            self._pipe = FramePipe(there)
        except OSError as error:
            raise CannotRecord(f"{path}: cannot be written: {error.strerror or error}") from error
        self._send(
            OPEN, 0,
            _json({"path": str(path), "meta": dict(meta), "tokens": tokens, "ring": ring and ring.values(),
                   "retention": retention and retention.values()}),
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run, name="tsviz-writer", daemon=True)
        self._thread.start()
        self._watcher = threading.Thread(target=self._watch, name="tsviz-watch", daemon=True)
        self._watcher.start()

    def recorder(
        self, *, node: str, rank: int, config: Mapping[str, Any], engine: Mapping[str, Any], event_reader: EventReader,
        now_ns: Callable[[], int], clock: str, rule_set: str, level: str = PLANS,
    ) -> Recorder:  # fmt: skip
        """Open a part for one scheduler, as `BundleWriter.recorder`; no decisions. Raises ValueError for a node."""
        layout.part_directory(self.path, node, rank)
        recorder = Recorder(now_ns, self._bell)
        result = next((kind for kind in event_reader if kind.__name__ == _RESULT), None)
        encoder = Encoder(event_reader, result, content=self._tokens == FULL)
        told = {"node": node, "rank": rank, "config": dict(config), "engine": dict(engine), "clock": clock,
                "rule_set": rule_set, "level": level}  # fmt: skip
        self._parts.append(_Part(recorder, encoder, Backlog(recorder, self._pipe), _json(told)))
        if self.error is not None:
            recorder.append = drop
        return recorder

    def _send(self, kind: int, part: int, data: bytes) -> None:
        """Write a frame (one thread at a time). Raises OSError when the other end is gone."""
        self._pipe.put(HEADER.pack(kind, part, len(data)) + data)

    def _run(self) -> None:
        try:
            aside, empty = Aside((0,)), 0
            while not self._stop.is_set():
                aside.look(self._loops(), time.monotonic())
                empty = 0 if self._take_all() else empty + 1
                self._pipe.drain()
                self._bell.wait(LULL_SECONDS if 0 < empty <= _LULLS else IDLE_SECONDS if empty else BUSY_SECONDS)
            self._take_all()
            self._pipe.drain_all()
        except BaseException as error:
            self._fail(error)

    def _loops(self) -> list[tuple[int, int]]:
        return [(os.getpid(), part.loop) for part in self._parts if part.loop is not None]

    def _take_all(self) -> bool:
        """Read what is there and send it; return whether there was anything."""
        took = False
        for number, part in enumerate(list(self._parts)):
            if part.told:
                self._send(PART, number, part.told)
                part.told = b""
            if part.loop != part.recorder.loop:
                part.loop = part.recorder.loop
                self._send(LOOP, number, _json({"process": os.getpid(), "thread": part.loop}))
            frames: list[bytes] = []
            while (data := part.recorder.read_one(part.encoder.encode)) is not None:
                frames.append(HEADER.pack(ENTRY, number, len(data)) + data)
                # Writing lets the loop have the interpreter. What waits in the pipe is counted in frames.
                if len(frames) == _FRAMES or self._pipe.waiting:
                    self._pipe.put(b"".join(frames))
                    frames.clear()
                took = True
            if frames:
                self._pipe.put(b"".join(frames))
        return took

    def _watch(self) -> None:
        """Hold what waits within memory while the other process cannot keep up: the program's is not ours to fill."""
        while self._most_waiting is not None and not self._stop.wait(LOOK_SECONDS):
            try:
                with self._lock:
                    if self.error is not None:
                        return
                    for part in list(self._parts):
                        part.backlog.look(self._most_waiting)
            except FellBehind as error:
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, BrokenPipeError):
            error = OSError(self._last_words(1.0) or "the writing process ended")
        with self._lock:
            first, self.error = self.error is None, self.error or error
            for part in list(self._parts):
                part.recorder.append = drop
                part.recorder.take(1 << 62)
            self._pipe.clear()
        if first and isinstance(error, FellBehind):  # what else there is the writing process says
            say_stopped(self.path, error)

    def _say_late(self, error: FellBehind) -> None:
        """Say in the bundle that its end is missing, without waiting for a disk that hangs."""
        teller = threading.Thread(target=say_stopped, args=(self.path, error), daemon=True)
        teller.start()
        teller.join(_SAY_SECONDS)

    def _last_words(self, seconds: float) -> str:
        """Return what the writing process said at its end, waiting for it for so long at most."""
        words, until = b"", time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self._answer], [], [], left)[0]:
                more = os.read(self._answer, 1 << 16)
                if not more:
                    break
                words += more
        return words.decode("utf-8", "replace").strip()

    def abandon(self) -> None:
        """Forget the recording in a child process behind a fork: the pipe is the parent's."""
        self._closed = True
        self._stop.set()
        for part in self._parts:
            part.recorder.append = drop
            part.recorder.take(1 << 62)
        with contextlib.suppress(OSError):
            self._pipe.close()
        with contextlib.suppress(OSError):
            os.close(self._answer)

    def close(
        self, end: Mapping[str, Any] | None = None, *, compacted: bool = True, patience_seconds: float | None = None
    ) -> None:
        """Send what is left and have the bundle closed with `end`. Raises what ended the recording, or FellBehind.

        With `patience_seconds` it waits so long at most; what was sent by then is written and closed later.
        """
        if self._closed:
            return
        self._closed = True
        self._stop.set()
        self._bell.ring()
        until = None if patience_seconds is None else time.monotonic() + patience_seconds
        self._thread.join(patience_seconds)
        self._watcher.join(patience_seconds)
        said = ""
        try:
            if self._thread.is_alive():
                self._say_late(
                    error := FellBehind(f"the disk had not taken everything {patience_seconds:g} s after the end")
                )
                raise error
            if self.error is None:
                self._send(CLOSE, 0, _json({"end": dict(end or {}), "compacted": compacted}))
                self._pipe.drain_all()
        except OSError as error:
            self._fail(error)
        self._pipe.close()
        if self.error is None:
            said = self._last_words(3600.0 if until is None else max(0.0, until - time.monotonic()))
            if said != "closed" and (said or until is None):
                self.error = OSError(said or "the writing process ended")
        os.close(self._answer)
        if self.error is not None:
            raise self.error


def _start() -> tuple[int, int]:
    """Start the writing process; return the pipe to it and the one from it. Raises OSError."""
    environment = {name: value for name, value in os.environ.items() if name != "TSVIZ_RUN"}
    environment["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
    there, ours = os.pipe()
    answer, said = os.pipe()
    try:
        subprocess.run(
            [sys.executable, "-S", "-E", "-c", _START, sys.executable, "-P", "-m", "tsviz.trace.apart_process"],
            stdin=there, stdout=said, stderr=subprocess.DEVNULL, env=environment, check=True, timeout=60,
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        raise OSError(f"the writing process could not be started ({type(error).__name__})") from None
    finally:
        os.close(there)
        os.close(said)
    return ours, answer


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=True).encode()
