"""Which bundles an argument means: a bundle, a folder of bundles, or a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tsviz.trace.layout import BUNDLE_FILE


def bundles_of(paths: Sequence[str]) -> list[str]:
    """Return the paths of all bundles, in the order of the arguments and by name within one.

    A folder that is no bundle stands for the bundles right in it; `*`, `?`, `[...]` and `**` are a pattern unless a
    file of that very name exists, and `**` alone looks deeper. What holds no bundle is returned as it is: opening it
    says what is wrong.
    """
    return [bundle for path in paths for bundle in _one(path) or [path]]


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
