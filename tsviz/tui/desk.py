"""What the other screens ask about a trace beyond its rounds: a `Desk`. `TraceDesk` asks processes of their own.

Nothing here waits: a stream begins to work when it is iterated, which `jobs.Jobs` does on a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from tsviz.replay.recorded.snapshot import RecordedView


class Stream(Protocol):
    """Answers that arrive; `cancel`, from any thread, ends them."""

    def __iter__(self) -> Iterator[object]: ...

    def cancel(self) -> None:
        """End the answers."""


class Desk(Protocol):
    """What can be asked about one part of a trace."""

    @property
    def trace(self) -> str:
        """The trace as a command takes it."""

    @property
    def key(self) -> str:
        """Which trace it is, whatever its path (`tsviz.replay.identity`): what the user keeps hangs on it."""

    def view(self) -> RecordedView:
        """Open the part anew, with what is known of it by now. Raises `TraceError`."""

    def derive(self) -> Stream:
        """Re-execute what was recorded without decisions, and keep these in the index."""

    def findings(self, *, derive: bool) -> Stream:
        """Ask for every finding of every part (`tsviz.replay.survey.ask`); `derive` re-executes for decisions."""

    def lost_time(self, *, derive: bool) -> Stream:
        """Ask where the time went."""

    def query(self, sql: str, rows: int) -> Stream:
        """Ask SQL, at most so many rows (`tsviz.tui.queries`)."""

    def save(self, sql: str, path: Path) -> Stream:
        """Ask SQL and write the whole answer to a new file."""

    def compare(self, other: str) -> Stream:
        """Compare the part with that of another trace (`tsviz.replay.diff.side_by_side`)."""

    def what_if(self, settings: tuple[str, ...]) -> Stream:
        """Run the part again with knobs turned, and compare with that (`tsviz.tui.what_ifs`)."""

    def language(self) -> Stream:
        """Load what the editor knows of SQL (`tsviz.tui.language`)."""

    def hits(self, predicate: str) -> Stream:
        """Ask for every position of the part at which a predicate holds (`tsviz.replay.survey.ask`)."""


class TraceDesk:
    """The desk of a part of a bundle on disk.

    Where `key` is given, every question is refused once another trace is at the path (`tsviz.replay.identity`).
    """

    def __init__(self, trace: str, node: str, rank: int, key: str = "") -> None:
        self._trace = trace
        self._node, self._rank = node, rank
        self.key = self._identity = key

    @property
    def trace(self) -> str:
        """The trace as a command takes it."""
        return self._trace

    @property
    def _part(self) -> dict[str, Any]:
        return {"trace": self.trace, "node": self._node, "rank": self._rank, "identity": self._identity}

    def view(self) -> RecordedView:
        """Open the part anew."""
        from tsviz.replay.identity import require_at
        from tsviz.replay.view import view_at

        if self._identity:
            require_at(self.trace, self._node, self._rank, self._identity)
        return view_at(self.trace, self._node, self._rank)

    def derive(self) -> Stream:
        """Build the index."""
        return self._survey("derive", True)

    def findings(self, *, derive: bool) -> Stream:
        """Ask for the findings."""
        return self._survey("findings", derive)

    def lost_time(self, *, derive: bool) -> Stream:
        """Ask where the time went."""
        return self._survey("lost_time", derive)

    def query(self, sql: str, rows: int) -> Stream:
        """Ask SQL."""
        from tsviz.tui.queries import Query

        return Query((self.trace,), sql, rows, self._problem)

    def save(self, sql: str, path: Path) -> Stream:
        """Write the answer of SQL."""
        from tsviz.tui.queries import Save

        return Save((self.trace,), sql, path, self._problem)

    def language(self) -> Stream:
        """Load the language."""
        from tsviz.tui.language import LanguageLoader

        return LanguageLoader()

    def compare(self, other: str) -> Stream:
        """Compare with another trace."""
        from tsviz.replay.survey.child import Survey

        return Survey(self._part | {"what": "compare", "other": other})

    def what_if(self, settings: tuple[str, ...]) -> Stream:
        """Compare with a run in which knobs stand elsewhere."""
        from tsviz.tui.what_ifs import WhatIf

        return WhatIf(f"{self.trace}@{self._node}/{self._rank}", settings, self.compare)

    def hits(self, predicate: str) -> Stream:
        """Ask where a predicate holds."""
        from tsviz.replay.survey.child import Survey

        return Survey(self._part | {"what": "hits", "predicate": predicate})

    def _survey(self, what: str, derive: bool) -> Stream:
        from tsviz.replay.survey.child import Survey

        return Survey(self._part | {"what": what, "derive": derive})

    def _problem(self) -> str:
        """Return why nothing can be asked: the trace is gone, or another one is in its place."""
        from tsviz.replay.identity import problem_at

        return problem_at(self.trace, self._node, self._rank, self._identity) if self._identity else ""


class RingDesk(TraceDesk):
    """The desk of a part of a ring: it asks what was looked at last, which lies elsewhere after each look."""

    def __init__(self, where: Callable[[], Path], node: str, rank: int, key: str) -> None:
        """`where` says where that lies."""
        super().__init__("", node, rank)
        self._where, self.key = where, key

    @property
    def trace(self) -> str:
        """What was looked at last."""
        return str(self._where())
