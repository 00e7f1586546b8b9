"""What is known of the trace as a whole, kept while one looks: findings and lost time, as they arrive.

The other screens are pure views of these frozen values. `Study` lives on the screen's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tsviz.replay.diff.sides import Met, MetSome, Sides
from tsviz.replay.survey.ask import Extent, Failed, Looked, LostTime, Plan, Progress
from tsviz.tui.desk import Desk, Stream
from tsviz.tui.jobs import Done, Jobs, Told
from tsviz.tui.language import Language
from tsviz.tui.notes import Note, Notes
from tsviz.tui.sql_state import SqlState
from tsviz.tui.watches import Watches

FINDINGS, LOST, SQL, SAVE, LANGUAGE, HITS, COMPARE, DERIVE = (
    "findings",
    "lost time",
    "sql",
    "save",
    "language",
    "hits",
    "compare",
    "derive",
)
_FOUND, _NOT_CHECKABLE = "found", "not_checkable"
_SEVERITIES = ("broken", "stuck", "costly")


@dataclass(frozen=True, slots=True)
class Known:
    """How far an answer has come. `asked` is false before anybody wanted it."""

    asked: bool = False
    running: bool = False
    progress: Progress | None = None
    extents: tuple[Extent, ...] = ()
    error: str = ""

    @property
    def derivable(self) -> bool:
        """Whether re-execution could tell more than is known: decisions of a part were never derived."""
        return any(extent.source == "none" and not extent.note for extent in self.extents)


@dataclass(frozen=True, slots=True)
class Findings:
    """The checks that were made so far."""

    known: Known = Known()
    checks: int = 0
    looked: tuple[Looked, ...] = ()

    @property
    def found(self) -> tuple[Looked, ...]:
        """What was found, worst first."""
        found = [one for one in self.looked if one.outcome == _FOUND]
        return tuple(sorted(found, key=lambda one: _SEVERITIES.index(one.severity)))

    @property
    def not_checkable(self) -> tuple[Looked, ...]:
        """Checks that could not be made."""
        return tuple(one for one in self.looked if one.outcome == _NOT_CHECKABLE)

    @property
    def clean(self) -> tuple[Looked, ...]:
        """Checks that found nothing."""
        return tuple(one for one in self.looked if one.outcome not in (_FOUND, _NOT_CHECKABLE))

    @property
    def awaited(self) -> bool:
        """Whether more may be found yet: checks are being made, or decisions that they read can be derived."""
        return self.known.running or self.known.derivable

    @property
    def whole(self) -> bool:
        """Whether every check has ended, on the decisions of every round: only then is nothing found an all-clear."""
        made = not self.awaited and not self.known.error and len(self.looked) >= self.checks
        return made and all(extent.complete for extent in self.known.extents)


@dataclass(frozen=True, slots=True)
class Lost:
    """The sums that have arrived."""

    known: Known = Known()
    time: tuple[LostTime, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Another trace beside this one: what was asked for, and what has arrived."""

    other: str = ""
    known: Known = Known()
    sides: Sides | None = None
    requests: tuple[Met, ...] = ()
    what_if: bool = False
    """Whether `other` is what was turned for a run of this trace, and no path."""


