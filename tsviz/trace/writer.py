"""Writing a bundle: one thread turns the entries of all its schedulers into columns and commits them.

The recorded program never waits for it. Entries are taken when there is a lot of them, flushed and committed at least
once a second, so a killed process loses at most a second. At close the hot tables are compacted.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import compact, layout
from .backlog import LOOK_SECONDS, MOST_WAITING
from .bundle_folder import BundleFolder
from .catalogue import PLANS
from .entries import EventReader
from .errors import CannotRecord, FellBehind
from .plan_fields import ReadPlan
from .recorder import Recorder, drop
from .retention import Retention
from .ring import RingOptions, Rotation
from .tokens import FULL, MODES
from .written_part import WrittenPart

TAKE_SECONDS, _SLOW_SECONDS, _FEW_SECONDS = 0.01, 0.03, 0.05
"""How often entries are taken, how often where few had come, and how long few wait until they are taken."""
_FEW_ENTRIES = 16
"""Fewer are few: to wake up costs the loop thread the interpreter. Plans that wait are memory that it finds cold."""
_LOT_ENTRIES, _LOT_SECONDS = 256, 0.1
"""So many become columns at once, or what came in that time: columns of many cost little more than of one, but what a
forward touched holds its block tables until then."""
FLUSH_SECONDS = 0.9
_TAKE_ENTRIES = 512
_TURN_SECONDS, _PAUSE_SECONDS = 3e-4, 1e-6
"""How long the writer thread works before it lets the interpreter go, or the loop thread would have to wait for the
interpreter's switch interval (5 ms) whenever it comes back from the scheduler or from a kernel."""
_BEHIND_ENTRIES = 1024
"""With more entries than this to come, the writer thread takes its full share of the interpreter."""
_FLUSH_ROWS = 1 << 20


def _nothing() -> None:
    return


class _Turns:
    """Counts the time that the writer thread works on a part, and lets the loop thread in."""

    def __init__(self, part: WrittenPart) -> None:
        self._recorder, self._until = part.recorder, time.perf_counter() + _TURN_SECONDS

    def let_in(self) -> None:
        """Let the interpreter go where the turn is over, unless too much waits."""
        if time.perf_counter() > self._until and self._recorder.waiting_entries() < _BEHIND_ENTRIES:
            time.sleep(_PAUSE_SECONDS)
            self._until = time.perf_counter() + _TURN_SECONDS


