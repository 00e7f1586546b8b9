"""`--retain`: how long the recordings of a folder stay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .exit_codes import CliError, ExitCode
from .output import tell

if TYPE_CHECKING:
    from tsviz.trace.retention import Retention
    from tsviz.trace.ring import RingOptions

retain_option = click.option(
    "--retain", multiple=True, metavar="10GB|7d|20",
    help="Remove older recordings beside OUT that were made with --retain too, beyond so many bytes, of so great an"
    " age, or beyond so many; no other trace is ever removed.",
)  # fmt: skip
"""Arrives as `retain`, a tuple of texts."""


def retention_of(texts: tuple[str, ...], ring: RingOptions | None) -> Retention | None:
    """Return the limits that were given; None for none. Raises CliError."""
    from tsviz.trace.retention import parse_retention

    if not texts:
        return None
    if ring is not None:
        raise CliError(ExitCode.USAGE, "--retain does not go with --ring", "--keep says how many of its traces stay")
    try:
        return parse_retention(texts)
    except ValueError as error:
        raise CliError(ExitCode.USAGE, f"--retain: {error}") from error


def tell_removed(recording: Path) -> None:
    """Say on standard error which older recordings went while one was made; nothing where none did."""
    from tsviz.trace.errors import TraceError
    from tsviz.trace.retention import removed_by

    try:
        said = removed_by(recording)
    except TraceError as error:
        said = [f"not known: {error}"]
    for words in said:
        tell(f"tsviz: removed beside {recording}: {words}")