class Study:
    """Asks the desk, keeps what it answers, and tells whoever listens that something is new."""

    def __init__(self, desk: Desk, deliver: Callable[[Told], object]) -> None:
        self.desk = desk
        self.jobs = Jobs(deliver)
        self.findings = Findings()
        self.lost = Lost()
        self.derived = Known()
        """How far the decisions of a trace that has none have come."""
        self.sql = SqlState()
        self.language: Language | None = None
        self.comparison = Comparison()
        self.watches = Watches(desk.key)
        self.notes = Notes(desk.key)
        self._wanted: list[str] = []
        self._sought = ""
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever something is new."""
        self._listeners.append(listener)

    def leave(self, listener: Callable[[], None]) -> None:
        """Call it no more."""
        self._listeners.remove(listener)

    def ask_findings(self, *, derive: bool = False) -> None:
        """Make the checks, anew if they were made."""
        self.findings = Findings(Known(asked=True, running=True))
        self._start(FINDINGS, self.desk.findings(derive=derive))

    def ask_lost(self, *, derive: bool = False) -> None:
        """Split the time, anew if it was split."""
        self.lost = Lost(Known(asked=True, running=True))
        self._start(LOST, self.desk.lost_time(derive=derive))

    def ask_decisions(self) -> None:
        """Re-execute for decisions, once."""
        if not self.derived.asked:
            self.derived = Known(asked=True, running=True)
            self._start(DERIVE, self.desk.derive())

    def ask_sql(self, sql: str, rows: int) -> None:
        """Ask a query."""
        self.sql.begin(sql, rows)
        self._start(SQL, self.desk.query(sql, rows))

    def save_sql(self, sql: str, path: Path) -> None:
        """Write the whole answer of a query to a new file."""
        self.sql.saving()
        self._start(SAVE, self.desk.save(sql, path))

    def stop_sql(self) -> bool:
        """Stop the query and the writing; return whether there was one."""
        stopped = [self.jobs.cancel(kind) for kind in (SQL, SAVE)]
        self.sql.stop()
        self.changed()
        return any(stopped)

    def ask_hits(self, *, anew: bool = True) -> None:
        """Look for the hits of every breakpoint; without `anew` only of those that were not looked for yet."""
        for watch in list(self.watches.all):
            if anew or not watch.sought:
                self._ask_hits(watch.predicate)

    def _ask_hits(self, predicate: str) -> None:
        self.watches.begin(predicate)
        self._wanted = [*(other for other in self._wanted if other != predicate), predicate]
        self._next_hits()

    def _next_hits(self) -> None:
        """Look for the hits of one breakpoint at a time: each takes a process."""
        if self._wanted and not self.jobs.running(HITS):
            self._sought = self._wanted.pop(0)
            self._start(HITS, self.desk.hits(self._sought))

    def add_watch(self, predicate: str) -> bool:
        """Add a breakpoint and look for its hits; false where it is there already."""
        added = self.watches.add(predicate)
        if added:
            self._ask_hits(predicate)
        return added

    def remove_watch(self, number: int) -> None:
        """Forget a breakpoint."""
        predicate = self.watches.all[number].predicate
        self.watches.remove(number)
        self._wanted = [other for other in self._wanted if other != predicate]
        if predicate == self._sought:
            self.jobs.cancel(HITS)
            self._next_hits()
        self.changed()

    def put_note(self, note: Note) -> None:
        """Note something."""
        self.notes.put(note)
        self.changed()

    def remove_note(self, note: Note) -> None:
        """Forget a note."""
        self.notes.remove(note)
        self.changed()

    def ask_compare(self, other: str) -> None:
        """Compare with another trace, or with a run of this one with knobs turned (`pages=257 max_new=declared`)."""
        from tsviz.tui.what_ifs import settings_of

        settings = settings_of(other)
        self.comparison = Comparison(other, Known(asked=True, running=True), what_if=bool(settings))
        self._start(COMPARE, self.desk.what_if(settings) if settings else self.desk.compare(other))

    def load_language(self) -> None:
        """Load what the editor knows, unless it is loaded or loading."""
        if self.language is None and not self.jobs.running(LANGUAGE):
            self._start(LANGUAGE, self.desk.language())

    def cancel(self, kind: str) -> bool:
        """Stop asking; what has come stays. Return whether something was stopped."""
        if not self.jobs.cancel(kind):
            return False
        if kind == COMPARE:
            self._take_comparison(Done("stopped"))
            self.changed()
            return True
        self._end(kind, "stopped")
        self.changed()
        return True

    def close(self) -> None:
        """End everything that runs."""
        self._listeners.clear()
        self.jobs.close()

    def _start(self, kind: str, stream: Stream) -> None:
        self.jobs.start(kind, stream)
        self.changed()

    def take(self, told: Told) -> None:
        """Keep an answer of one of the jobs."""
        if not self.jobs.wanted(told):
            return
        if told.kind == COMPARE:
            self._take_comparison(told.value)
            self.changed()
            return
        match told.value:
            case Language() as language:
                self.language = language
            case value if told.kind in (SQL, SAVE):
                self.sql.take(value)
            case Done() if told.kind == LANGUAGE:
                pass
            case Done(error=error) if told.kind == HITS:
                self.watches.end(self._sought, error)
                self._next_hits()
            case value if told.kind == HITS:
                self.watches.take(self._sought, value)
            case Plan(checks):
                self.findings = replace(self.findings, checks=checks)
            case Looked() as one:
                self.findings = replace(self.findings, looked=(*self.findings.looked, one))
            case LostTime() as some:
                self.lost = replace(self.lost, time=(*self.lost.time, some))
            case Progress() as progress:
                self._know(told.kind, progress=progress)
            case Extent() as extent:
                self._know(told.kind, extents=(*self._known(told.kind).extents, extent), progress=None)
            case Failed(error):
                self._know(told.kind, error=error)
            case Done() as done:
                self._end(told.kind, done.error)
        self.changed()

    def _take_comparison(self, value: object) -> None:
        old = self.comparison
        match value:
            case Failed(error):
                self.comparison = replace(old, known=replace(old.known, error=error))
            case Done(error=error):
                self.comparison = replace(old, known=replace(old.known, running=False, error=old.known.error or error))
            case MetSome(some):
                self.comparison = replace(old, requests=(*old.requests, *some))
            case Sides() as sides:
                self.comparison = replace(old, sides=sides)

    def _end(self, kind: str, error: str) -> None:
        self._know(kind, running=False, progress=None, error=self._known(kind).error or error)

    def _known(self, kind: str) -> Known:
        if kind == DERIVE:
            return self.derived
        return self.findings.known if kind == FINDINGS else self.lost.known

    def _know(self, kind: str, **changes: object) -> None:
        known = replace(self._known(kind), **changes)  # type: ignore[arg-type]
        if kind == DERIVE:
            self.derived = known
        elif kind == FINDINGS:
            self.findings = replace(self.findings, known=known)
        else:
            self.lost = replace(self.lost, known=known)

    def changed(self) -> None:
        """Tell whoever listens that something is new."""
        for listener in list(self._listeners):
            listener()
