"""One key of one screen."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """One action: its id for rebinding, its keys, what it does (a sentence), the help section, a word for the line."""

    id: str
    keys: str
    action: str
    help: str
    section: str
    word: str = ""
