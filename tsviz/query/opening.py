"""Opening several bundles of which some may be left out: those that a folder or a pattern stands for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .paths import split_part
from .source import Bundle, Opener, narrowed

_B = TypeVar("_B")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A bundle that could not be read and was left out: its path, and why in words."""

    path: str
    reason: str

    def __str__(self) -> str:
        return self.reason if self.path in self.reason else f"{self.path}: {self.reason}"


def open_with_tables(opener: Opener, path: str) -> Bundle:
    """Open a bundle, or the part of it that stands behind the path, and read its tables.

    Raises what the opener and the tables raise, LookupError for a part that is not there.
    """
    whole, chosen = split_part(path)
    bundle = opener(whole)
    bundle = bundle if chosen is None else narrowed(bundle, *chosen)
    for part in bundle.parts:
        part.tables()
    return bundle


def open_several(
    open_one: Callable[[str], _B], paths: Sequence[str], optional: Collection[str], faults: tuple[type[Exception], ...]
) -> tuple[list[_B], list[LeftOut]]:
    """Open bundles; return them, and which of the optional ones were left out.

    Left out is what ends in one of `faults`. Raises the first of them where nothing else is there, or where the bundle
    is none of the optional ones.
    """
    found: list[_B] = []
    left_out: list[LeftOut] = []
    first: Exception | None = None
    for path in paths:
        try:
            found.append(open_one(path))
        except faults as error:
            if path not in optional:
                raise
            first = first or error
            left_out.append(LeftOut(path, str(error) or type(error).__name__))
    if first is not None and not found:
        raise first
    return found, left_out
