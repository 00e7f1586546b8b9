"""Following a ring while it runs: what is committed and kept, as a bundle, again whenever more is (recording.md).

A ring's segments are no trace, so each look writes one, into a folder of the user's cache that goes with the bundle.
The keeper drops segments meanwhile: a look that met it doing so is made anew, and rounds that came and went between two
looks are told.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tsviz.replay.follow_values import FINISHED, GONE, KILLED, LIVE, UNKNOWN, Look
from tsviz.replay.growth import POLL_SECONDS, Grown
from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.replay.reexecution.index import cache_directory
from tsviz.replay.view import open_view
from tsviz.trace import layout
from tsviz.trace.drafts import draft
from tsviz.trace.errors import NotABundle, TraceError
from tsviz.trace.layout import RING_FILE
from tsviz.trace.lock import recorder_of
from tsviz.trace.reader import Bundle, open_bundle
from tsviz.trace.ring import SUFFIX
from tsviz.trace.whole import WholePart, write_whole

from .kept import KeptPart

_TRIES = 20
_AGAIN_SECONDS = 0.05
_DUTY = 3
"""A look waits so many times as long as the one before it took."""


class _RingGone(Exception):
    """The ring was taken away by its keeper."""


class RingFollower:
    """Follows a ring. Not for two threads at once."""

    def __init__(self, home: Path) -> None:
        """Look at nothing yet."""
        self._home, self._out = home, home.with_name(home.name.removesuffix(SUFFIX))
        self._description: dict[str, Any] = {}
        self._seen: dict[str, int] = {}
        self._bundle: Bundle | None = None

    def looks(self) -> dict[str, Look]:
        """Return how far each part is, by `node/rank`; nothing before anything was committed. Raises `TraceError`."""
        state, recorder = self._state()
        try:
            found = {part.name: (part.last_round(), _age_s(part)) for part in self._parts() if part.last_round()}
        except (TraceError, OSError):  # the keeper dropped what was being looked at
            found = {}
        rounds = {name: (last, 0.0) for name, last in self._seen.items()} | found
        return {name: Look(last, state, recorder, age_s) for name, (last, age_s) in rounds.items()}

    def grown(self) -> Grown:
        """Return what is committed and kept now. Raises `TraceError`, also where nothing is, OSError."""
        state, recorder = self._state()  # first, so that nothing is committed behind what an ended ring gives
        said: list[str] = []
        try:
            bundle = self._write(self._read())
        except _RingGone:
            state, recorder = FINISHED, GONE
            bundle, words = self._left()
            said.append(words)
        for part in bundle.parts:
            name, first = f"{part.node}/{part.rank}", part.meta.get("starts_at", 1)
            seen = self._seen.get(name, 0)
            if first > seen + 1:
                when = "they were looked at" if self._bundle is not None else "this began to follow"
                rounds = (
                    f"round {first - 1:,} was" if first == seen + 2 else f"rounds {seen + 1:,} to {first - 1:,} were"
                )
                said.append(f"{name}: {rounds} dropped from the ring before {when}")
            self._seen[name] = max(seen, part.last_round)
        self._bundle = bundle
        looks = {name: Look(last, state, recorder, 0.0) for name, last in self._seen.items()}
        return Grown(bundle, looks, tuple(said))

    @property
    def ended(self) -> bool:
        """Whether nothing more is going to be committed."""
        return self._state()[0] != LIVE

    @property
    def bundle(self) -> Bundle | None:
        """What the last look gave."""
        return self._bundle

    def _state(self) -> tuple[str, str]:
        recorder = recorder_of(self._home) if self._home.is_dir() else GONE
        if (self._home / layout.END_FILE).exists() or not (self._home / RING_FILE).exists():
            return FINISHED, GONE
        return (KILLED if recorder == GONE else LIVE), recorder

    def _parts(self) -> list[KeptPart]:
        values = layout.read_json(self._home / RING_FILE)
        self._description = {name: value for name, value in values.items() if name != "ring"}
        names = layout.part_names(self._home, values) if values["parts"] else []
        directories = [layout.part_directory(self._home, node, rank) for node, rank in names]
        return [
            KeptPart(self._home, directory, self._description)
            for directory in directories if (directory / layout.PART_FILE).exists()
        ]  # fmt: skip

    def _read(self) -> list[WholePart]:
        """Return what is kept, of one moment: nothing was dropped while it was read."""
        problem: Exception = NotABundle(self._home, "segments", "a commit", "none yet")
        for _ in range(_TRIES):
            try:
                parts = [part for part in self._parts() if part.last_round()]
                whole = [part.joined() for part in parts]
                if whole and all(part.newest_sealed() == part.sealed for part in parts):
                    if not (self._home / RING_FILE).exists():
                        raise _RingGone
                    return whole
            except (TraceError, OSError) as error:
                problem = error
            if not (self._home / RING_FILE).exists():
                raise _RingGone
            time.sleep(_AGAIN_SECONDS)
        raise problem

    def _write(self, whole: list[WholePart]) -> Bundle:
        """Write a bundle that goes away with the object that is returned, and with this process."""
        cache = cache_directory()
        cache.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            place = stack.enter_context(draft(cache, "following-", own=True))
            write_whole(place / self._out.name, self._description, whole, None)
            bundle = open_bundle(place / self._out.name)
            weakref.finalize(bundle, stack.pop_all().close)
        return bundle

    def _left(self) -> tuple[Bundle, str]:
        """Return what there is of a ring that was taken away: the newest trace of it, or what was seen last."""
        found = [bundle for path in self._out.parent.glob(f"{self._out.name}*") if (bundle := self._trace(path))]
        newest = max(found, key=_rounds, default=None)
        if newest is not None and (self._bundle is None or _rounds(newest) >= _rounds(self._bundle)):
            return newest, f"the recording has ended; this is what was written to {newest.path}"
        if self._bundle is None:
            raise NotABundle(self._home, "path", "the segments of a flight recorder", "nothing")
        return self._bundle, "the recording has ended; what came behind these rounds was not looked at, and not kept"

    def _trace(self, path: Path) -> Bundle | None:
        """Return the bundle at a path if it was written of this ring."""
        number = path.name.removeprefix(self._out.name)
        if number and not (number.startswith(".") and number[1:].isdigit()):
            return None
        try:
            bundle = open_bundle(path)
        except TraceError:
            return None
        anchor = self._description.get("clock_anchor")
        return bundle if anchor is None or bundle.description.get("clock_anchor") == anchor else None


class FollowedPart:
    """One part of a ring, as the screen follows it: `look` and `view` (`tsviz.replay.follow.Follower`)."""

    def __init__(self, home: Path, node: str | None, rank: int | None) -> None:
        """Look at it once. Raises KeyError for a part that is not there, `TraceError`, OSError."""
        self._follower = RingFollower(home)
        bundle = self._follower.grown().bundle
        part = bundle.part(node, rank)
        self.node, self.rank = part.node, part.rank
        told = [bundle.description, {name: said for name, said in part.meta.items() if name != "starts_at"}]
        self.key = hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()
        """Which ring it is: what the user keeps hangs on it."""

    @property
    def path(self) -> Path:
        """Where what was looked at last lies."""
        assert self._follower.bundle is not None, "looked at once"
        return self._follower.bundle.path

    def look(self) -> Look:
        """Return how far the part is. Raises `TraceError`."""
        return self._follower.looks().get(f"{self.node}/{self.rank}", Look(0, FINISHED, UNKNOWN, 0.0))

    def view(self) -> RecordedView:
        """Return the recorded state of what is kept now. Raises `TraceError`, OSError."""
        return open_view(self._follower.grown().bundle, self.node, self.rank)


def ring_growth(home: Path, wait: Callable[[float], object]) -> Iterator[Grown]:
    """Yield what is kept now, again whenever more is committed, and a last time when the recording has ended.

    Raises `TraceError`, OSError.
    """
    follower, seen = RingFollower(home), None
    while True:
        looks = follower.looks()
        now = {name: (look.rounds, look.state) for name, look in looks.items()}
        took = 0.0
        if now and now != seen:
            seen, began = now, time.monotonic()
            grown = follower.grown()
            took = time.monotonic() - began
            yield grown
            if grown.ended:
                return
        elif not now and follower.ended:
            raise NotABundle(home, "segments", "a commit", "none")
        wait(max(POLL_SECONDS, _DUTY * took))


def _age_s(part: KeptPart) -> float:
    """Return how long ago anything of a part was committed."""
    commits = [path / layout.COMMITS_FILE for path in part.segments()[-1:]]
    return max(0.0, time.time() - commits[0].stat().st_mtime) if commits else 0.0


def _rounds(bundle: Bundle) -> int:
    return sum(part.last_round for part in bundle.parts)
