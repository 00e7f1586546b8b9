"""How a command ends (debugger.md, section 7)."""

from __future__ import annotations

from enum import IntEnum
from typing import IO, Any

import click

from .output import clean


class ExitCode(IntEnum):
    """The exit codes of every command."""

    OK = 0
    QUERY_FAILED = 1
    USAGE = 2
    TRACE_UNREADABLE = 3
    TIMEOUT = 4
    DIVERGENCE = 5
    INVARIANT_BREACH = 6
    INTERRUPTED = 130


class CliError(click.ClickException):
    """Ends the command with a code; says on standard error the message, a line of it, and what there is of the rest.

    `below`: lines under the message, such as the place in a query; `hint`: what helps.
    """

    def __init__(self, code: ExitCode, message: str, hint: str = "", below: str = "") -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc]  # click reads it from the instance too
        self.hint, self.below = hint, below

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error, cleaned: messages name paths, and quote traces and queries."""
        lines = [f"error: {self.message}", *(self.below.split("\n") if self.below else ())]
        for line in (*lines, *([f"hint: {self.hint}"] if self.hint else ())):
            click.echo(clean(line), file=file, err=True)
