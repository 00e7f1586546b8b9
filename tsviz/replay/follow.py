"""Following a part that is being recorded: how far it is committed, whether its recorder lives, and views of it.

`look` is cheap and may be asked twice a second; `view` reads what is new and puts it to what is known, in time that
goes with what is new. A view is frozen: it says the same whatever is committed later. What is followed is followed to
its end through the files that were opened first, whether or not they were compacted meanwhile.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tsviz.replay.recorded.followed import Followed
from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.trace import layout
from tsviz.trace.commit_log import CommitLog
from tsviz.trace.errors import Damaged
from tsviz.trace.lock import recorder_of
from tsviz.trace.reader import open_bundle

from .follow_values import FINISHED, GONE, KILLED, LIVE, Look
from .view import followed_view, open_view

_SETTLED_S = 2.0
"""A recorder that has gone is called killed when nothing was committed for so long: it may be closing the bundle."""


class Looker:
    """Says how far one part of a bundle is. Not for two threads at once."""

    def __init__(self, path: Path, node: str, rank: int, commits: CommitLog) -> None:
        """Look at nothing yet; `commits` are those of the part."""
        self._path, self._node, self._rank = path, node, rank
        self._directory = layout.part_directory(path, node, rank)
        self._commits = commits

    def look(self) -> Look:
        """Return how far the recording is. Raises `TraceError`."""
        age_s = self._age_s()
        end = self._path / layout.END_FILE
        if end.exists():
            return Look(self._rounds(), FINISHED, GONE, age_s, _reason(layout.read_json(end), self._node, self._rank))
        self._commits.refresh()
        recorder = recorder_of(self._path)
        killed = recorder == GONE and age_s > _SETTLED_S and not self._commits.final
        return Look(self._commits.last_round, KILLED if killed else LIVE, recorder, age_s)

    def _rounds(self) -> int:
        if self._commits.opened or (self._directory / layout.HOT / layout.COMMITS_FILE).exists():
            self._commits.refresh()
            return self._commits.last_round
        return open_bundle(self._path).part(self._node, self._rank).last_round

    def _age_s(self) -> float:
        try:
            changed = (self._directory / layout.HOT / layout.COMMITS_FILE).stat().st_mtime
        except OSError:  # compacted: there is nothing to wait for
            return 0.0
        return max(0.0, time.time() - changed)


class Follower(Looker):
    """Follows one part of a bundle on the screen."""

    def __init__(self, path: Path, node: str, rank: int) -> None:
        """Look at nothing yet."""
        self._followed = Followed(layout.part_directory(path, node, rank))
        super().__init__(path, node, rank, self._followed.commits)

    def view(self) -> RecordedView:
        """Return the recorded state of everything that is committed now. Raises `TraceError`."""
        bundle = open_bundle(self._path)
        if not self._commits.opened and bundle.part(self._node, self._rank).cold is not None:
            return open_view(bundle, self._node, self._rank, wait=False)
        try:
            part, source = self._followed.committed()
        except Damaged:  # or the file of a table that first had rows in the end was removed before it was opened
            if bundle.end is None:
                raise
            return open_view(bundle, self._node, self._rank, wait=False)
        bundle.parts = [part if (p.node, p.rank) == (self._node, self._rank) else p for p in bundle.parts]
        return followed_view(bundle, part, source)


def _reason(end: dict[str, Any], node: str, rank: int) -> str:
    if end.get("error"):
        return str(end["error"])
    parts = end.get("parts")
    ended = parts.get(f"{node}/{rank}") if isinstance(parts, dict) else None
    return str(ended.get("reason", "")) if isinstance(ended, dict) else ""
