"""Ask about a whole trace in a process of its own, and read the answers as they come (architecture.md, section 6).

A process and not a thread: checks are loops of Python, which would take turns with the keys of whoever waits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from .ask import Answer, Failed, from_json

_LAST_WORDS_BYTES = 4096


class Survey:
    """Answers that are arriving. Iterate on any thread; `cancel` from another ends them at once."""

    def __init__(self, ask: dict[str, Any]) -> None:
        self._ask = ask
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def __iter__(self) -> Iterator[Answer]:
        """Start the process and yield its answers; `Failed` is the last one where it did not come to its end."""
        self._process = process = _start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(self._ask).encode() + b"\n")
            if self._cancelled:
                return
            for line in process.stdout:
                try:
                    yield from_json(json.loads(line))
                except (ValueError, KeyError, TypeError) as error:
                    yield Failed(f"the worker sent a damaged answer: {type(error).__name__}: {error}")
                    return
            if process.wait() != 0 and not self._cancelled:
                yield Failed(_death(process))
        finally:
            process.kill()
            process.wait()
            _sweep()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def cancel(self) -> None:
        """End the process; the iteration ends without another answer."""
        self._cancelled = True
        if self._process is not None:
            self._process.kill()


def _sweep() -> None:
    """Remove the half of an index that the process left where it was ended."""
    from tsviz.replay.reexecution.index import sweep_drafts

    sweep_drafts()


def _start() -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)}
    return subprocess.Popen(
        [sys.executable, "-P", "-X", "utf8", "-m", "tsviz.replay.survey.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=environment,
        start_new_session=True,
    )


def _death(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    words = process.stderr.read()[-_LAST_WORDS_BYTES:].decode(errors="replace").strip().rpartition("\n")[2]
    how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
    return f"the worker ended without an answer ({how})" + (f": {words}" if words else "")
