"""A what-if from the screen: the trace is run again with knobs turned (`tsviz whatif`), and compared with what came."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tsviz.replay.diff.sides import Sides
from tsviz.replay.survey.ask import Failed
from tsviz.spawn import python_command, python_environment
from tsviz.tui.desk import Stream

_KNOBS = re.compile(r"\s*[a-z_]+=\S+(?:\s+[a-z_]+=\S+)*\s*")


def settings_of(text: str) -> tuple[str, ...]:
    """Return the knobs that a text turns (`pages=257 max_new=declared`); none where it is a path or anything else."""
    return tuple(text.split()) if _KNOBS.fullmatch(text) and not Path(text.strip()).exists() else ()


class WhatIf:
    """The answers of a comparison with a run that is made first. Iterate on any thread; `cancel` ends it from another.

    The run is recorded into a folder of its own, which is gone when the comparison was made. A run that cannot be made
    is a `Failed` with the words of the command.
    """

    def __init__(self, trace: str, settings: tuple[str, ...], compare: Callable[[str], Stream]) -> None:
        """`trace` as a command takes it, with its part; `compare` compares with the trace at a path."""
        self._trace, self._settings, self._compare = trace, settings, compare
        self._process: subprocess.Popen[str] | None = None
        self._stream: Stream | None = None
        self._cancelled = False

    def __iter__(self) -> Iterator[object]:
        """Run, then yield what the comparison says, with what the run came to among its words."""
        with TemporaryDirectory(prefix="tsviz-what-if-") as folder:
            out = str(Path(folder) / "what-if")
            told = self._run(out)
            if self._cancelled or isinstance(told, Failed):
                yield from (told,) if isinstance(told, Failed) and not self._cancelled else ()
                return
            self._stream = self._compare(out)
            for answer in self._stream:
                yield replace(answer, words=(*told, *answer.words)) if isinstance(answer, Sides) else answer

    def _run(self, out: str) -> tuple[str, ...] | Failed:
        """Record the run; return what the command says of it."""
        knobs = [word for setting in self._settings for word in ("--set", setting)]
        command = [*python_command("tsviz"), "whatif", self._trace, *knobs, "--out", out, "--format", "json"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=python_environment(), start_new_session=True,
        )  # fmt: skip
        if self._cancelled:
            self._process.kill()
        said = self._process.communicate()[1].splitlines()
        if self._process.returncode:
            wrong = [line.partition(": ")[2] for line in said if line.startswith(("error: ", "hint: "))]
            return Failed("; ".join(wrong) or f"the run ended with {self._process.returncode}")
        said = [line for line in said if line != f"{out}: recorded"]
        came = next((at for at, line in enumerate(said) if line.startswith("baseline: ")), 0)
        return (*said[came:], *said[:came])  # what came of it first, then how it was timed

    def cancel(self) -> None:
        """End the run or the comparison; the iteration ends without another answer."""
        self._cancelled = True
        if self._process is not None:
            self._process.kill()
        if self._stream is not None:
            self._stream.cancel()
