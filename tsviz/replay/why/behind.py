"""Who waits for a request in a round: what its row, its pages or its return keep others from."""

from __future__ import annotations

from collections.abc import Iterator

from tsviz.replay.decided.causes import REFUSED, held_words
from tsviz.scheduler import decisions as d

from .facts import Facts, Said
from .tree import Branch, counted

_NAMED, _SHOWN = 3, 8

_HOLDS = {
    d.HEAD_OF_LINE: ("holds the line", "behind it {is} not tried"),
    d.RESIDENT_BLOCKED: ("is blocked", "behind it {is} not tried"),
    d.SEALED: ("must come back first", "{is} sealed behind it"),
    d.RECOVERY_ALONE: ("recovers alone", "{has} no row beside it"),
    d.ONE_REMOTE: ("took the one remote admission of the round", "{wait} for the next"),
    d.PREFILL_ONLY: ("prefills in this round", "{wait} to decode"),
    d.NOT_QUIESCENT: ("would give way, but has a forward out", "{wait} for its pages"),
}
"""What the holder of a verdict does, and what becomes of those that wait for it."""


def waiters(facts: Facts, submission: int, round_: int) -> tuple[Branch, ...]:
    """Return what a request keeps others from in a round, one branch a way, each with those that wait for it."""
    verdicts = facts.verdicts_in(round_)
    name, own = facts.life.names[submission], verdicts.pop(submission, None)
    found = [
        _branch(facts, f"{does}: {{many}} {left}", waiting, round_)
        for cause, (does, left) in _HOLDS.items()
        if (waiting := {s: said for s, said in verdicts.items() if said.cause == cause and said.holder == name})
    ]
    refused = {s: said for s, said in verdicts.items() if said.cause in REFUSED}
    if refused and (own is None or own.cause not in REFUSED):
        found += _pages(facts, submission, refused, round_)
    return tuple(found)


def _pages(facts: Facts, submission: int, refused: dict[int, Said], round_: int) -> Iterator[Branch]:
    """Yield what the request holds while others are refused pages."""
    holdings = facts.holdings(round_, facts.behind_plan(round_))
    held = next((len(holding.blocks) for holding in holdings if holding.submission == submission), 0)
    if held:
        words = f"holds {held:,} of {counted(facts.parents, 'block')}: {{many}} {{is}} refused pages in this round"
        yield _branch(facts, words, refused, round_)


def _held(said: Said, round_: int) -> str:
    return held_words(round_ - said.since_round + 1, at_least=said.at_least)


def _branch(facts: Facts, words: str, waiting: dict[int, Said], round_: int) -> Branch:
    longest = sorted(waiting, key=lambda s: (waiting[s].since_round, s))
    names = [facts.life.names[s] for s in longest]
    one = len(names) == 1
    verbs = {"is": "is" if one else "are", "has": "has" if one else "have", "wait": "waits" if one else "wait"}
    told = words.format(many=counted(len(names), "request"), **verbs)
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    shown = [
        Branch("waiter", f"{facts.life.names[s]}: {_held(waiting[s], round_)}",
               request=facts.life.names[s], numbers={"rounds": round_ - waiting[s].since_round + 1})
        for s in longest[:_SHOWN]
    ]  # fmt: skip
    if len(longest) > _SHOWN:
        rest = len(longest) - _SHOWN
        shown.append(Branch("waiter", f"{counted(rest, 'request')} more", numbers={"requests": rest}))
    return Branch("waiters", f"{told} ({', '.join(names[:_NAMED])}{more})", numbers={"requests": len(names)},
                  children=tuple(shown))  # fmt: skip
