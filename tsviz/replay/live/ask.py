"""Live states without waiting: a worker process re-executes, the session asks, takes what has come, and goes on.

A worker that crashes, hangs or cannot read the trace is a value (`Nothing`), never an exception on the way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from tsviz.query import frames
from tsviz.replay.keyframes.packed import Malformed
from tsviz.replay.reexecution.verify import Divergence

from .as_bytes import from_bytes
from .run import Place
from .state import LiveState
from .worker import FRONTIER, NOTHING, PLACE, STATE, TABLE, TOLD

_KEPT = 96
_STARTS = 3
_FRAME_LIMIT_BYTES = 1 << 31
_ERROR_BYTES = 1 << 16
WORKER = [sys.executable, "-P", "-m", "tsviz.replay.live.worker"]


@dataclass(frozen=True, slots=True)
class Nothing:
    """Why there is no live state (or no decisions): a `cause` of the list, and the same in words.

    pending: it is being made, or rounds before it are being verified; ask again. superseded: another position was
    asked for. diverged: the twin leaves the recording there. no_round: the trace has no such round. unreadable: the
    trace cannot be re-executed. crashed: the worker ended, again and again. hung: it did not answer and was stopped.
    closed: the session was closed.
    """

    cause: str
    words: str


@dataclass(frozen=True, slots=True)
class Proven:
    """How far the recording is proven: rounds `first_round` to `verified_round` were made again and are equal.

    `done`: nothing more will be verified. Behind a divergence nothing is derived.
    """

    first_round: int
    verified_round: int
    recorded_round: int
    done: bool
    divergence: Divergence | None

    @property
    def words(self) -> str:
        """recorded, verified to N, verified, or diverged at N."""
        if self.divergence is not None:
            return f"diverged at {self.divergence.round:,}"
        if self.verified_round < self.first_round:
            return "recorded"
        return "verified" if self.verified_round >= self.recorded_round else f"verified to {self.verified_round:,}"


class Live:
    """The near end of a worker. Safe to use from several threads."""

    def __init__(
        self, path: Path, node: str, rank: int, first: int, recorded: int, *, hang_seconds: float = 180.0
    ) -> None:
        """Nothing is started before the first question. `hang_seconds`: without a word for so long, it is stopped."""
        self._line = json.dumps({"path": str(path.absolute()), "node": node, "rank": rank}) + "\n"
        self._hang_seconds = hang_seconds
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._number = 0
        self._open: dict[int, tuple[str, int, int | None]] = {}
        self._heard = 0.0
        self._last_words = ""
        self._states: OrderedDict[Place, bytes] = OrderedDict()
        self._told: OrderedDict[int, dict[str, pa.Table]] = OrderedDict()
        self._arriving: dict[str, pa.Table] = {}
        self._refused: dict[tuple[str, int, int | None], Nothing] = {}
        self._end: Nothing | None = None
        self._frontier = Proven(first, first - 1, recorded, False, None)

    @property
    def proven(self) -> Proven:
        """How far verification is, as last heard. Starts it."""
        with self._changed:
            self._start()
            return self._frontier

    def wait_verified(self, round_: int, seconds: float) -> Proven:
        """Wait until a round is verified or never will be, for so long at most."""
        self._wait(seconds, lambda: self._frontier.verified_round >= round_ or self._frontier.done or self._end)
        return self.proven

    def ask(self, place: Place) -> None:
        """Have the state at a place made, if it is not here, without waiting."""
        with self._changed:
            if place not in self._states:
                self._ask("state", *place)

    def state(self, place: Place, seconds: float) -> LiveState | Nothing:
        """Return the state at a place, waiting for it for so long at most."""
        key = ("state", *place)
        self._wait(seconds, lambda: place in self._states or key in self._refused or self._end, key)
        with self._changed:
            data = self._states.get(place)
            if data is None:
                return self._why(key)
            self._states.move_to_end(place)
        try:
            return from_bytes(data)
        except Malformed as error:
            return Nothing("crashed", f"the worker sent no state ({error})")

    def told(self, round_: int, seconds: float) -> dict[str, pa.Table] | Nothing:
        """Return a round's rows of the decided tables, waiting for them for so long at most."""
        key = ("told", round_, None)
        self._wait(seconds, lambda: round_ in self._told or key in self._refused or self._end, key)
        with self._changed:
            return self._told[round_] if round_ in self._told else self._why(key)

    def close(self) -> None:
        """Stop the worker."""
        with self._changed:
            self._end = Nothing("closed", "the session was closed")
            process, self._process = self._process, None
            self._states.clear()
            self._told.clear()
            self._changed.notify_all()
        if process is not None:
            process.kill()
            process.wait()

    def _why(self, key: tuple[str, int, int | None]) -> Nothing:
        if self._end is not None:
            return self._end
        if (refused := self._refused.pop(key, None)) is not None:
            return refused
        front = self._frontier
        if key[1] > front.verified_round:
            return Nothing("pending", f"verified to round {front.verified_round:,} of {front.recorded_round:,} so far")
        return Nothing("pending", "being re-executed")

    def _wait(self, seconds: float, there: Any, key: tuple[str, int, int | None] | None = None) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            self._refused.pop(key, None) if key else None
            while not there():
                if key is None:
                    self._start()
                else:
                    self._ask(*key)
                left = until - time.monotonic()
                if left <= 0 or self._end is not None:
                    return
                self._changed.wait(min(left, 0.5))
                self._stop_if_hung()

    def _ask(self, what: str, round_: int, stop: int | None) -> None:
        """Put a question, unless it is out already."""
        self._start()
        process = self._process
        if process is None or (what, round_, stop) in self._open.values():
            return
        self._number += 1
        if not self._open:
            self._heard = time.monotonic()
        self._open[self._number] = (what, round_, stop)
        line = json.dumps({"id": self._number, "ask": what, "round": round_, "stop": stop}) + "\n"
        with suppress(OSError):  # it ended: the reader says so
            assert process.stdin is not None
            process.stdin.write(line.encode())
            process.stdin.flush()

    def _start(self) -> None:
        if self._process is not None or self._end is not None:
            return
        if self._starts == _STARTS:
            self._end = Nothing("crashed", f"the worker ended {_STARTS} times ({self._last_words})")
            return
        self._starts += 1
        self._open.clear()
        self._heard = time.monotonic()
        try:
            errors = tempfile.TemporaryFile()  # noqa: SIM115 (the listener closes it)
            process = subprocess.Popen(
                WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)},
            )  # fmt: skip
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(self._line.encode())
            process.stdin.flush()
        except OSError as error:
            self._end = Nothing("crashed", f"no worker could be started ({error})")
            return
        self._process = process
        threading.Thread(target=self._listen, args=(process, errors), daemon=True).start()

    def _stop_if_hung(self) -> None:
        if self._process is not None and self._open and time.monotonic() - self._heard > self._hang_seconds:
            self._end = Nothing("hung", f"the worker said nothing for {self._hang_seconds:g} s and was stopped")
            self._process.kill()
            self._changed.notify_all()

    def _listen(self, process: subprocess.Popen[bytes], errors: BinaryIO) -> None:
        """Take what the worker says until it ends."""
        pipe: BinaryIO = process.stdout  # type: ignore[assignment]
        with suppress(OSError, ValueError):
            while head := pipe.read(frames.HEADER.size):
                kind, size = frames.HEADER.unpack(head)
                if size > _FRAME_LIMIT_BYTES or len(payload := pipe.read(size)) != size:
                    break
                with self._changed:
                    self._heard = time.monotonic()
                    self._take(kind, payload)
                    self._changed.notify_all()
        process.kill()
        process.wait()
        pipe.close()
        with errors:
            errors.seek(0)
            said = errors.read(_ERROR_BYTES).decode("utf-8", "replace").strip().splitlines()
        with self._changed:
            self._last_words = said[-1][:200] if said else f"exit status {process.returncode}"
            if self._process is process:
                self._process = None
            self._open.clear()
            self._changed.notify_all()

    def _take(self, kind: bytes, payload: bytes) -> None:
        if kind == STATE:
            number, round_, stop = PLACE.unpack_from(payload)
            self._open.pop(number, None)
            self._put(self._states, (round_, None if stop < 0 else stop), payload[PLACE.size :])
            return
        if kind == TOLD:
            number, round_, name = TABLE.unpack_from(payload)
            if table := name.rstrip(b"\0").decode():
                schema, batches = frames.decode(payload[TABLE.size :])
                self._arriving[table] = pa.Table.from_batches(batches, schema)
                return
            self._open.pop(number, None)
            self._put(self._told, round_, self._arriving)
            self._arriving = {}
            return
        told = json.loads(payload)
        if kind == FRONTIER:
            found = told["divergence"]
            divergence = None if found is None else Divergence(**found)
            recorded = self._frontier.recorded_round
            self._frontier = Proven(told["first"], told["verified"], recorded, told["done"], divergence)
        elif kind == NOTHING:
            nothing = Nothing(told["cause"], told["words"])
            if (key := self._open.pop(told["id"], None)) is not None:
                self._refused[key] = nothing
            elif told["id"] == 0:
                self._end = nothing

    @staticmethod
    def _put(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
        kept[key] = value
        kept.move_to_end(key)
        while len(kept) > _KEPT:
            kept.popitem(last=False)
