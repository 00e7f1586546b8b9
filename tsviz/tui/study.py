"""What is known of the trace as a whole, kept while one looks: findings and lost time, as they arrive.

The other screens are pure views of these frozen values. `Study` lives on the screen's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tsviz.replay.survey import Extent, Failed, Looked, LostTime, Plan, Progress
from tsviz.tui.desk import Desk, Stream
from tsviz.tui.jobs import Done, Jobs, Told
from tsviz.tui.language import Language
from tsviz.tui.sql_state import SqlState

FINDINGS, LOST, SQL, SAVE, LANGUAGE = "findings", "lost time", "sql", "save", "language"
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


@dataclass(frozen=True, slots=True)
class Lost:
    """The sums that have arrived."""

    known: Known = Known()
    time: tuple[LostTime, ...] = ()


class Study:
    """Asks the desk, keeps what it answers, and tells whoever listens that something is new."""

    def __init__(self, desk: Desk, deliver: Callable[[Told], object]) -> None:
        self.desk = desk
        self.jobs = Jobs(deliver)
        self.findings = Findings()
        self.lost = Lost()
        self.sql = SqlState()
        self.language: Language | None = None
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
        self._tell()
        return any(stopped)

    def load_language(self) -> None:
        """Load what the editor knows, unless it is loaded or loading."""
        if self.language is None and not self.jobs.running(LANGUAGE):
            self._start(LANGUAGE, self.desk.language())

    def cancel(self, kind: str) -> bool:
        """Stop asking; what has come stays. Return whether something was stopped."""
        if not self.jobs.cancel(kind):
            return False
        self._end(kind, "stopped")
        self._tell()
        return True

    def close(self) -> None:
        """End everything that runs."""
        self._listeners.clear()
        self.jobs.close()

    def _start(self, kind: str, stream: Stream) -> None:
        self.jobs.start(kind, stream)
        self._tell()

    def take(self, told: Told) -> None:
        """Keep an answer of one of the jobs."""
        if not self.jobs.wanted(told):
            return
        match told.value:
            case Language() as language:
                self.language = language
            case value if told.kind in (SQL, SAVE):
                self.sql.take(value)
            case Done() if told.kind == LANGUAGE:
                pass
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
        self._tell()

    def _end(self, kind: str, error: str) -> None:
        self._know(kind, running=False, progress=None, error=self._known(kind).error or error)

    def _known(self, kind: str) -> Known:
        return self.findings.known if kind == FINDINGS else self.lost.known

    def _know(self, kind: str, **changes: object) -> None:
        known = replace(self._known(kind), **changes)  # type: ignore[arg-type]
        if kind == FINDINGS:
            self.findings = replace(self.findings, known=known)
        else:
            self.lost = replace(self.lost, known=known)

    def _tell(self) -> None:
        for listener in list(self._listeners):
            listener()
