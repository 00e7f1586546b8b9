"""Keys that the user chose: `keys.toml` in their configuration folder, checked before the toolkit sees it.

    [keys]
    "round.next" = "x,ctrl+n"

The toolkit ignores unknown ids and silently drops a binding whose key another one takes (library-notes.md): here both
are told, and a key that two actions of one screen would share stays with ours.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from textual.binding import Binding

from tsviz.tui import keep
from tsviz.tui.clean import clean

FILE = "keys.toml"
PROBLEM = "\0problem"
"""Stands in a keymap for a file that could not be read; no binding has such an id."""
_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Chosen:
    """Keys by binding id that can be used, and what was wrong with the others, in words."""

    keys: dict[str, str]
    problems: tuple[str, ...] = ()


def path() -> Path:
    """Return where the user's keys are read from."""
    return keep.config_directory() / FILE


def chosen_keys() -> dict[str, str]:
    """Return what the user's file says, unchecked; a file that is damaged is one entry that says so."""
    try:
        with path().open("rb") as file:
            data = file.read(_LIMIT_BYTES)
        found: Any = tomllib.loads(data.decode("utf-8")).get("keys", {})
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return {PROBLEM: f"{path()}: {clean(str(error))}"}
    if not isinstance(found, dict):
        return {PROBLEM: f"{path()}: expected a table [keys], found {type(found).__name__}"}
    return {str(name): keys if isinstance(keys, str) else "" for name, keys in found.items()}


def screens() -> dict[str, dict[str, str]]:
    """Return every binding with an id, by the name of its screen: id to keys."""
    from tsviz.tui.screens.ask_line import AskLine
    from tsviz.tui.screens.chart import ChartScreen
    from tsviz.tui.screens.compare import CompareScreen
    from tsviz.tui.screens.findings import FindingsScreen
    from tsviz.tui.screens.goto import GoTo
    from tsviz.tui.screens.lost import LostScreen
    from tsviz.tui.screens.main import MainScreen
    from tsviz.tui.screens.notes import NotesScreen
    from tsviz.tui.screens.pages import PagesScreen
    from tsviz.tui.screens.sheet import Sheet
    from tsviz.tui.screens.sql import SqlScreen
    from tsviz.tui.screens.watches import WatchesScreen

    every = (
        MainScreen, FindingsScreen, LostScreen, SqlScreen, ChartScreen, WatchesScreen, NotesScreen, PagesScreen,
        CompareScreen, Sheet, GoTo, AskLine,
    )  # fmt: skip
    return {
        screen.__name__: {b.id: b.key for b in screen.BINDINGS if isinstance(b, Binding) and b.id} for screen in every
    }


def keymap_of(wanted: Mapping[str, str]) -> Chosen:
    """Return what can be used of a keymap."""
    if not wanted:  # the screens need not be known
        return Chosen({}, ())
    problems = [wanted[PROBLEM]] if PROBLEM in wanted else []
    ours = screens()
    known = {name for bindings in ours.values() for name in bindings}
    keys: dict[str, str] = {}
    for name, chosen in wanted.items():
        if name == PROBLEM:
            continue
        if name not in known:
            near = get_close_matches(name, known, 1)
            problems.append(f"there is no {clean(name)[:60]!r}" + (f", did you mean {near[0]!r}?" if near else ""))
        elif not _names(chosen):
            problems.append(f"{name}: expected keys such as 'x' or 'ctrl+n,f7'")
        else:
            keys[name] = chosen
    for bindings in ours.values():
        for name, other, key in list(_clashes(bindings | {n: k for n, k in keys.items() if n in bindings})):
            loser = name if name in keys else other
            if loser in keys:
                kept = other if loser == name else name
                problems.append(
                    f"{loser} = {keys[loser]!r}: {key} is {kept} already; {loser} keeps {bindings[loser]!r}"
                )
                del keys[loser]
    return Chosen(keys, tuple(problems))


def _clashes(bindings: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    """Yield pairs of ids that share a key, with the key."""
    taken: dict[str, str] = {}
    for name, keys in bindings.items():
        for key in _names(keys):
            if taken.setdefault(key, name) != name:
                yield name, taken[key], key


def _names(keys: str) -> list[str]:
    """Return the toolkit's names of keys as people write them; none where the text is none."""
    if not all(part.strip() for part in keys.split(",")):
        return []
    return [binding.key for binding in Binding.make_bindings([Binding(keys, "x", "x")])]
