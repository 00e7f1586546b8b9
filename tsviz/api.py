"""Traces from Python: `tsviz.open` (debugger.md, section 7; docs/python.md)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike, fspath
from typing import TYPE_CHECKING

import pyarrow as pa

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked
from tsviz.query.opening import LeftOut, open_several, open_with_tables
from tsviz.query.paths import bundles_of, unnamed
from tsviz.replay.reexecution.filled import fill, needs_plans, open_filled
from tsviz.replay.reexecution.index import build_index, open_indexed
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import Bundle

if TYPE_CHECKING:
    from tsviz.replay.recorded.snapshot import RecordedView
    from tsviz.replay.session import Session

_MEMORY_BYTES = 1 << 30


class Trace:
    """One or several opened bundles: their tables in SQL and as Arrow, and the state at any round.

    What is opened is what was there at that moment; open a growing trace again to see more. Use it from one thread.
    """

    def __init__(
        self, paths: Sequence[str], optional: Collection[str] = (), bundles: Sequence[Bundle] | None = None
    ) -> None:
        """Open the bundles at these paths; of the optional ones those that cannot be read are left out.

        `bundles`, if given, were opened at these paths, and are taken as they are. Raises `TraceError`, also where all
        of the optional ones would be left out.
        """
        opened, left_out = (
            open_several(lambda path: (path, open_filled(path)), paths, optional, (TraceError, OSError))
            if bundles is None
            else (list(zip(paths, bundles, strict=True)), [])
        )
        self._optional, self._left_out = optional, tuple(left_out)
        _warn(left_out)
        self.paths = tuple(path for path, _ in opened)
        self.bundles: tuple[Bundle, ...] = tuple(bundle for _, bundle in opened)
        """The bundles themselves: metadata, parts, raw tables."""
        self._opened = bundles is not None

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The bundles of a folder or pattern that could not be read: path and reason of each. Reads the tables.

        Of these `sql`, `hits` and `table` have nothing; a warning named each when it was left out.
        """
        _ = self._locked
        return self._left_out

    @cached_property
    def _locked(self) -> Locked:
        if self._opened:
            return _lock(Catalog(self.bundles))
        bundles, left_out = open_several(
            lambda path: open_with_tables(open_indexed, path), self.paths, self._optional, (TraceError, OSError)
        )
        known = {one.path for one in self._left_out}
        new = [one for one in left_out if one.path not in known]
        self._left_out += tuple(new)
        _warn(new)
        return _lock(Catalog(bundles))

    def sql(self, query: str) -> pa.Table:
        """Return all rows of one query over the relations of docs/sql.md. Raises `QueryError`.

        It runs in this process, on a connection that reads and nothing else, without a limit on time: Ctrl-C stops it.
        A query that is not your own belongs into `tsviz sql`, which has a process with limits for it.
        """
        return self._locked.query(query)[0]

    def hits(self, predicate: str) -> pa.Table:
        """Return every position at which an SQL predicate holds, as `tsviz hits` does. Raises `QueryError`.

        The columns are `trace, node, rank, round, stop, submission, request`, sorted. Where decisions are not known
        (see `parts`), a predicate about them has no hits.
        """
        from tsviz.replay.hits import LIMITS, hits

        return hits(self._locked, predicate, limits=replace(LIMITS, rows=None)).positions

    def table(self, name: str) -> pa.Table:
        """Return a table or view whole, `trace`, `node` and `rank` in front. Raises `QueryError` for no such name."""
        return self.sql('FROM "' + name.replace('"', '""') + '"')

    @property
    def parts(self) -> pa.Table:
        """The parts: a row a scheduler, with its settings and how far decisions are known."""
        return self.table("parts")

    @property
    def rounds(self) -> pa.Table:
        """The rounds of all parts, in order."""
        return self.sql("FROM rounds ORDER BY trace, node, rank, round")

    @property
    def requests(self) -> pa.Table:
        """The requests of all parts in order of submission: latencies, tokens, retractions."""
        return self.sql("FROM requests ORDER BY trace, node, rank, submission")

    def view(self, node: str | None = None, rank: int | None = None, trace: int = 0) -> RecordedView:
        """Return the state of a part (the first without node and rank) of one of the bundles, at any round.

        `view().snapshot(12)` is what the screen shows at round 12. Raises KeyError naming the parts there are.
        """
        from tsviz.replay.view import open_view

        return open_view(self.bundles[trace], node, rank)

    def replay(self, node: str | None = None, rank: int | None = None, trace: int = 0) -> Session:
        """Return a session: a cursor in a part (the first without node and rank) of one of the bundles.

        Close it, or use it in a `with`: it has a worker process. Raises KeyError naming the parts there are,
        `TraceError`.
        """
        from tsviz.replay.hits import Hits, Near, Wanted, hits
        from tsviz.replay.session import Session

        bundle = self.bundles[trace]
        alone = self if len(self.bundles) == 1 else Trace([self.paths[trace]])

        def search(predicate: str, wanted: Wanted, near: Near) -> Hits:
            return hits(alone._locked, predicate, wanted, near)

        return Session(bundle, bundle.part(node, rank), search)

    def index(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Derive the decisions of parts that were recorded without them; `progress` is told rounds done and in all.

        Of parts whose calls alone were recorded the plans as well.

        They are kept in the user's cache, as `tsviz index` does. Raises `TraceError`, OSError.
        """
        tell = None if progress is None else lambda _, done, of: progress(done, of)
        whole = [fill(bundle, progress=tell)[0] if needs_plans(bundle) else bundle for bundle in self.bundles]
        self.bundles = tuple(whole)
        for bundle in self.bundles:
            for part in bundle.parts:
                if part.level != "decisions":
                    build_index(part, progress=progress)
        self.__dict__.pop("_locked", None)

    def __repr__(self) -> str:
        return f"<Trace {', '.join(bundle.name for bundle in self.bundles)}>"


def follow_trace(path: str | PathLike[str]) -> Iterator[Trace]:
    """Yield a recording as it is now, then again whenever more of it is committed, to its end (`tsviz.follow`).

    Each is a `Trace` of what was committed at that moment, and stays that. Of a flight recorder (`OUT.ring`) it is what
    is kept; a warning names the rounds that were dropped before they were yielded. Raises `TraceError`, OSError.
    """
    from pathlib import Path

    from tsviz.replay.growth import growth

    for grown in growth(Path(path)):
        for words in grown.told:
            warnings.warn(words, stacklevel=2)
        yield Trace([fspath(path)], bundles=[grown.bundle])


def open_trace(*paths: str | PathLike[str]) -> Trace:
    """Open one or several traces: bundles, folders of bundles, or patterns such as `runs/*`. Raises `TraceError`.

    A folder stands for the bundles right in it; `**` in a pattern looks deeper. Of these, one that cannot be read is
    left out, with a warning: `Trace.left_out` names it. One that was named itself must be sound.
    """
    given = [fspath(path) for path in paths]
    bundles = bundles_of(given)
    return Trace(bundles, unnamed(bundles, given))


def _lock(catalog: Catalog) -> Locked:
    return Locked(catalog, Limits(memory_bytes=_MEMORY_BYTES, seconds=None, rows=None))


def _warn(left_out: Sequence[LeftOut]) -> None:
    for one in left_out:
        warnings.warn(f"left out: {one}", stacklevel=4)
