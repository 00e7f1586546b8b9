"""The process that answers what is asked about a whole trace (architecture.md, section 6: in a worker).

Started by `child.py`: one line of JSON on standard input says what is wanted, one line of JSON an answer goes
out on what was standard output. The end of standard input means that nobody wants it any more.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TextIO

from tsviz.replay.diff.side_by_side import side_by_side
from tsviz.replay.identity import require_same
from tsviz.replay.reexecution.filled import fill, filled, needs_plans, open_filled
from tsviz.trace.drafts import abandon
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import open_bundle

from .ask import Answer, Failed, Progress, derive, findings, hit_list, lost_time, to_json

_NICE = 5
"""Whoever looks at the screen goes first."""


def main() -> None:
    """Answer the question on standard input and end."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    line = sys.stdin.readline()
    if not line:  # the parent ended before it asked
        return
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(OSError):
        os.nice(_NICE)

    def tell(answer: Answer) -> None:
        _say(out, answer)

    try:
        for answer in _answers(json.loads(line), tell):
            tell(answer)
    except TraceError as error:
        tell(Failed(str(error)))
    except (OSError, KeyError, ValueError) as error:
        tell(Failed(f"{type(error).__name__}: {error}"))
    os._exit(0)


def _answers(ask: dict[str, Any], tell: Any) -> Iterator[Answer]:
    bundle = open_bundle(ask["trace"])
    if ask.get("identity"):
        require_same(bundle, ask["node"], ask["rank"], ask["identity"])
    bundle = filled(bundle)
    if needs_plans(bundle) and (ask["what"] == "derive" or ask.get("derive")):
        bundle, _ = fill(bundle, progress=lambda _, done, of: tell(Progress("rounds re-executed", done, of)))
    if ask["what"] == "derive":
        return derive(bundle, tell)
    if ask["what"] == "findings":
        return findings(bundle, derive=ask["derive"], tell=tell)
    part = bundle.part(ask["node"], ask["rank"])
    if ask["what"] == "compare":
        other = open_filled(ask["other"])
        fellow = next((p for p in other.parts if (p.node, p.rank) == (part.node, part.rank)), other.part(None, None))
        return side_by_side((bundle, part), (other, fellow))
    if ask["what"] == "hits":
        return hit_list(ask["trace"], part, ask["predicate"])
    return lost_time(part, derive=ask["derive"], tell=tell)


def _say(out: TextIO, answer: Answer) -> None:
    try:
        out.write(json.dumps(to_json(answer), separators=(",", ":")) + "\n")
        out.flush()
    except BrokenPipeError:
        os._exit(1)


def _end_with_parent() -> None:
    sys.stdin.read()
    abandon()
    os._exit(1)


if __name__ == "__main__":
    main()
