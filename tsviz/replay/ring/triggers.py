"""What makes a ring be written out: a condition in SQL, a finding, or a word from outside.

sql:PREDICATE           a new position at which the predicate holds (docs/sql.md; `tsviz hits`)
finding:NAME[>N]        a finding that is known of what is recorded (docs/findings.md), with another threshold if given
signal:NAME             a signal to the process of `tsviz run` or `tsviz record`, which makes the file `trigger`
http:PORT               POST /trigger on 127.0.0.1 with the token in OUT.ring/http.json
end, crash              the recording closed, or its process ended without closing it (that always counts)
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field
from typing import Protocol

from tsviz.query.predicate import positions
from tsviz.query.problem import QueryError
from tsviz.replay.findings.model import BUNDLE, DECIDED, RECORDED, Subject
from tsviz.replay.findings.scan import BY_NAME
from tsviz.replay.hits import Near, Wanted, hits_apart
from tsviz.replay.scenario.predicates import Finding
from tsviz.replay.why.answer import facts_of
from tsviz.trace.catalogue import DECISIONS, PLANS
from tsviz.trace.reader import Bundle

END, CRASH = "end", "crash"
SIGNALS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGWINCH)
"""Signals that can be a trigger."""
_UNSEEN = (signal.SIGKILL, signal.SIGSTOP)
_FINDING = re.compile(r"([a-z_]+)(?:>(\d{1,9}))?")


class BadTrigger(ValueError):
    """What was asked for is no trigger; the message says what there is."""


class Watching(Protocol):
    """A trigger that looks at the kept part whenever something was committed."""

    def fired(self, bundle: Bundle) -> str:
        """Return why the kept part is to be written out now, once for each thing that happens; empty for not now."""
        ...


@dataclass
class SqlTrigger:
    """Fires at positions that were not there at the last look."""

    predicate: str
    _seen: dict[str, int] = field(default_factory=dict)

    def fired(self, bundle: Bundle) -> str:
        """Look for the next position behind the rounds that were looked at. Raises `QueryError`."""
        found = ""
        for part in bundle.parts:
            name = f"{part.node}/{part.rank}"
            near = Near(part.node, part.rank, self._seen.get(name, 0))
            rows = hits_apart([str(bundle.path)], self.predicate, Wanted.NEXT, near).positions.to_pylist()
            self._seen[name] = part.last_round
            if rows and not found:
                found = f"sql at {name}:{rows[0]['round']}: {self.predicate}"
        return found


@dataclass
class FindingTrigger:
    """Fires when a finding is there that begins behind the one that it fired at."""

    name: str
    threshold: int
    _until: dict[str, int] = field(default_factory=dict)

    @property
    def decided(self) -> bool:
        """Whether decisions have to be recorded for it."""
        return BY_NAME[self.name].needs == DECIDED

    def fired(self, bundle: Bundle) -> str:
        """Make the check on every part. Raises `TraceError`, `QueryError`."""
        for part in bundle.parts:
            name = f"{part.node}/{part.rank}"
            facts = facts_of(part, None) if self.decided else None
            ended = BY_NAME[self.name].scan(Subject(bundle, part, facts), self.threshold)
            if isinstance(ended, Finding):
                new = ended.first_round > self._until.get(name, 0)
                self._until[name] = max(ended.last_round, self._until.get(name, 0))
                if new:
                    return f"finding {self.name} at {name}:{ended.first_round}"
        return ""


@dataclass
class Rested:
    """A trigger that, once it fired, says nothing before the ring holds only newer rounds: no two traces overlap.

    What happens meanwhile is written out then. A part that stands still does not hold the others up.
    """

    trigger: Watching
    _until: dict[str, int] = field(default_factory=dict)
    _owed: str = ""

    def fired(self, bundle: Bundle) -> str:
        """Look, and say the first of what happened since it fired, once it may. Raises `TraceError`, `QueryError`."""
        now = self.trigger.fired(bundle)
        self._owed = self._owed or now
        parts = {f"{part.node}/{part.rank}": part for part in bundle.parts}
        held = [parts[name].meta.get("starts_at", 1) <= last for name, last in self._until.items() if name in parts]
        if not self._owed or (held and all(held)):
            return ""
        said, self._owed = self._owed, ""
        self._until = {name: part.last_round for name, part in parts.items()}
        return said


def watching(texts: list[str]) -> list[Watching]:
    """Return those triggers of a list that look at the kept part. Raises BadTrigger for one that is none at all."""
    found: list[Watching] = []
    for text in texts:
        kind, _, rest = text.partition(":")
        if kind == "sql" and rest.strip():
            found.append(SqlTrigger(rest.strip()))
        elif kind == "finding":
            found.append(_finding(text, rest))
        elif not _from_outside(kind, rest):
            wanted = "sql:PREDICATE, finding:NAME, signal:NAME, http:PORT, end or crash"
            raise BadTrigger(f"expected a trigger {wanted}, found {text!r}")
    return [Rested(trigger) for trigger in found]


def check(texts: list[str], level: str = PLANS) -> None:
    """Raise BadTrigger for a trigger that is none, or that could never fire in a ring of this level."""
    watching(texts)
    for text in texts:
        kind, _, rest = text.partition(":")
        if kind == "sql":
            try:
                asked = positions(rest.strip())
            except QueryError as error:
                raise BadTrigger(f"{text!r} can never fire: {error}") from error
            if asked.needs_decisions and level != DECISIONS:
                raise BadTrigger(
                    f"{text!r} can never fire: it reads decisions, which a ring of {level} does not hold;"
                    " expected recorded tables, such as rounds, operations or events"
                )
        elif kind == "finding" and _finding(text, rest).decided and level != DECISIONS:
            names = ", ".join(name for name, each in BY_NAME.items() if each.needs == RECORDED)
            raise BadTrigger(
                f"{text!r} can never fire: it needs decisions, which a ring of {level} does not hold;"
                f" expected finding:NAME with one of {names}"
            )
        elif kind == "signal" and (number := number_of(rest)) not in SIGNALS:
            names = ", ".join(each.name.removeprefix("SIG") for each in SIGNALS)
            why = "no process gets to see it" if number in _UNSEEN else "it is the program's, or its end"
            raise BadTrigger(f"{text!r} can never fire: {why}; expected one of {names}")


def _finding(text: str, rest: str) -> FindingTrigger:
    names = [name for name, check in BY_NAME.items() if check.needs != BUNDLE]
    match = _FINDING.fullmatch(rest.strip())
    if match is None or match[1] not in names:
        raise BadTrigger(f"expected finding:NAME with one of {', '.join(names)}, found {text!r}")
    threshold = BY_NAME[match[1]].threshold if match[2] is None else int(match[2])
    return FindingTrigger(match[1], threshold)


def _from_outside(kind: str, rest: str) -> bool:
    if kind == "signal":
        return number_of(rest) is not None
    if kind == "http":
        return rest.isdigit() and int(rest) < 1 << 16
    return kind in (END, CRASH) and not rest


def number_of(name: str) -> signal.Signals | None:
    """Return the signal that `USR2` or `SIGUSR2` names."""
    return getattr(signal.Signals, name if name.startswith("SIG") else f"SIG{name}", None)


__all__ = ["CRASH", "END", "BadTrigger", "QueryError", "Watching", "check", "number_of", "watching"]
