"""In which rounds of a run of verdicts a predicate can begin to hold.

A run may be thousands of rounds long, and a trace has many. Within a run only `waited_rounds` and `round` change: a
predicate that does nothing with them but compare them with numbers can change its mind at few of the run's rounds, and
only these have to be looked at to find the first in which it holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from .words import Word

WAITED, ROUND = "waited_rounds", "round"
_COMPARES = frozenset("<>=!")
_BEHIND = frozenset("),")


def turning_points(found: Sequence[Word]) -> list[str] | None:
    """Return, as SQL over a run, the waits at which the predicate can change; None where every round may matter.

    A wait is the number of the round in its run, from 1, as `waited_rounds` counts.
    """
    points = {"1": None}
    for index, word in enumerate(found):
        if word.name not in (WAITED, ROUND) or not word.names:
            continue
        first = index - 2 if index > 1 and found[index - 1].text == "." else index
        numbers = _compared(found, first, index)
        if numbers is None:
            return None
        shift = "" if word.name == WAITED else " - since_round + 1"
        for number in numbers:
            points |= {f"{number}{shift}": None, f"{number + 1}{shift}": None}
    return list(points)


def _compared(found: Sequence[Word], first: int, last: int) -> list[int] | None:
    """Return the numbers with which the column at these words is compared; None if something else is done to it."""
    before = found[first - 1] if first else None
    if before is not None and not (before.kind == "keyword" or before.text in "(,"):
        return None
    rest = found[last + 1 :]
    if rest and rest[0].name == "between":
        low, joined, high = (*rest[1:4], *[None] * 3)[:3]
        if joined is None or joined.name != "and" or not _ends(rest, 4):
            return None
        numbers = [_number(low), _number(high)]
    else:
        signs = 0
        while signs < len(rest) and rest[signs].kind == "operator" and rest[signs].text in _COMPARES:
            signs += 1
        if not 1 <= signs <= 2 or not _ends(rest, signs + 1):
            return None
        numbers = [_number(rest[signs])]
    return [number for number in numbers if number is not None] if None not in numbers else None


def _number(word: Word | None) -> int | None:
    if word is None or word.kind != "numeric_const" or not word.text.isdecimal() or len(word.text) > 9:
        return None
    return int(word.text)


def _ends(rest: Sequence[Word], count: int) -> bool:
    """Whether the comparison of `count` words ends there: behind it comes a word of SQL, a bracket or nothing."""
    if len(rest) < count:
        return False
    return len(rest) == count or rest[count].kind == "keyword" or rest[count].text in _BEHIND
