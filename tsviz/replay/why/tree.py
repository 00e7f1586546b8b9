"""An answer to "why": a paragraph, and a tree whose branches carry a sentence, the numbers in it and a position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Branch:
    """One fact of an answer, and the facts behind it. `position` is `round.stop`, to jump to; empty where none is."""

    kind: str
    words: str
    request: str = ""
    position: str = ""
    numbers: dict[str, int] = field(default_factory=dict)
    children: tuple[Branch, ...] = ()

    def data(self) -> dict[str, Any]:
        """Return the branch as JSON values."""
        return {
            "kind": self.kind, "words": self.words, "request": self.request, "position": self.position,
            "numbers": dict(self.numbers), "children": [child.data() for child in self.children],
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """Yield the branch as lines of text, indented by depth."""
        at = f"  [@{self.position}]" if self.position else ""
        yield self.words + at
        for index, child in enumerate(self.children):
            last = index == len(self.children) - 1
            for number, line in enumerate(child.lines()):
                lead = ("└─ " if last else "├─ ") if number == 0 else ("   " if last else "│  ")
                yield lead + line

    def walk(self) -> Iterator[Branch]:
        """Yield the branch and everything behind it, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Answer:
    """Why a request has no row in a round (or that it has one)."""

    request: str
    submission: int
    round: int
    source: str
    """Where the decisions come from: recorded, or derived by re-execution and verified."""
    cause: str
    """One of `decisions.CAUSES`, or ended, not_submitted, rejected."""
    since_round: int
    """First round of this cause without a break."""
    paragraph: str
    tree: Branch
    root: str
    """The request at the end of the chain of holders; the request itself when nobody holds it."""
    cycle: tuple[str, ...] = ()
    """Requests that wait for one another, in order; empty when the chain ends."""

    def data(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return {
            "request": self.request, "submission": self.submission, "round": self.round, "source": self.source,
            "cause": self.cause, "since_round": self.since_round, "paragraph": self.paragraph, "root": self.root,
            "cycle": list(self.cycle), "tree": self.tree.data(),
        }  # fmt: skip


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 round`, `2,000 rounds`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
