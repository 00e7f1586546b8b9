"""The process behind a session: it verifies, and answers with live states, decisions and its frontier.

Started by `live.py`. A line of JSON on standard input is a question; frames (`tsviz.query.frames`) go out on what was
standard output. The end of standard input means that the session is gone. Questions go first, then the neighbours of
the last answer, then verification, a moment at a time.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from collections import deque
from dataclasses import asdict
from typing import Any, BinaryIO, cast

from tsviz.query import frames
from tsviz.replay.reexecution.collecting import collecting_seldom
from tsviz.replay.reexecution.filled import open_filled
from tsviz.replay.reexecution.index import open_index
from tsviz.replay.reexecution.keyframe_files import KeyframeFiles
from tsviz.replay.reexecution.run import NoKeyframe
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import Part

from .as_bytes import to_bytes
from .run import Known, LiveRun, Place
from .state import live_state

STATE, TOLD, FRONTIER, NOTHING = b"S", b"L", b"F", b"N"
PLACE = struct.Struct("<qqq")
"""Head of a STATE frame: the question (0: not asked for), round and stop (-1: behind the round)."""
TABLE = struct.Struct("<qq32s")
"""Head of a TOLD frame: the question, the round, and the table whose rows follow; no table ends the answer."""
_MOMENT_SECONDS = 0.05
_TELL_SECONDS = 0.1
_NEIGHBOURS = (1, -1, 2, -2)


class _Worker:
    def __init__(self, run: LiveRun, out: BinaryIO) -> None:
        self._run, self._out = run, out
        self._asked: deque[dict[str, Any]] = deque()
        self._near: deque[Place] = deque()
        self._sent: set[Place] = set()
        self._buffer = b""
        self._told = 0.0

    def serve(self) -> None:
        """Answer until the session is gone."""
        self._tell_frontier()
        while self._read(block=not (self._asked or self._near or not self._run.done)):
            if self._answer_one() or self._prefetch():
                continue
            if not self._run.done:
                self._run.verify_for(_MOMENT_SECONDS)
                if self._run.done or time.monotonic() - self._told > _TELL_SECONDS:
                    self._tell_frontier()

    def _read(self, *, block: bool) -> bool:
        """Take the questions that are there; False at the end of input."""
        while select.select([0], [], [], None if block else 0)[0]:
            data = os.read(0, 1 << 16)
            if not data:
                return False
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            self._asked.extend(json.loads(line) for line in lines)
            block = block and not lines
        return True

    def _answer_one(self) -> bool:
        """Answer the first question that can be answered; of several for a state only the last one counts."""
        states = [ask for ask in self._asked if ask["ask"] == "state"]
        for ask in states[:-1]:
            self._asked.remove(ask)
            self._nothing(ask["id"], "superseded", "another position was asked for")
        for ask in self._asked:
            if ask["round"] <= self._run.verified or self._run.done:
                self._asked.remove(ask)
                self._answer(ask)
                return True
        return False

    def _answer(self, ask: dict[str, Any]) -> None:
        number, round_, run = ask["id"], ask["round"], self._run
        if not run.first <= round_ <= run.verified:
            self._nothing(number, *self._why_not(round_))
        elif ask["ask"] == "told":
            for name, rows in run.told(round_).rows.items():
                head = TABLE.pack(number, round_, name.encode())
                frames.write(self._out, TOLD, head + frames.encode(rows.schema, rows).to_pybytes())
            frames.write(self._out, TOLD, TABLE.pack(number, round_, b""))
        else:
            self._sent.clear()
            place = self._send(number, (round_, ask["stop"]))
            self._near = deque(self._neighbours(place) if place else ())

    def _why_not(self, round_: int) -> tuple[str, str]:
        run, found = self._run, self._run.divergence
        if found is not None and round_ >= found.round:
            return "diverged", f"the twin leaves the recording in round {found.round:,} ({found.field})"
        return "no_round", f"round {round_:,} is not in the trace, which has {run.first:,} to {run.verified:,}"

    def _send(self, number: int, place: Place) -> Place | None:
        seen = self._run.look(place)
        if seen is None:
            self._nothing(number, "diverged", f"the twin leaves the recording in round {place[0]:,}")
            return None
        found = (seen.round, seen.stop)
        head = PLACE.pack(number, place[0], -1 if place[1] is None else place[1])
        frames.write(self._out, STATE, head + to_bytes(live_state(seen)))
        self._sent.add(found)
        return found

    def _neighbours(self, place: Place) -> list[Place]:
        round_, stop = place
        if stop is None:
            rounds = [round_ + step for step in _NEIGHBOURS]
            return [(at, None) for at in rounds if self._run.first <= at <= self._run.verified]
        line: list[int | None] = [0, *self._run.told(round_).stops, None]
        at = line.index(stop) if stop in line else 0
        return [(round_, line[at + step]) for step in _NEIGHBOURS if 0 <= at + step < len(line)]

    def _prefetch(self) -> bool:
        while self._near:
            place = self._near.popleft()
            if place not in self._sent:
                self._send(0, place)
                return True
        return False

    def _nothing(self, number: int, cause: str, words: str) -> None:
        frames.write(self._out, NOTHING, json.dumps({"id": number, "cause": cause, "words": words}).encode())

    def _tell_frontier(self) -> None:
        self._told = time.monotonic()
        run = self._run
        divergence = None if run.divergence is None else asdict(run.divergence)
        told = {"first": run.first, "verified": run.verified, "done": run.done, "divergence": divergence}
        frames.write(self._out, FRONTIER, json.dumps(told).encode())


def _known(part: Part) -> Known | None:
    """Return what an index in the user's cache knows, if its keyframes are sound."""
    index = open_index(part)
    if index is None:
        return None
    try:
        return Known(KeyframeFiles(index.directory, part), index.last_round, index.divergence)
    except TraceError:
        return None


def main() -> None:
    """Open the part that the first line names, and serve."""
    out = cast(BinaryIO, os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    with os.fdopen(0, "rb", buffering=0, closefd=False) as questions:
        line = questions.readline()
    if not line:
        return
    ask = json.loads(line)
    os.nice(5)
    try:  # of a large trace damage may show only when its row group is read
        part = open_filled(ask["path"]).part(ask["node"], ask["rank"])
        with collecting_seldom():
            _Worker(LiveRun(part, _known(part)), out).serve()
    except (TraceError, KeyError, MemoryError) as error:
        words = error.found if isinstance(error, NoKeyframe) else str(error) or type(error).__name__
        told = {"id": 0, "cause": "unreadable", "words": words}
        frames.write(out, NOTHING, json.dumps(told).encode())


if __name__ == "__main__":
    main()
