"""`--follow`: a command that says what is new in a recording, until that ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .exit_codes import CliError, ExitCode
from .output import Format, Held, tell, write
from .traces import unreadable

if TYPE_CHECKING:
    import pyarrow as pa

    from tsviz.replay.growth import Grown

LINES = (Format.JSONL, Format.CSV, Format.TABLE)
"""Formats that can be written on and on."""


def follow_option(function: Any) -> Any:
    """Add `--follow`; it arrives as `follow`."""
    return click.option("--follow", is_flag=True, help="Say what is new whenever more is committed, to the end.")(
        function
    )


def require_lines(form: Format) -> None:
    """Raise CliError for a format that ends with its last row."""
    if form not in LINES:
        names = ", ".join(each.value for each in LINES)
        raise CliError(ExitCode.USAGE, f"--follow writes row by row: expected --format {names}, found {form.value}")


def grown(paths: Sequence[str]) -> Iterator[Grown]:
    """Yield one recording whenever more of it is committed; say what a ring dropped meanwhile. Raises CliError."""
    from tsviz.replay.growth import growth

    if len(paths) != 1:
        raise CliError(ExitCode.USAGE, f"--follow follows one trace, found {len(paths)}")
    with unreadable():
        for now in growth(Path(paths[0]), waits=lambda words: tell(f"tsviz: waiting: {words}")):
            for words in now.told:
                tell(f"tsviz: {words}")
            yield now


class Novelty:
    """Writes the rows of each answer that were not in the one before, as often as they are there more often.

    Numbers of submissions are left out of account: what is kept of a ring counts them anew at each look.
    """

    def __init__(self, form: Format, out: Any, width: int | None, prose: str = "") -> None:
        """As `output.write`."""
        self._form, self._out, self._width, self._prose = form, out, width, prose
        self._before: Counter[str] = Counter()
        self._headed = False

    def write(self, answer: pa.Table) -> int:
        """Write what is new of an answer; return how many rows that is."""
        import pyarrow as pa

        rows = answer.to_pylist()
        now: Counter[str] = Counter()
        new = []
        for index, row in enumerate(rows):
            key = repr({name: value for name, value in row.items() if name != "submission"})
            now[key] += 1
            if now[key] > self._before[key]:
                new.append(index)
        self._before = now
        if new or not self._headed:
            self._put(answer.take(pa.array(new, pa.int64())))
        return len(new)

    def _put(self, rows: pa.Table) -> None:
        import io

        text = io.BytesIO()
        write(Held(rows), self._form, text, width=self._width, prose=self._prose)
        data = text.getvalue()
        if self._headed and self._form is not Format.JSONL:
            data = data.split(b"\n", 1)[1]  # the heading was written once
        self._headed = True
        self._out.write(data)
        self._out.flush()
