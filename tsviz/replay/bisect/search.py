"""Which version of the real package changed a plan, or made a finding go away (debugger.md, section 5).

Every version makes the same run in a process of its own. A version that cannot make it (an API that it lacks, a crash,
a wheel that is not there) is said to, with the reason, and never counts as a different plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,3}")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a version made of the run: a digest and a line a round, the findings it shows, the sentence of the one."""

    version: str
    digests: tuple[str, ...]
    lines: tuple[str, ...]
    shows: tuple[str, ...]
    problem: str
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CannotRun:
    """A version that could not make the run, and why."""

    version: str
    reason: str


Outcome = Ran | CannotRun


@dataclass(frozen=True, slots=True)
class Compared:
    """One version against the base: `equal`, `changed` (with the first different round) or `cannot run`."""

    version: str
    outcome: str
    round: int | None = None
    expected: str = ""
    got: str = ""
    finding: bool | None = None
    shows: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bisected:
    """All versions, oldest first, and the first one that plans otherwise and that lacks the finding; None if none."""

    versions: tuple[Compared, ...]
    first_changed: str | None
    first_without: str | None
    tried: tuple[str, ...] = field(default=())


class BadVersions(Exception):
    """The range names no version there is; the message says which there are."""


def version_key(version: str) -> tuple[int, ...]:
    """Return a version as numbers, for sorting. Raises BadVersions."""
    if not _VERSION.fullmatch(version):
        raise BadVersions(f"expected a version such as 0.1.24, found {version[:40]!r}")
    return tuple(int(number) for number in version.split("."))


def chosen(available: Sequence[str], text: str | None, base: str) -> list[str]:
    """Return the versions of `A..B` (either end may be missing), oldest first; from `base` on without a text.

    The base is always among them. Raises BadVersions.
    """
    first, dots, last = (f"{base}.." if text is None else text).partition("..")
    low = version_key(first) if first else ()
    high = version_key(last) if last else version_key(first) if not dots else (1 << 30,)
    known = sorted({v for v in available if _VERSION.fullmatch(v)}, key=version_key)
    if base not in known:
        raise BadVersions(f"the trace was recorded with {base}, which is not among {known[0]} to {known[-1]}")
    found = [v for v in known if low <= version_key(v) <= high or v == base]
    if found == [base] and text is not None:
        raise BadVersions(f"{text}: no version of the index is in it; there are {known[0]} to {known[-1]}")
    return found


def bisect(
    versions: Sequence[str], base: str, run: Callable[[str], Outcome], tell: Callable[[Compared], None]
) -> Bisected:
    """Compare versions with `base`: halve first to name a change quickly, then run the rest to confirm it.

    `tell` hears every version when it was run. Raises CannotBegin when the base itself cannot make the run.
    """
    reference = run(base)
    if isinstance(reference, CannotRun):
        raise CannotBegin(reference)
    done: dict[str, Compared] = {base: compare(reference, reference)}
    tell(done[base])

    def try_one(version: str) -> Compared:
        if version not in done:
            done[version] = compare(reference, run(version))
            tell(done[version])
        return done[version]

    _halve([v for v in versions if version_key(v) >= version_key(base)], try_one)
    _halve([v for v in reversed(versions) if version_key(v) <= version_key(base)], try_one)
    tried = tuple(done)
    ordered = tuple(try_one(version) for version in versions)
    later = [c for c in ordered if version_key(c.version) > version_key(base)]
    changed = next((c.version for c in later if c.outcome == "changed"), None)
    without = next((c.version for c in later if c.finding is False), None) if reference.problem else None
    return Bisected(ordered, changed, without, tried)


class CannotBegin(Exception):
    """The base version cannot make the run; `outcome` says why."""

    def __init__(self, outcome: CannotRun) -> None:
        super().__init__(f"{outcome.version}, with which the trace was recorded, cannot make the run: {outcome.reason}")
        self.outcome = outcome


def _halve(versions: Sequence[str], try_one: Callable[[str], Compared]) -> None:
    """Look for the nearest change from the first version on, assuming that a change stays."""
    low, high = 0, len(versions)
    while high - low > 1:
        middle = (low + high) // 2
        if try_one(versions[middle]).outcome == "equal":
            low = middle
        else:
            high = middle


def compare(base: Ran, other: Outcome) -> Compared:
    """Compare a run with that of the base, round by round."""
    if isinstance(other, CannotRun):
        return Compared(other.version, "cannot run", note=other.reason)
    note = f"settings it does not know: {', '.join(other.unknown)}" if other.unknown else ""
    finding = bool(other.problem) if base.problem else None
    shows = ", ".join(other.shows)
    left, right = (*base.digests, f"{len(base.digests)} rounds"), (*other.digests, f"{len(other.digests)} rounds")
    lines = (*base.lines, left[-1]), (*other.lines, right[-1])
    for index, (one, two) in enumerate(zip(left, right, strict=False)):
        if one != two:
            expected, got = lines[0][index], lines[1][index]
            return Compared(other.version, "changed", index + 1, expected, got, finding, shows, note)
    return Compared(other.version, "equal", finding=finding, shows=shows, note=note)
