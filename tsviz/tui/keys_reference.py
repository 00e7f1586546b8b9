"""`docs/keys.md` from the keys in code: `python -m tsviz.tui.keys_reference > docs/keys.md`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from tsviz.tui.screens.chart import ChartScreen
from tsviz.tui.screens.compare import CompareScreen
from tsviz.tui.screens.findings import FindingsScreen
from tsviz.tui.screens.lost import LostScreen
from tsviz.tui.screens.notes import NotesScreen
from tsviz.tui.screens.over import Over
from tsviz.tui.screens.sql import SqlScreen
from tsviz.tui.screens.watches import WatchesScreen

from .key import Key
from .keys import KEYS, display
from .pages_keys import PAGES_KEYS

_HEAD = """# Keys

Generated from the keys in code by `python -m tsviz.tui.keys_reference`; do not edit. `?` shows those of the screen one
is on. The ids are for `keys.toml`: [guide.md](guide.md#open).
"""
_OVER: tuple[type[Over], ...] = (
    FindingsScreen, LostScreen, SqlScreen, ChartScreen, WatchesScreen, NotesScreen, CompareScreen,
)  # fmt: skip


def reference() -> str:
    """Return the document."""
    screens = (("Main screen", KEYS), ("Pages", PAGES_KEYS), *((screen.NAME, screen.KEYS) for screen in _OVER))
    return _HEAD + "".join(f"\n## {name}\n{_tables(keys)}" for name, keys in screens)


def _tables(keys: Iterable[Key]) -> str:
    out = []
    for section, members in groupby(keys, key=lambda key: key.section):
        out.append(f"\n| {section} | | id |\n|---|---|---|\n")
        for key in members:
            shown = " ".join(f"`{word}`" for word in display(key.keys).split())
            out.append(f"| {shown} | {key.help} | `{key.id}` |\n".replace("`|`", "`\\|`"))
    return "".join(out)


if __name__ == "__main__":
    print(reference(), end="")
