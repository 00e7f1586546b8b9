"""The process that builds compact bases: `python -m tsviz.replay.recorded.bases_worker BUNDLE NODE RANK`.

Started by `preparing.py`. A line on standard output is the number of rows that are done; at an error it is followed by
what is wrong. The end of standard input means that nobody wants it any more.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress

from tsviz.trace.drafts import abandon
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import open_bundle

from .bases import make_bases

_NICE = 5
"""Whoever looks at the screen goes first."""
_TELL_SECONDS = 0.2


def main() -> None:
    """Build the bases of one part."""
    _, bundle, node, rank = sys.argv
    with suppress(OSError):
        os.nice(_NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    done, told = 0, 0.0

    def progress(rows: int, _of: int) -> None:
        nonlocal done, told
        done = rows
        if time.monotonic() - told > _TELL_SECONDS:
            told = time.monotonic()
            print(done, flush=True)

    try:
        make_bases(open_bundle(bundle).part(node, int(rank)), progress)
    except (TraceError, OSError, KeyError) as error:
        print(done, " ".join(str(error).split()), flush=True)
        os._exit(1)
    os._exit(0)


def _end_with_parent() -> None:
    sys.stdin.read()
    abandon()
    os._exit(1)


if __name__ == "__main__":
    main()
