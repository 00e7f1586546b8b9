"""Breakpoints and watches: SQL predicates of the user with the positions at which they hold (debugger.md, section 2).

Hit lists are asked for once, not stepped to. What is kept is the text of the predicates, in the user's state folder.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import Any

from tsviz.replay.survey.ask import HitPlaces, HitTotal, Refused
from tsviz.tui import keep

_END = 1 << 31
"""A hit without a stop is at the end of its round."""


@dataclass
class Places:
    """Positions in order, as columns."""

    rounds: array[int] = field(default_factory=lambda: array("q"))
    stops: array[int] = field(default_factory=lambda: array("q"))
    submissions: array[int] = field(default_factory=lambda: array("q"))
    requests: list[str] = field(default_factory=list)

    def add(self, more: HitPlaces) -> None:
        """Take in what follows."""
        self.rounds.extend(more.rounds)
        self.stops.extend(more.stops)
        self.submissions.extend(more.submissions)
        self.requests.extend(more.requests)

    def __len__(self) -> int:
        return len(self.rounds)

    def between(self, first: int, last: int) -> int:
        """Return how many lie in rounds `first` to `last`, both included."""
        return bisect_right(self.rounds, last) - bisect_left(self.rounds, first)

    def beside(self, round_: int, stop: int | None, step: int) -> int | None:
        """Return the index of the next position (`step` 1) behind a place, or the last one before it (-1)."""
        here = (round_, _END if stop is None else stop)
        if step > 0:
            index = bisect_left(self.rounds, round_)
            while index < len(self) and self._at(index) <= here:
                index += 1
            return index if index < len(self) else None
        index = bisect_right(self.rounds, round_) - 1
        while index >= 0 and self._at(index) >= here:
            index -= 1
        return index if index >= 0 else None

    def _at(self, index: int) -> tuple[int, int]:
        stop = self.stops[index]
        return self.rounds[index], _END if stop < 0 else stop


@dataclass(frozen=True)
class Watch:
    """One predicate; `places` are shared by its copies and only grow."""

    predicate: str
    enabled: bool = True
    running: bool = False
    places: Places = field(default_factory=Places)
    total: HitTotal | None = None
    refused: Refused | None = None
    sought: bool = False
    """Whether its hits were asked for."""
    error: str = ""

    @property
    def known(self) -> bool:
        """Whether all its hits are there."""
        return self.total is not None


class Watches:
    """The list, and where it is kept."""

    def __init__(self, key: str) -> None:
        self._path = keep.of_trace(key, "watches") if key else None
        self.problem = ""
        """Why the list could not be read or written, in words."""
        self.all: list[Watch] = self._read()

    def _read(self) -> list[Watch]:
        found = None if self._path is None else keep.read(self._path)
        if isinstance(found, keep.NotKept):
            self.problem, self._path = found.unread("breakpoints are"), None
            return []
        entries: list[Any] = found if isinstance(found, list) else []
        return [
            Watch(entry["predicate"], entry.get("enabled") is not False)
            for entry in entries
            if isinstance(entry, dict) and isinstance(entry.get("predicate"), str)
        ]

    def _write(self) -> None:
        if self._path is not None:
            kept = [{"predicate": watch.predicate, "enabled": watch.enabled} for watch in self.all]
            failed = keep.write(self._path, kept)
            self.problem = "" if failed is None else f"Breakpoints are not kept: {failed.reason}"

    def add(self, predicate: str) -> bool:
        """Put a predicate at the end of the list; false where it is there already."""
        if any(watch.predicate == predicate for watch in self.all):
            return False
        self.all.append(Watch(predicate))
        self._write()
        return True

    def remove(self, number: int) -> None:
        """Forget one."""
        del self.all[number]
        self._write()

    def toggle(self, number: int) -> None:
        """Let one count for `continue`, or not."""
        self.all[number] = replace(self.all[number], enabled=not self.all[number].enabled)
        self._write()

    def begin(self, predicate: str) -> None:
        """Its hits are being asked for, anew."""
        self._change(predicate, sought=True, running=True, places=Places(), total=None, refused=None, error="")

    def take(self, predicate: str, value: object) -> None:
        """Keep an answer about a predicate."""
        match value:
            case HitPlaces():
                for watch in self.all:
                    if watch.predicate == predicate:
                        watch.places.add(value)
            case HitTotal():
                self._change(predicate, total=value)
            case Refused():
                self._change(predicate, refused=value)

    def end(self, predicate: str, error: str) -> None:
        """Nothing more comes."""
        self._change(predicate, running=False, error=error)

    def _change(self, predicate: str, **changes: Any) -> None:
        self.all = [replace(w, **changes) if w.predicate == predicate else w for w in self.all]

    def beside(self, round_: int, stop: int | None, step: int) -> tuple[Watch, int] | None:
        """Return the nearest hit of all enabled ones behind (1) or before (-1) a place: the watch and the index."""
        found: list[tuple[tuple[int, int], Watch, int]] = []
        for watch in self.all:
            index = watch.places.beside(round_, stop, step) if watch.enabled else None
            if index is not None:
                found.append((watch.places._at(index), watch, index))
        if not found:
            return None
        _, watch, index = (min if step > 0 else max)(found, key=lambda one: one[0])
        return watch, index