class BundleWriter:
    """Creates a bundle and writes what its recorders append until `close`.

    `error` holds the exception that stopped the writer thread (a full disk, say); the recorded program goes on.
    """

    def __init__(
        self, path: Path, *, meta: Mapping[str, Any], tokens: str = FULL, ring: RingOptions | None = None,
        most_waiting: int | None = None, made: bool = False, retention: Retention | None = None,
        keeper_patience_s: float = 0.0, now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:  # fmt: skip
        """Make the directory `path` (it must not exist or be empty). `meta` becomes `bundle.json`'s `meta`.

        `ring`: a flight recorder, of whose segments the keeper makes bundles; `path` is where these lie, `OUT.ring`.
        `most_waiting`: where more entries than this wait for a disk that is too slow, plans are dropped (`backlog.py`).
        `keeper_patience_s`: how long the keeper of a ring is waited for (`Rotation`).
        `retention`: of the recordings beside it that were made with limits those that are beyond these are removed when
        it begins, every minute, and when it ends; one that reaches the limit in bytes by itself ends (`Full`).
        `now_ns`: the clock of the recorders, where that is neither the machine's nor a virtual one.
        `made`: the directory was made for this recording (`check_free`), and may hold what others put there since.

        Raises CannotRecord when the path is taken or cannot be made, ValueError for an unknown token mode.
        """
        if tokens not in MODES:
            raise ValueError(f"tokens: expected one of {', '.join(MODES)}, found {tokens!r}")
        self.path, self._tokens, self._ring = path, tokens, ring
        self._few = _FEW_ENTRIES if most_waiting is None else min(_FEW_ENTRIES, most_waiting)
        self._keeper_patience_s = keeper_patience_s
        self._parts: list[WrittenPart] = []
        self.error: BaseException | None = None
        self._flushed = time.monotonic()
        self._closed = False
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._folder = BundleFolder(path, meta, tokens, ring, retention, made=made, now_ns=now_ns)
        self._thread = threading.Thread(target=self._run, name="tsviz-writer", daemon=True)
        self._thread.start()
        self._watcher = threading.Thread(target=self._watch, args=(most_waiting,), name="tsviz-watch", daemon=True)
        self._watcher.start()

    def _watch(self, most_waiting: int | None) -> None:
        """Hold what waits within memory while the disk cannot keep up: the program's is not ours to fill."""
        while most_waiting is not None and not self._stop.wait(LOOK_SECONDS):
            try:
                with self._lock:
                    if self.error is not None:
                        return
                    for part in self._parts:
                        part.backlog.look(most_waiting)
            except FellBehind as error:
                self._fail(error)

    def recorder(
        self,
        *,
        node: str,
        rank: int,
        config: Mapping[str, Any],
        engine: Mapping[str, Any],
        event_reader: EventReader,
        now_ns: Callable[[], int],
        clock: str,
        rule_set: str,
        level: str = PLANS,
        read: ReadPlan | None = None,
    ) -> Recorder:
        """Open a part for one scheduler and return what its proxy appends to.

        `config` as `describe_config` gives it; `engine` names the scheduler and its version; `clock` is `virtual` or
        `monotonic`. At level `decisions` the recorder is also the scheduler's observer. `read` reads one plan, as
        `SharedPlans` does.
        """
        directory = layout.part_directory(self.path, node, rank)
        about = {
            "node": node, "rank": rank, "role": config["role"], "config": dict(config), "engine": dict(engine),
            "tokens": self._tokens, "clock": clock, "rule_set": rule_set, "digest": "plan/1",
            "level": level,
        }  # fmt: skip
        recorder = Recorder(now_ns)
        try:
            rotation = None if self._ring is None else Rotation(self._ring, directory, self._keeper_patience_s)
            part = WrittenPart(recorder, directory, about, rotation, event_reader, read)
            with self._lock:
                self._parts.append(part)
                self._folder.add(node, rank)
                if self.error is not None:
                    recorder.append = drop
        except OSError as error:
            raise CannotRecord(f"{directory}: cannot be written: {error.strerror}") from error
        return recorder

    def _run(self) -> None:
        try:
            taken, wait = time.monotonic(), TAKE_SECONDS
            while not self._stop.wait(wait):
                least = self._few if time.monotonic() - taken < _FEW_SECONDS else 1
                wait = max(TAKE_SECONDS, _SLOW_SECONDS)
                for part in list(self._parts):
                    while part.recorder.waiting_entries() >= least and not self._stop.is_set():
                        self._take(part, turns=True)
                        self._flush_if_due()
                        taken, least, wait = time.monotonic(), self._few, TAKE_SECONDS
                self._flush_if_due()
        except BaseException as error:
            self._fail(error)

    def _take_all(self) -> None:
        """Take what is there to the last entry."""
        for part in list(self._parts):
            while self._take(part, turns=False):
                self._flush_if_due()

    def _take(self, part: WrittenPart, *, turns: bool) -> bool:
        """Take what is there of a part, as far as it is not too much at once; return whether there was anything.

        `turns`: let the loop thread in between.
        """
        let_in = _Turns(part).let_in if turns else _nothing
        entries = part.recorder.take(_TAKE_ENTRIES)
        for entry in entries:
            part.writer.consume(entry)
            if part.rotation is not None:
                part.rotate_if_due(part.rotation, entry)
            let_in()
        if part.writer.unsettled >= _LOT_ENTRIES or time.monotonic() - part.settled >= _LOT_SECONDS:
            part.writer.settle(let_in)
            part.settled = time.monotonic()
        return bool(entries)

    def _flush_if_due(self) -> None:
        now = time.monotonic()
        if now - self._flushed >= FLUSH_SECONDS or any(p.writer.pending_rows > _FLUSH_ROWS for p in self._parts):
            for part in list(self._parts):
                part.writer.flush()
            self._flushed = now
            self._folder.limits.keep(now, self._written_bytes())

    def _written_bytes(self) -> int:
        return sum(part.segments.written_bytes for part in self._parts)

    def _fail(self, error: BaseException, *, hangs: bool = False) -> None:
        """End the recording; `hangs`: the disk does, so that nobody waits for what is said of it."""
        with self._lock:
            first, self.error = self.error is None, self.error or error
            for part in self._parts:
                part.recorder.append = drop
                part.recorder.take(1 << 62)
        if first:
            self._folder.stopped(error, hangs=hangs)

    def catch_up(self) -> None:
        """Wait while more than `MOST_WAITING` entries wait to be written: for who can wait, a run on virtual time."""
        while self.error is None and any(p.recorder.waiting_entries() > MOST_WAITING for p in self._parts):
            time.sleep(TAKE_SECONDS)

    def leave(self) -> None:
        """Commit what is left without closing the bundle: whoever recorded it was killed. Raises what went wrong."""
        self._closed = True
        self._stop.set()
        self._thread.join()
        if self.error is None:
            self._take_all()
            for part in self._parts:
                part.writer.flush()
        for part in self._parts:
            part.segments.close()
        if self.error is not None:
            raise self.error

    def abandon(self) -> None:
        """Forget the bundle in a child process behind a fork: no thread writes here, files and lock are the parent's.

        The recorders take entries and forget them.
        """
        self._closed = True
        self._folder.abandon()
        for part in self._parts:
            part.recorder.append = drop
            part.recorder.take(1 << 62)
            part.segments.abandon()

    def close(
        self, end: Mapping[str, Any] | None = None, *, compacted: bool = True, patience_seconds: float | None = None
    ) -> None:
        """Write what is left, compact the tables and close the bundle with `end` (why it ended, totals).

        `patience_seconds`: how long at most a disk is waited for that does not take what is being written.

        Raises what stopped the writer thread, or OSError when the compaction finds no room; what was committed before
        stays readable. A second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        self._stop.set()
        self._thread.join(patience_seconds)
        if self._thread.is_alive():
            self._fail(FellBehind(f"the disk took nothing for {patience_seconds:g} s at the end"), hangs=True)
            raise FellBehind(str(self.error))
        self._watcher.join(patience_seconds)
        if self.error is None:
            try:
                self._take_all()
                for part in self._parts:
                    part.writer.flush()
                    part.segments.finish()
                self._folder.limits.keep(math.inf, self._written_bytes())
            except BaseException as error:
                self._fail(error)
        for part in self._parts:
            part.segments.close()
        if self.error is not None:
            self._folder.abandon()
            raise self.error
        self._folder.end(end or {})
        if compacted and self._ring is None:
            for part in self._parts:
                compact.compact_part(part.directory)
