"""Where a trace that a flight recorder wrote is looked at first: at what made it be written, else at its end."""

from __future__ import annotations

import re
from pathlib import Path

from tsviz.trace import layout
from tsviz.trace.errors import TraceError

LAST = -1
"""The last round, whichever that is."""
_RING = "ring: "
_AT = re.compile(r"(?:sql|finding [a-z_]+) at ([^/:;]+/\d+):(\d{1,9})\b")
"""As `triggers.py` words it: the position of a condition in SQL or of a finding."""


def fired_round(path: Path, node: str | None = None, rank: int | None = None) -> int:
    """Return the round to begin at in a part (the first without one) of the trace at a path; 1 if no ring wrote it.

    That of the first trigger which names a position in this part; a signal, a crash and an end came at the end.
    """
    try:
        parts = layout.field(path / layout.END_FILE, layout.read_json(path / layout.END_FILE), "parts", dict)
        names = layout.part_names(path, layout.read_json(path / layout.BUNDLE_FILE))
    except TraceError:
        return 1
    chosen = [(n, r) for n, r in names if node in (None, n) and rank in (None, r)]
    name = "/".join(map(str, chosen[0])) if chosen else ""
    said = parts.get(name)
    reason = said.get("reason") if isinstance(said, dict) else None
    if not isinstance(reason, str) or not reason.startswith(_RING):
        return 1
    found = [int(round_) for where, round_ in _AT.findall(reason) if where == name]
    return found[0] if found else LAST
