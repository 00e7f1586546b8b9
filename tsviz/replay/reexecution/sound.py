"""Whether a recording can be re-executed at all: by known rules and digest, with the rows that its calls speak of.

What a newer MINOR adds may be left unread (architecture.md, section 5), but plans cannot be compared by a digest, or
made by a version of the rules, that this version of tsviz does not have: that is said, not called equal. Nor are plans
equal whose rows are not there.
"""

from __future__ import annotations

from tsviz.scheduler.rules import RULES_0_1_24
from tsviz.trace import digest, layout
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import Part


class UnknownRules(TraceError):
    """The recording opens and can be looked at, but not re-executed."""


def require_sound(part: Part) -> None:
    """Raise `UnknownRules` unless the part's digest and rule set are those that re-execution makes.

    Raises `Damaged` when tables have not the rows that calls and plans speak of, `TraceError` when one cannot be read.
    """
    for place, expected, found in (
        ("digest", digest.NAME, part.digest),
        ("rule_set", RULES_0_1_24.name, part.rule_set),
    ):
        if found != expected:
            path = part.directory / layout.PART_FILE
            raise UnknownRules(path, place, f"{expected} (all that can be re-executed)", repr(found)[:80])
    part.check_counts()
