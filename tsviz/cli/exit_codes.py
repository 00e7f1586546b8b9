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
    """Ends the command with a code; says the message, and a hint where there is one, on standard error."""

    def __init__(self, code: ExitCode, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc]  # click reads it from the instance too
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error, cleaned: messages quote traces and queries."""
        for label, text in (("error", self.message), ("hint", self.hint)):
            if text:
                click.echo(f"{label}: " + "\n".join(map(clean, text.split("\n"))), file=file, err=True)
