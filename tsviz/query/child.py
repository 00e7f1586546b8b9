"""Ask a query in a process of its own: the trace or the query is not the user's own (architecture.md, section 7).

Limits of the engine stop neither one long scalar call nor the heaps of strings (library-notes.md, "Neither stops one
long scalar call"). A process with hard limits on memory, and a kill on time, stop everything.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from tsviz.spawn import python_command, python_environment

from . import frames
from .locked import Limits, Total
from .problem import Kind, Problem, QueryError

OPENER = "tsviz.trace.reader:open_bundle"
_STDERR_BYTES = 4096
_READ_BYTES = 1 << 20


class Answer:
    """A result that is arriving: its schema, batches that add up to the cap at most, and behind them the total.

    It is there at once; the first look at `schema` or the batches waits for the process.
    """

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits) -> None:
        self._process, self._limits = process, limits
        self._buffer, self._errors = bytearray(), bytearray()
        self.waited_seconds = 0.0
        """How long the process was waited for."""
        self._cancelled = False
        self.left_out: list[Problem] = []
        """Bundles that could not be read and are not part of the answer; complete once the schema is known."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
        self._selector.register(process.stderr, selectors.EVENT_READ)  # type: ignore[arg-type]
        self.total: Total | None = None
        """Set once the batches have been read."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._next()[0]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        _ = self.schema
        while self.total is None:
            yield from self._next()[1]

    def cancel(self) -> None:
        """Stop the query, from any thread; reading it raises `QueryError` of kind CANCELLED."""
        self._cancelled = True
        self._process.kill()

    def _next(self) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        """Read one frame, and the warnings in front of it. A total ends the result; a problem is raised."""
        kind, size = frames.HEADER.unpack(self._take(frames.HEADER.size))
        if kind not in frames.KINDS or size > 2 * self._limits.memory_bytes:
            raise QueryError(Problem(Kind.FAILED, f"the query process sent a frame {kind!r} of {size:,} bytes"))
        payload = self._take(size)
        try:
            if kind == frames.PROBLEM:
                raise QueryError(Problem.from_json(json.loads(payload)))
            if kind == frames.WARNING:
                self.left_out.append(Problem.from_json(json.loads(payload)))
                return self._next()
            if kind == frames.TOTAL:
                rows, of, exact = json.loads(payload)
                self.total = Total(int(rows), int(of), bool(exact))
                return pa.schema([]), []
            return frames.decode(payload)
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            raise QueryError(Problem(Kind.FAILED, f"the query process sent a damaged frame: {error}")) from error

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._wait()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _wait(self) -> None:
        """Wait for bytes of the process; only this counts as its time, so that a slow reader stops nothing."""
        left = None if self._limits.seconds is None else self._limits.seconds - self.waited_seconds
        start = time.monotonic()
        ready = self._selector.select(left) if left is None or left > 0 else []
        self.waited_seconds += time.monotonic() - start
        if not ready and left is not None:
            self._process.kill()
            raise QueryError(Problem(Kind.TIMEOUT, f"stopped after {self._limits.seconds:g} s"))
        for key, _ in ready:
            data = os.read(key.fd, _READ_BYTES)
            if key.fileobj is self._process.stderr:
                self._errors = (self._errors + data)[-_STDERR_BYTES:]
                if not data:
                    self._selector.unregister(key.fileobj)
            elif data:
                self._buffer += data
            else:
                raise QueryError(self._death())

    def _death(self) -> Problem:
        """Say why the process ended without an answer."""
        code = self._process.wait()
        if self._cancelled:
            return Problem(Kind.CANCELLED, "stopped")
        if code == -signal.SIGXCPU:
            return Problem(Kind.TIMEOUT, "stopped: it used up its processor time")
        assert self._process.stderr is not None
        while data := self._process.stderr.read(_READ_BYTES):
            self._errors = (self._errors + data)[-_STDERR_BYTES:]
        words = self._errors.decode(errors="replace").strip()
        if "bad_alloc" in words or "MemoryError" in words:
            return Problem(Kind.MEMORY, "the query process ran out of memory")
        if code == -signal.SIGKILL:  # nothing here says by whom, or why
            return Problem(Kind.FAILED, "the query process was killed from outside (signal SIGKILL)")
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        last = words.rpartition("\n")[2]
        return Problem(
            Kind.FAILED, f"the query process ended without an answer ({how})" + (f": {last}" if last else "")
        )


@contextmanager
def ask(
    paths: Sequence[str],
    sql: str,
    limits: Limits | None = None,
    opener: str = OPENER,
    *,
    optional: Collection[str] = (),
) -> Iterator[Answer]:
    """Open the bundles at `paths` in a new process, run one query there and give its arriving result.

    `opener` is `module:name` of an `Opener`. Of the paths those in `optional` are left out, and told in
    `Answer.left_out`, when they cannot be read and another one can. Leaving the block ends the
    process, whatever it is doing. `QueryError` is raised while the schema or the batches are read.
    """
    limits = limits or Limits()
    process = subprocess.Popen(
        python_command("tsviz.query.worker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=python_environment() | {"MALLOC_ARENA_MAX": "2"},
        start_new_session=True,
    )
    try:
        request: dict[str, Any] = {
            "paths": list(map(_in_utf8, paths)),
            "optional": list(map(_in_utf8, optional)),
            "sql": sql,
            "opener": opener,
            "seconds": limits.seconds or 86_400.0,
            "limits": asdict(replace(limits, seconds=None)),
        }
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request).encode() + b"\n")
        yield Answer(process, limits)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _in_utf8(path: str) -> str:
    """Return a path as the query process, whose locale is UTF-8, writes it."""
    return os.fsencode(path).decode(errors="surrogateescape")
