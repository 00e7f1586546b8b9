"""The keeper of a flight recorder: `python -m tsviz.replay.ring.keeper OUT.ring`, a process beside the recorded one.

It follows what the recorder commits, has every trigger look at it, drops the oldest segment once what is behind it is
enough (and makes the keyframe from which the rest is re-executed), and writes the kept part out as a trace: `OUT`,
`OUT.2`, ... It ends when the recording has: what is kept then is written out if that, or a crash, is a trigger. The
recorder never waits for it; killed, it can be started again, or `tsviz repair OUT.ring NEW` does its last step.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from tsviz.trace import layout
from tsviz.trace.drafts import draft
from tsviz.trace.endings import stopped_of
from tsviz.trace.errors import TraceError
from tsviz.trace.layout import RING_FILE
from tsviz.trace.lock import ALIVE, GONE, recorder_of
from tsviz.trace.reader import open_bundle
from tsviz.trace.ring import NOTHING_KEPT, SUFFIX, TOLD, TRIGGER_FILE
from tsviz.trace.whole import WholePart, write_whole

from .http import serve
from .join import PartRing, behind_gaps
from .triggers import END, QueryError, Watching, watching

POLL_SECONDS = 0.1
_DUTY = 4
"""Triggers look at most a fifth of the time."""
_FAULTS = 3
_START_SECONDS = 60.0
_CLOSE_SECONDS = 5.0
"""How long after its program a recording is closed at the latest, where no lock says it."""


class Keeper:
    """Keeps one ring."""

    def __init__(self, home: Path) -> None:
        """Raises `TraceError` when there is no ring at `home`."""
        self.home, self.out = home, home.with_name(home.name.removesuffix(SUFFIX))
        values = layout.read_json(home / RING_FILE)
        self._ring: dict[str, Any] = layout.field(home / RING_FILE, values, "ring", dict)
        self._triggers: list[str] = list(self._ring["triggers"]) or [END]
        self._watching: list[Watching] = watching(self._triggers)
        self._parts: dict[str, PartRing] = {}
        self._seen = 0
        self._looked, self._cost = 0.0, 0.0
        self.written: list[Path] = []
        self.problems: list[str] = []

    def step(self, *, last: bool = False) -> bool:
        """Do what there is to do; return whether there was anything. Raises `TraceError`, OSError."""
        parts = self.parts()
        did = False
        if (self.home / TRIGGER_FILE).exists() and not any(part.behind for part in parts):
            reason = (self.home / TRIGGER_FILE).read_text()[:200]
            (self.home / TRIGGER_FILE).unlink()
            self.write_out(reason)
            did = True
        rounds = sum(part.last_round() for part in parts)
        due = last or any(part.behind for part in parts) or time.monotonic() - self._looked > _DUTY * self._cost
        if self._watching and rounds > self._seen and due:
            self._seen = rounds
            self._look()
            did = True
        if self._seen >= rounds or not self._watching:
            did = self._drop(parts) or did
        return did

    def parts(self) -> list[PartRing]:
        """Return what is kept of every scheduler there is by now. Raises `TraceError`."""
        values = layout.read_json(self.home / RING_FILE)
        description = {name: value for name, value in values.items() if name != "ring"}
        names = layout.part_names(self.home, values) if values["parts"] else []
        seconds, limit = self._ring["seconds"], self._ring["bytes"]
        window = None if seconds is None else int(seconds * 1e9)
        share = None if limit is None else limit // max(1, len(names))
        for node, rank in names:
            directory = layout.part_directory(self.home, node, rank)
            if directory.name not in self._parts and (directory / layout.PART_FILE).exists():
                self._parts[directory.name] = PartRing(self.home, directory, description, window, share)
        return list(self._parts.values())

    @staticmethod
    def _drop(parts: list[PartRing]) -> bool:
        for part in parts:
            if part.droppable():
                part.advance()
                return True
        return False

    def _look(self) -> None:
        """Have the triggers look at what is kept, and write it out if one fires."""
        began = time.monotonic()
        with draft(self.home, "looking-", own=True) as place:
            parts = [part for part in self.parts() if part.last_round()]
            kept = [part.joined() for part in parts]
            planned = [
                part.with_plans(whole, place / part.name.replace("/", "."))
                for part, whole in zip(parts, kept, strict=True)
            ]
            write_whole(place / "bundle", parts[0].description, planned, self._end(""))
            opened = open_bundle(place / "bundle")
            reasons = []
            for trigger in self._watching:
                try:
                    reasons.append(trigger.fired(opened))
                except QueryError as error:
                    self._problem(str(error))
            fired = [reason for reason in reasons if reason]
            if fired:
                self._put(self._free(), parts[0].description, kept, "; ".join(fired))
        self._looked = time.monotonic()
        self._cost = self._looked - began

    def write_out(self, reason: str) -> Path | None:
        """Write what is kept as a trace, for a reason; None when nothing is there yet."""
        if not any(part.last_round() for part in self.parts()):
            return None
        path = self._free()
        self._write(path, reason)
        return path

    def _write(self, path: Path, reason: str) -> None:
        parts = [part for part in self.parts() if part.last_round()]
        self._put(path, parts[0].description, [part.joined() for part in parts], reason)

    def _put(self, path: Path, description: Mapping[str, Any], kept: list[WholePart], reason: str) -> None:
        """Write what is kept, with the state behind each gap in it."""
        with draft(self.home, "writing-", own=True) as place:
            whole = [behind_gaps(part, description, place / str(number)) for number, part in enumerate(kept)]
            write_whole(path, description, whole, self._end(reason))

    def _end(self, reason: str) -> dict[str, Any]:
        names = {part.name: {"reason": f"ring: {reason}"} for part in self._parts.values()}
        keyframes = [f"{part.name}: {part.said}" for part in self._parts.values() if part.said]
        told = [*self.problems, *(f"{words}: there is no keyframe, it cannot be re-executed" for words in keyframes)]
        return {"parts": names, "error": "; ".join(told) or None}

    def _free(self) -> Path:
        """Return where the next trace goes, making room among those that were written before."""
        while len(self.written) >= self._ring["keep"]:
            shutil.rmtree(self.written.pop(0), ignore_errors=True)
        number, path = 1, self.out
        while path.exists() or path in self.written:
            number += 1
            path = self.out.with_name(f"{self.out.name}.{number}")
        self.written.append(path)
        return path

    def _problem(self, words: str) -> None:
        if words not in self.problems:
            self.problems.append(words[:300])
            with contextlib.suppress(OSError):  # the log is on the disk that may be full
                print(words, file=sys.stderr, flush=True)

    def crash(self, *, closed: bool, status: int = 0) -> str:
        """Return why the end is a crash, empty for one that is none; `status` is the exit code of the program."""
        if not closed:
            stopped = stopped_of(self.home)
            return f"recording had to stop, {stopped}" if stopped else "the process ended without closing the recording"
        try:
            words = layout.read_json(self.home / layout.END_FILE).get("crash")
        except TraceError:
            words = "what says how the recording ended cannot be read"
        return str(words)[:200] if words else f"the program ended with {status}" if status else ""

    def waits_for_status(self) -> bool:
        """Return whether it matters how the program ended, whose recording was closed."""
        return END not in self._triggers and not self.crash(closed=True)

    def finish(self, crash: str) -> int:
        """Write out what is kept if the end, or a crash, is a reason to; take the ring away. Returns an exit code."""
        while self.step(last=True):
            pass
        code = 0
        if crash:
            code = 0 if self.write_out(f"crash: {crash}") is not None else NOTHING_KEPT
        elif END in self._triggers:
            self.write_out("the recording ended")
        shutil.rmtree(self.home, ignore_errors=True)
        return code


class Told:
    """What is told of the program by whoever started this keeper, on the input: its exit code, once it has ended."""

    def __init__(self, source: BinaryIO | io.FileIO) -> None:
        self.done = threading.Event()
        self.status = 0
        self._source, self._ended = source, 0.0
        threading.Thread(target=self._read, name="tsviz-told", daemon=True).start()

    def _read(self) -> None:
        words = self._source.read(16).decode("ascii", "replace").strip()
        if words.lstrip("-").isdigit():
            self.status, self._ended = int(words), time.monotonic()
        self.done.set()

    def long_ago(self) -> bool:
        """Return whether the program has ended, and its recording had the time to."""
        return self._ended > 0 and time.monotonic() - self._ended > _CLOSE_SECONDS


def keep(home: Path, told: Told | None = None) -> int:
    """Keep a ring until its recording has ended. Returns an exit code.

    A recording has ended when it is closed, when its lock is nobody's, or, where there are no locks, when the program
    has ended long enough ago.
    """
    until = time.monotonic() + _START_SECONDS
    while not (home / RING_FILE).exists() and time.monotonic() < until:
        time.sleep(POLL_SECONDS)  # the recorder makes the folder first
    keeper, faults, server = Keeper(home), 0, None
    for text in keeper._triggers:
        if text.startswith("http:"):
            server = serve(home, int(text.removeprefix("http:")))
    while True:
        closed = (home / layout.END_FILE).exists()
        recorder = recorder_of(home)
        ended = closed or recorder == GONE or (recorder != ALIVE and told is not None and told.long_ago())
        try:
            if ended:
                closed = closed or (home / layout.END_FILE).exists()
                if closed and told is not None and keeper.waits_for_status():
                    told.done.wait()
                return keeper.finish(keeper.crash(closed=closed, status=told.status if told is not None else 0))
            if not keeper.step():
                time.sleep(POLL_SECONDS)
        except (TraceError, OSError, ValueError, KeyError) as error:
            faults += 1
            with contextlib.suppress(OSError):  # the log is on the disk that may be full
                traceback.print_exc()
                if faults > _FAULTS:
                    print(f"the keeper gives up: {error}", file=sys.stderr, flush=True)
            if faults > _FAULTS:
                return 1
            time.sleep(POLL_SECONDS)
        finally:
            if ended and server is not None:
                server.shutdown()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # `tsviz run` holds its program's signals, and started this
    with contextlib.suppress(OSError):
        os.nice(10)
    told_on = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115  # no lock that outlives the end
    sys.exit(keep(Path(sys.argv[1]), Told(told_on) if TOLD in sys.argv[2:] else None))
