"""What is kept of one scheduler in a ring, read: its oldest segment, sealed, and those behind it as they are.

A *sealed* segment holds what came before as far as its rounds need it (`join.py`, which seals). Rows of segments have
the numbers of submissions that the recorder gave; a trace counts its own from 0, so `ids` says which they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsviz.replay.keyframes.keyframe import keyframe_table, recorded_keyframe
from tsviz.trace import layout, privacy
from tsviz.trace.catalogue import DECISIONS, TABLES
from tsviz.trace.hot import HotTables
from tsviz.trace.reader import Part, open_bundle
from tsviz.trace.ring import KEPT, segment_directories
from tsviz.trace.tables import RECORDED
from tsviz.trace.tokens import FULL
from tsviz.trace.whole import WholePart, last_call

from .numbering import PageNumbers, numbered, used_pages
from .tokens import with_known_tokens

IDS, BUNDLE = "ids.json", "bundle"


class KeptPart:
    """What is kept of one part; nothing is changed there."""

    def __init__(self, home: Path, directory: Path, description: Mapping[str, Any]) -> None:
        """`directory`: the part in the ring `home`. Raises `TraceError`."""
        self.directory, self.description = directory, description
        self.meta: dict[str, Any] = layout.read_json(directory / layout.PART_FILE)
        self.name = f"{self.meta['node']}/{self.meta['rank']}"
        self._tables = TABLES if self.meta["level"] == DECISIONS else RECORDED
        self._kept = home / KEPT / directory.name
        self.said = ""
        """Why the oldest segment has no keyframe; empty when it has one, or is the recording's first."""
        self._dropped: Counter[str] = Counter()
        self._carried_verdicts = 0
        self._sealed = self.newest_sealed()
        if self._sealed is not None:
            told = layout.read_json(self._sealed / IDS)
            self._dropped.update(told["dropped"])
            self.said = told["said"]
            self._carried_verdicts = int(told.get("carried_verdicts", 0))  # a seal of an older version carried none

    def newest_sealed(self) -> Path | None:
        """Return the sealed segment there is now; while it is the same nothing was dropped."""
        return (
            max((path for path in self._kept.iterdir() if path.name.isdigit()), default=None)
            if self._kept.is_dir()
            else None
        )

    @property
    def sealed(self) -> Path | None:
        """The sealed segment that was there when this was made."""
        return self._sealed

    def segments(self) -> list[Path]:
        """Return the segments behind the sealed one, oldest first, up to one that is missing."""
        begin = int(self._sealed.name) + 1 if self._sealed is not None else 1
        there = [path for path in segment_directories(self.directory) if int(path.name) >= begin]
        return [path for number, path in enumerate(there, begin) if int(path.name) == number]

    def last_round(self) -> int:
        """Return the last committed round; 0 for none."""
        for path in reversed(self.segments()):
            if has_commits(path) and (last := self._hot(path).last_round):
                return last
        return self._bundle().last_round if self._sealed is not None else 0

    def _hot(self, segment: Path) -> HotTables:
        """Return what is committed in a segment. Raises `TraceError`."""
        return HotTables(segment)

    def _sealed_table(self, part: Part, name: str) -> pa.Table:
        """Return a table of the sealed segment. Raises `TraceError`."""
        return part.table(name)

    def _bundle(self) -> Part:
        assert self._sealed is not None
        return open_bundle(self._sealed / BUNDLE).parts[0]

    def joined(self, segments: list[Path] | None = None, *, gaps: bool = True) -> WholePart:
        """Return the sealed segment and those behind it (all that are committed) as a part of a trace.

        Raises `TraceError`.
        """
        chosen = [path for path in (self.segments() if segments is None else segments) if has_commits(path)]
        return self._join(chosen, gaps=gaps)[0]

    def _join(self, segments: list[Path], *, gaps: bool) -> tuple[WholePart, npt.NDArray[np.int64]]:
        start: dict[str, Any] = {}
        tables: dict[str, list[pa.Table]] = {name: [] for name in self._tables}
        ids: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        last = (0, -1)
        if self._sealed is not None:
            part = self._bundle()
            for name, found in tables.items():
                found.append(self._sealed_table(part, name))
            start = {"starts_at": part.meta["starts_at"]}
            ids = np.array(layout.read_json(self._sealed / IDS)["ids"], np.int64)
            last = (part.last_round, last_call(part.table("calls")))
        pages = PageNumbers(tables["prefix_pages"])
        for path in segments:
            hot = self._hot(path)
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
            keyframe = recorded_keyframe(self._bundle(), int(start["starts_at"]))
            whole["keyframes"] = keyframe_table([with_known_tokens(keyframe, whole, self._bundle().prefix_tokens)])
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


def has_commits(path: Path) -> bool:
    """Return whether anything was committed in a segment."""
    commits = path / layout.COMMITS_FILE
    return commits.is_file() and commits.stat().st_size > 0
