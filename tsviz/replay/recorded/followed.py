"""A part that is being recorded: what is new of it is read and put to what is known, nothing is read whole."""

from __future__ import annotations

from pathlib import Path

from tsviz.trace import layout
from tsviz.trace.commit_log import CommitLog
from tsviz.trace.grown import GrowingTables
from tsviz.trace.reader import Part

from .growth import TOLD, Growth
from .retractions import Settled
from .source_grown import FollowedTables


class Followed:
    """One part directory with hot tables. Not for two threads at once; what it returns is."""

    def __init__(self, directory: Path) -> None:
        """Read nothing yet."""
        self._directory = directory
        self._tables = GrowingTables(directory / layout.HOT, TOLD)
        self._growth: Growth | None = None
        self._settled = Settled()

    @property
    def commits(self) -> CommitLog:
        """The commits of the part, as they are read on."""
        return self._tables

    def committed(self) -> tuple[Part, FollowedTables]:
        """Return the part as it is committed now, and where its view reads. Raises `TraceError`, OSError."""
        self._tables.refresh()
        if self._growth is None:
            self._growth = Growth(Part(self._directory).config)
        while (lot := self._tables.read_on()) is not None:
            self._growth.take(lot, self._tables.read_round)
        store = self._tables.frozen()
        part = Part.at(self._directory, store)
        source = FollowedTables(part, store, self._growth.grown(), self._settled)
        self._settled = source.settled
        return part, source
