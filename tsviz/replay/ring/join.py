"""Dropping the oldest segment of a ring, of one scheduler: the one behind it is sealed, as a slice.

A *sealed* segment holds what came before as far as its rounds need it: requests that live, their tables, and the
state of the twin as a keyframe (`slice.py`). The one behind it is sealed by joining the two and cutting the join at its
start; then the older one is dropped, whole: each round is re-executed once, at that point.

Where only calls are recorded (level `calls`) the plans of what is dropped are made again for that, since a sealed
segment carries the last row and the tables of every live request; of its own rounds it has no plans.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tsviz.replay.keyframes.keyframe import keyframe_table
from tsviz.replay.reexecution.behind_gaps import keyframes_behind_gaps
from tsviz.replay.reexecution.plans import plans_again
from tsviz.replay.slice import Sliced, write_slice
from tsviz.trace import layout
from tsviz.trace.catalogue import CALLS, PLANS
from tsviz.trace.drafts import draft
from tsviz.trace.gaps import LostRounds
from tsviz.trace.hot import HotTables
from tsviz.trace.reader import open_bundle
from tsviz.trace.tables import RECORDED
from tsviz.trace.whole import WholePart, write_whole

from .kept import BUNDLE, IDS, KeptPart, has_commits


class PartRing(KeptPart):
    """What is kept of one part, for its keeper, which drops what is beyond a limit."""

    def __init__(
        self, home: Path, directory: Path, description: Mapping[str, Any], window_ns: int | None = None,
        limit_bytes: int | None = None,
    ) -> None:  # fmt: skip
        """`directory`: the part in the ring `home`; how much is kept (None: all). Raises `TraceError`, OSError."""
        super().__init__(home, directory, description)
        self._window_ns, self._limit_bytes = window_ns, limit_bytes
        self._edges: dict[Path, tuple[int, int]] = {}
        self._kept.mkdir(parents=True, exist_ok=True)
        for path in self._kept.iterdir():
            if path.name.isdigit() and path != self._sealed:
                shutil.rmtree(path, ignore_errors=True)

    def segments(self) -> list[Path]:
        """Return the segments behind the sealed one, oldest first: as many as make the oldest one droppable, or all.

        Where the recorder is far ahead, what it wrote is gone through a window at a time, as if it had just come.
        """
        there = super().segments()
        if self._window_ns is None and self._limit_bytes is None:
            return there
        return next((there[:n] for n in range(2, len(there)) if self._droppable(there[:n])), there)

    @property
    def behind(self) -> bool:
        """Whether there is more than `segments` says."""
        return len(self.segments()) < len(super().segments())

    def droppable(self) -> bool:
        """Return whether the oldest segment is outside of what is to be kept, and the one behind it is not the newest.

        The newest one may have calls behind its last plan, which belong to no round yet.
        """
        return self._droppable(self.segments())

    def _droppable(self, behind: list[Path]) -> bool:
        at = 0 if self._sealed is not None else 1
        if len(behind) < at + 2:
            return False
        if self._limit_bytes is not None:
            return sum(_size(path) for path in [*behind, *filter(None, [self._sealed])]) > self._limit_bytes
        newest = max(self._edge(path)[1] for path in behind)
        return self._window_ns is not None and newest - self._edge(behind[at])[0] >= self._window_ns

    def _edge(self, path: Path) -> tuple[int, int]:
        """Return the times of the first and the last call of a segment; zeros for none yet."""
        if path in self._edges:
            return self._edges[path]
        if not has_commits(path):
            return 0, 0
        hot = HotTables(path)
        times = [batch["time_ns"] for batch in hot.batches(RECORDED["calls"])]
        found = (int(times[0][0].as_py()), int(times[-1][-1].as_py())) if times else (0, 0)
        if hot.final:
            self._edges[path] = found
        return found

    def with_plans(self, whole: WholePart, place: Path) -> WholePart:
        """Return what `joined` gave with its plans, made again where only calls are recorded (in the folder `place`).

        Raises `TraceError`, OSError.
        """
        if self.meta["level"] != CALLS:
            return whole
        write_whole(place, self.description, [whole], {})
        made = plans_again(open_bundle(place).parts[0], whole.last_round + 1)
        return WholePart(
            {**whole.meta, "level": PLANS}, {**whole.tables, **made.tables}, whole.last_round, whole.last_seq
        )

    def advance(self) -> None:
        """Seal the segment behind the oldest one and drop that, whole. Raises `TraceError`, OSError."""
        behind = self.segments()
        old, new = ([], behind[0]) if self._sealed is not None else ([behind[0]], behind[1])
        part, ids = self._join([*old, new], gaps=False)
        first = self._join(old, gaps=False)[0].last_round + 1
        with draft(self._kept, "sealing-", own=True) as place:
            made = place / "sealed"
            sliced = self._cut(part, first, HotTables(new).last_round, place, made / BUNDLE)
            begin = part.meta.get("starts_at", 1)
            dropped = self._dropped + Counter(
                {name: _inside(rows, begin, first) for name, rows in part.tables.items() if name != "keyframes"}
            )
            if begin < first:
                dropped["verdicts"] -= self._carried_verdicts
            kept = [int(ids[number]) for number in sliced.submissions]
            said = sliced.no_keyframe
            told = {"ids": kept, "dropped": dict(dropped), "said": said, "carried_verdicts": sliced.carried_verdicts}
            layout.write_json(made / IDS, told)
            made.rename(self._kept / new.name)
        gone = self._sealed
        self._sealed, self._dropped, self.said = self._kept / new.name, dropped, said
        self._carried_verdicts = sliced.carried_verdicts
        for path in (gone, *old, new):
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)

    def _cut(self, part: WholePart, first: int, last: int, place: Path, out: Path) -> Sliced:
        """Write a part from round `first` on, with the state there, as the bundle `out`; drafts lie in `place`."""
        write_whole(place / "joined", self.description, [part], {})
        joined = open_bundle(place / "joined")
        if self.meta["level"] != CALLS:
            return write_slice(joined, joined.parts[0], first, last, out)
        made = plans_again(joined.parts[0], first)
        with_plans = WholePart(
            {**part.meta, "level": PLANS}, {**part.tables, **made.tables}, part.last_round, part.last_seq
        )
        write_whole(place / "planned", self.description, [with_plans], {})
        planned = open_bundle(place / "planned")
        sliced = write_slice(planned, planned.parts[0], first, last, out, keyframe=made.keyframe)
        directory = layout.part_directory(out, part.meta["node"], part.meta["rank"])
        layout.write_json(
            directory / layout.PART_FILE, {**layout.read_json(directory / layout.PART_FILE), "level": CALLS}
        )
        return sliced


def behind_gaps(whole: WholePart, description: Mapping[str, Any], place: Path) -> WholePart:
    """Return what is kept with the state behind each gap in it, too; drafts lie in the folder `place`.

    Raises `TraceError`, OSError.
    """
    if not LostRounds(whole.tables["gaps"]):
        return whole
    write_whole(place, description, [whole], {})
    found = keyframe_table(keyframes_behind_gaps(open_bundle(place).parts[0]))
    return replace(whole, tables={**whole.tables, "keyframes": pa.concat_tables([whole.tables["keyframes"], found])})


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _inside(rows: pa.Table, first: int, end: int) -> int:
    """Return how many rows of a table are of rounds from `first` on and in front of `end`: not of what is carried."""
    rounds = rows["round"].to_numpy()
    return int(np.count_nonzero((rounds >= first) & (rounds < end)))
