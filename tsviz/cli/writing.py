"""What a command that writes says when it could not, and what it leaves: nothing, or something that opens."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .exit_codes import CliError, ExitCode

if TYPE_CHECKING:
    from tsviz.trace.reader import Bundle

_OF_THE_DISK = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS))
"""What only happens to who writes."""


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Turn a disk that is full or read-only into words that name what was to be written, and exit code 2."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        raise CliError(ExitCode.USAGE, cannot_write(out, error)) from error


@contextmanager
def recording_to(out: Path) -> Iterator[None]:
    """Turn a disk that is full or read-only while a run is recorded into what `stopped` says, and exit code 3."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        raise CliError(ExitCode.TRACE_UNREADABLE, stopped(out, error)) from error


def cannot_write(out: Path, error: OSError) -> str:
    """Return that a path could not be written, and why, in the words of the system."""
    return f"{out}: cannot be written: {_reason(error)}"


def stopped(out: Path, error: Exception, *, ring: bool = False) -> str:
    """Return why a recording at a path stopped, and what is left of it. Where that is nothing, it is removed.

    `ring`: it was a flight recorder.
    """
    if not ring and (closed := _closed(out)):
        return f"{out}: {not_compacted(error)}; {closed}"
    left = "its keeper writes out what was kept until then" if ring else _left(out)
    return f"{out}: recording stopped: {_reason(error)}; {left}"


def not_compacted(error: Exception) -> str:
    """Return that what was recorded and closed could not be compacted, why, and what there is all the same."""
    place = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
    return f"not compacted ({place}{_reason(error)}), so that it is larger and slower to read; nothing of it is lost"


def _reason(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    return os.strerror(error.errno) if error.errno in _OF_THE_DISK else error.strerror or str(error)


def _closed(out: Path) -> str:
    """Return how many rounds a recording has that was closed; nothing for one that was not."""
    from tsviz.trace.errors import TraceError
    from tsviz.trace.lock import ALIVE, recorder_of
    from tsviz.trace.reader import open_bundle

    try:
        bundle = None if recorder_of(out) == ALIVE else open_bundle(out)
    except (TraceError, OSError):
        return ""
    return "" if bundle is None or bundle.end is None else rounds_of(bundle)


def rounds_of(bundle: Bundle) -> str:
    """Return how many rounds each part of a bundle has."""
    return "; ".join(f"{part.node}/{part.rank}: {part.last_round:,} rounds" for part in bundle.parts)


def _left(out: Path) -> str:
    from tsviz.trace.errors import TraceError
    from tsviz.trace.lock import ALIVE, recorder_of
    from tsviz.trace.reader import open_bundle

    if not out.exists() or recorder_of(out) == ALIVE:
        return "nothing is left"
    try:
        bundle = open_bundle(out)
        rounds = rounds_of(bundle)
        committed = any(part.rows("calls") for part in bundle.parts)
    except (TraceError, OSError):
        committed = False
    if committed:
        return f"what was committed until then opens ({rounds}); `tsviz repair` makes a closed trace of it"
    shutil.rmtree(out, ignore_errors=True)
    return "nothing had been committed, and it was removed"
