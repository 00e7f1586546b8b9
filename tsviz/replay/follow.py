"""Following a part that is being recorded: how far it is committed, whether its recorder lives, and views of it.

`look` is cheap and may be asked twice a second; `view` opens what is committed then, reading only what is new. A view
is frozen: it says the same whatever is committed later.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.trace import layout
from tsviz.trace.lock import recorder_of
from tsviz.trace.reader import Part, open_bundle
from tsviz.trace.tail import Tail

from .follow_values import FINISHED, GONE, KILLED, LIVE, Look
from .view import open_view

_SETTLED_S = 2.0
"""A recorder that has gone is called killed when nothing was committed for so long: it may be closing the bundle."""


class Follower:
    """Follows one part of a bundle. Not for two threads at once."""

    def __init__(self, path: Path, node: str, rank: int) -> None:
        """Look at nothing yet."""
        self._path, self._node, self._rank = path, node, rank
        self._directory = layout.part_directory(path, node, rank)
        self._tail = Tail(self._directory / layout.HOT)

    def look(self) -> Look:
        """Return how far the recording is. Raises `TraceError`."""
        age_s = self._age_s()
        end = self._path / layout.END_FILE
        if end.exists():
            return Look(self._rounds(), FINISHED, GONE, age_s, _reason(layout.read_json(end), self._node, self._rank))
        self._tail.refresh()
        recorder = recorder_of(self._path)
        killed = recorder == GONE and age_s > _SETTLED_S and not self._tail.final
        return Look(self._tail.last_round, KILLED if killed else LIVE, recorder, age_s)

    def _rounds(self) -> int:
        if (self._directory / layout.HOT / layout.COMMITS_FILE).exists():
            self._tail.refresh()
            return self._tail.last_round
        return open_bundle(self._path).part(self._node, self._rank).last_round

    def _age_s(self) -> float:
        try:
            changed = (self._directory / layout.HOT / layout.COMMITS_FILE).stat().st_mtime
        except OSError:  # compacted: there is nothing to wait for
            return 0.0
        return max(0.0, time.time() - changed)

    def view(self) -> RecordedView:
        """Return the recorded state of everything that is committed now. Raises `TraceError`."""
        bundle = open_bundle(self._path)
        if bundle.end is None:
            part = self.part()
            bundle.parts = [part if (p.node, p.rank) == (self._node, self._rank) else p for p in bundle.parts]
        return open_view(bundle, self._node, self._rank)

    def part(self) -> Part:
        """Return the part as it is committed now, while it is being recorded. Raises `TraceError`."""
        self._tail.refresh()
        return Part.at(self._directory, self._tail.committed())


def _reason(end: dict[str, Any], node: str, rank: int) -> str:
    if end.get("error"):
        return str(end["error"])
    parts = end.get("parts")
    ended = parts.get(f"{node}/{rank}") if isinstance(parts, dict) else None
    return str(ended.get("reason", "")) if isinstance(ended, dict) else ""
