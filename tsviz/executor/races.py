"""The happens-before checker on a recorded run: `python -m tsviz.executor.races TRACE`. It needs no torch."""

from __future__ import annotations

import sys

from tsviz.trace.errors import TraceError
from tsviz.trace.order.checker import check_ops
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
            for race in check_ops(read_ops(part)):
                print(f"{part.node}/{part.rank}: {race}")
                races += 1
    except TraceError as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if races else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
