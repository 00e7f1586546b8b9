"""The kept part of a ring, of one scheduler: its oldest segment, sealed as a slice, and those behind it as they are.

A *sealed* segment holds what came before as far as its rounds need it: requests that live, their tables, and the
state of the twin as a keyframe (`slice.py`). The one behind it is sealed by joining the two and cutting the join at its
start; then the older one is dropped, whole: each round is re-executed once, at that point. Rows of segments have the
numbers of submissions that the recorder gave; a trace counts its own from 0, so `ids` says which they are.

Where only calls are recorded (level `calls`) the plans of what is dropped are made again for that, since a sealed
segment carries the last row and the tables of every live request; of its own rounds it has no plans.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsviz.replay.keyframes.keyframe import keyframe_row, recorded_keyframe
from tsviz.replay.reexecution.plans import plans_again
from tsviz.replay.slice import Sliced, write_slice
from tsviz.trace import layout, privacy
from tsviz.trace.catalogue import CALLS, DECISIONS, PLANS, TABLES
from tsviz.trace.drafts import draft
from tsviz.trace.hot import HotTables
from tsviz.trace.reader import open_bundle
from tsviz.trace.ring import KEPT, segment_directories
from tsviz.trace.tables import RECORDED
from tsviz.trace.tokens import FULL
from tsviz.trace.whole import WholePart, last_call, write_whole

from .numbering import PageNumbers, numbered, used_pages
from .tokens import with_known_tokens

_IDS, _BUNDLE = "ids.json", "bundle"


class PartRing:
    """What is kept of one part."""

    def __init__(
        self, home: Path, directory: Path, description: Mapping[str, Any], window_ns: int | None = None,
        limit_bytes: int | None = None,
    ) -> None:  # fmt: skip
        """`directory`: the part in the ring `home`; how much is kept of it (None: all). Raises `TraceError`."""
        self._window_ns, self._limit_bytes = window_ns, limit_bytes
        self._edges: dict[Path, tuple[int, int]] = {}
        self._raw, self.description = directory, description
        self.meta: dict[str, Any] = layout.read_json(directory / layout.PART_FILE)
        self.name = f"{self.meta['node']}/{self.meta['rank']}"
        self._tables = TABLES if self.meta["level"] == DECISIONS else RECORDED
        self._kept = home / KEPT / directory.name
        self._kept.mkdir(parents=True, exist_ok=True)
        self.said = ""
        """Why the oldest segment has no keyframe; empty when it has one, or is the recording's first."""
        self._dropped: Counter[str] = Counter()
        sealed = sorted(path for path in self._kept.iterdir() if path.name.isdigit())
        self._sealed = sealed[-1] if sealed else None
        for path in sealed[:-1]:
            shutil.rmtree(path, ignore_errors=True)
        if self._sealed is not None:
            told = layout.read_json(self._sealed / _IDS)
            self._dropped.update(told["dropped"])
            self.said = told["said"]

    # What is there

    def segments(self) -> list[Path]:
        """Return the segments behind the sealed one, oldest first: as many as make the oldest one droppable, or all.

        Where the recorder is far ahead, what it wrote is gone through a window at a time, as if it had just come.
        """
        there = self._all()
        if self._window_ns is None and self._limit_bytes is None:
            return there
        return next((there[:n] for n in range(2, len(there)) if self._droppable(there[:n])), there)

    @property
    def behind(self) -> bool:
        """Whether there is more than `segments` says."""
        return len(self.segments()) < len(self._all())

    def _all(self) -> list[Path]:
        begin = int(self._sealed.name) + 1 if self._sealed is not None else 1
        return [path for path in segment_directories(self._raw) if int(path.name) >= begin]

    def last_round(self) -> int:
        """Return the last committed round; 0 for none."""
        for path in reversed(self.segments()):
            if _has_commits(path) and (last := HotTables(path).last_round):
                return last
        return self._bundle().last_round if self._sealed is not None else 0

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
        if not _has_commits(path):
            return 0, 0
        hot = HotTables(path)
        times = [batch["time_ns"] for batch in hot.batches(RECORDED["calls"])]
        found = (int(times[0][0].as_py()), int(times[-1][-1].as_py())) if times else (0, 0)
        if hot.final:
            self._edges[path] = found
        return found

    def _bundle(self) -> Any:
        assert self._sealed is not None
        return open_bundle(self._sealed / _BUNDLE).parts[0]

    # What is made of it

    def joined(self, segments: list[Path] | None = None, *, gaps: bool = True) -> WholePart:
        """Return the sealed segment and those behind it (all that are committed) as a part of a trace.

        Raises `TraceError`.
        """
        chosen = [path for path in (self.segments() if segments is None else segments) if _has_commits(path)]
        return self._join(chosen, gaps=gaps)[0]

    def _join(self, segments: list[Path], *, gaps: bool) -> tuple[WholePart, npt.NDArray[np.int64]]:
        start: dict[str, Any] = {}
        tables: dict[str, list[pa.Table]] = {name: [] for name in self._tables}
        ids: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        last = (0, -1)
        if self._sealed is not None:
            part = self._bundle()
            for name, found in tables.items():
                found.append(part.table(name))
            start = {"starts_at": part.meta["starts_at"]}
            ids = np.array(layout.read_json(self._sealed / _IDS)["ids"], np.int64)
            last = (part.last_round, last_call(part.table("calls")))
        pages = PageNumbers(tables["prefix_pages"])
        for path in segments:
            hot = HotTables(path)
            read = {
                name: pa.Table.from_batches(list(hot.batches(table)), table.schema)
                for name, table in self._tables.items()
            }
            ids = np.concatenate([ids, read["submissions"]["submission"].to_numpy()])
            for name, rows in pages.merged(read).items():
                tables[name].append(numbered(rows, ids))
            if hot.last_round:
                last = (hot.last_round, hot.last_seq)
        whole = {name: pa.concat_tables(found).unify_dictionaries() for name, found in tables.items()}
        if self.meta["tokens"] != FULL and whole["keyframes"].num_rows:
            keyframe = recorded_keyframe(self._bundle(), whole["keyframes"])
            known = with_known_tokens(keyframe, whole, self._bundle().prefix_tokens)
            whole["keyframes"] = pa.Table.from_pylist([keyframe_row(known)], RECORDED["keyframes"].schema)
        if self.meta["tokens"] == FULL:
            whole |= used_pages(whole)
        if gaps and start:
            whole["gaps"] = pa.concat_tables([self._gaps(int(start["starts_at"]) - 1), whole["gaps"]])
        return WholePart({**self.meta, **start}, whole, *last), ids

    def _gaps(self, last_round: int) -> pa.Table:
        rows = [
            {"round": 1, "last_round": last_round, "table": name, "dropped_rows": count, "reason": privacy.RING}
            for name, count in sorted(self._dropped.items()) if count
        ]  # fmt: skip
        return pa.Table.from_pylist(rows, RECORDED["gaps"].schema)

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
            sliced = self._cut(part, first, HotTables(new).last_round, place, made / _BUNDLE)
            begin = part.meta.get("starts_at", 1)
            dropped = self._dropped + Counter(
                {name: _inside(rows, begin, first) for name, rows in part.tables.items() if name != "keyframes"}
            )
            kept = [int(ids[number]) for number in sliced.submissions]
            said = sliced.no_keyframe
            layout.write_json(made / _IDS, {"ids": kept, "dropped": dict(dropped), "said": said})
            made.rename(self._kept / new.name)
        gone = self._sealed
        self._sealed, self._dropped, self.said = self._kept / new.name, dropped, said
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


def _has_commits(path: Path) -> bool:
    commits = path / layout.COMMITS_FILE
    return commits.is_file() and commits.stat().st_size > 0


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _inside(rows: pa.Table, first: int, end: int) -> int:
    """Return how many rows of a table are of rounds from `first` on and in front of `end`: not of what is carried."""
    rounds = rows["round"].to_numpy()
    return int(np.count_nonzero((rounds >= first) & (rounds < end)))
