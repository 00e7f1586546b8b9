"""Whether there is a terminal to draw on. Imports no toolkit, so a command can ask before it pays for one."""

from __future__ import annotations

import os
import sys


class NoTerminal(RuntimeError):
    """The screen cannot be opened here; the text says why and what to do instead."""


def require_terminal() -> None:
    """Raise `NoTerminal` unless keys can be read from stdin and the screen drawn on stderr, or a bridge does both."""
    if os.environ.get("TEXTUAL_DRIVER"):
        return
    for stream, name in ((sys.__stdin__, "stdin"), (sys.__stderr__, "stderr")):
        if stream is None or not stream.isatty():
            raise NoTerminal(f"{name} is not a terminal: the debugger needs one. `tsviz info` and `tsviz sql` do not.")
    if os.environ.get("TERM", "") in ("dumb", "unknown"):
        raise NoTerminal(f"TERM={os.environ['TERM']} cannot move a cursor: the debugger needs a terminal that can.")
