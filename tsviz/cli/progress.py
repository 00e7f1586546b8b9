"""How far a re-execution is, for people: one line on standard error that is overwritten and then taken away."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click


def rounds_progress(name: str) -> Callable[[int, int], None] | None:
    """Return what shows `done of total` rounds of a part on a terminal; None where there is no terminal."""
    tell = parts_progress()
    return None if tell is None else lambda done, of: tell(name, done, of)


def parts_progress() -> Callable[[str, int, int], None] | None:
    """Return what shows part, rounds done and of how many on a terminal; None where there is no terminal."""
    if not sys.stderr.isatty():
        return None
    return lambda name, done, of: click.echo(f"\r{name}: {done:,} of {of:,} rounds", nl=False, err=True)


def clear_progress() -> None:
    """Take the line away."""
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)
