"""The happens-before checker on a recorded run: `python -m tsviz.executor.races TRACE`. It needs no torch."""

from __future__ import annotations

import sys

from tsviz.trace.errors import TraceError
from tsviz.trace.order.checker import TooManyOpen, races_of
from tsviz.trace.order.recorded import read_ops
from tsviz.trace.reader import open_bundle


def main(arguments: list[str]) -> int:
    """Print a line a race of every part; 0 without any, 1 with some, 2 for a trace that cannot be read."""
    if len(arguments) != 1:
        print("usage: python -m tsviz.executor.races TRACE", file=sys.stderr)
        return 2
    races = 0
    try:
        for part in open_bundle(arguments[0]).parts:
            for race in races_of(read_ops(part)):
                print(_printable(f"{part.node}/{part.rank}: {race}"))
                races += 1
    except (TraceError, TooManyOpen) as error:
        print(_printable(str(error)), file=sys.stderr)
        return 2
    return 1 if races else 0


def _printable(text: str) -> str:
    """Return words of a trace without what a terminal would obey."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
