"""Which bundles an argument means: a bundle, a folder of bundles, or a pattern; or one part of each (`@NODE/RANK`)."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tsviz.trace.layout import BUNDLE_FILE

_PART = re.compile(r"(?P<path>.+)@(?P<node>[A-Za-z0-9_-]+)/(?P<rank>\d+):?", re.DOTALL)


def split_part(path: str) -> tuple[str, tuple[str, int] | None]:
    """Return a path without the part that stands behind it as `@NODE/RANK`, and the part; None without one.

    A path that exists as it stands has none.
    """
    match = _PART.fullmatch(path)
    if match is None or os.path.exists(path):  # noqa: PTH110 (Path.exists raises for a loop of links)
        return path, None
    return match["path"], (match["node"], int(match["rank"]))


def bundles_of(paths: Sequence[str]) -> list[str]:
    """Return the paths of all bundles, in the order of the arguments and by name within one.

    A folder that is no bundle stands for the bundles right in it; `*`, `?`, `[...]` and `**` are a pattern unless a
    file of that very name exists, and `**` alone looks deeper. What holds no bundle is returned as it is: opening it
    says what is wrong. A part behind an argument stands behind each of its bundles.
    """
    found = []
    for path in paths:
        whole, part = split_part(path)
        behind = "" if part is None else f"@{part[0]}/{part[1]}"
        found += [bundle + behind for bundle in _one(whole) or [whole]]
    return found


def unnamed(bundles: Sequence[str], paths: Sequence[str]) -> frozenset[str]:
    """Return those of `bundles_of(paths)` that no argument names: one of them that is damaged can be left out."""
    return frozenset(bundles) - frozenset(paths)


def _one(path: str) -> list[str]:
    if Path(path).exists() or not glob.has_magic(path):
        return list(_in(path))
    matches = glob.glob(path, recursive=True)  # noqa: PTH207 (pathlib takes no pattern that starts at the root)
    found: dict[str, None] = {}
    for match in sorted(matches):
        inside = any(str(above) in found for above in Path(match).parents)
        found |= {} if inside else dict.fromkeys(str(Path(bundle)) for bundle in _in(match))
    return list(found)


def _in(path: str) -> Iterator[str]:
    """Yield the path if it is a bundle, else the bundles right in it by name."""
    if _is_bundle(Path(path)):
        yield path
        return
    with suppress(OSError):
        yield from (str(Path(path) / name) for name in sorted(os.listdir(path)) if _is_bundle(Path(path) / name))  # noqa: PTH208 (names only)


def _is_bundle(path: Path) -> bool:
    try:
        return (path / BUNDLE_FILE).is_file()
    except OSError:  # a folder that may not be looked into
        return False
