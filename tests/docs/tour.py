"""`docs/tour.md` as data: the command, the keys, what must stand on the screen, and the picture of each section.

A section of the tour has three fenced blocks (`console`, `keys`, `screen`) and a picture. `tests/docs/test_tour.py`
presses the keys in the real application; `python -m tests.docs.pictures` draws the pictures from the same keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "tour.md"


@dataclass(frozen=True, slots=True)
class Walk:
    """One section: where it opens, what is pressed, what is then seen, and the picture's path from the document."""

    title: str
    command: str
    keys: tuple[str, ...]
    seen: tuple[str, ...]
    picture: str

    @property
    def trace(self) -> str:
        """Name of the shipped incident."""
        word = self.command.split()[2]
        return word.removeprefix("traces/").partition("@")[0]


def walks() -> tuple[Walk, ...]:
    """Return the sections of the tour in order. Raises ValueError for one that lacks a block or its picture."""
    return tuple(_walk(part) for part in DOCUMENT.read_text("utf-8").split("\n## ")[1:])


def _walk(part: str) -> Walk:
    title = part.partition("\n")[0]
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", part)
    if len(pictures) != 1:
        raise ValueError(f"{DOCUMENT.name}, {title!r}: expected one picture, found {len(pictures)}")
    (command,) = _block(part, title, "console")
    keys = tuple(key for line in _block(part, title, "keys") for key in line.split())
    return Walk(title, command.removeprefix("$ "), keys, _block(part, title, "screen"), pictures[0])


def _block(part: str, title: str, kind: str) -> tuple[str, ...]:
    found = re.findall(rf"^```{kind}\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise ValueError(f"{DOCUMENT.name}, {title!r}: expected one block {kind!r}, found {len(found)}")
    return tuple(line for line in found[0].splitlines() if line.strip())
