"""Which bundles an argument means: a bundle, a folder of bundles, or a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tsviz.trace.layout import BUNDLE_FILE


def bundles_of(paths: Sequence[str]) -> list[str]:
    """Return the paths of all bundles, in the order of the arguments and by name within one.

    A folder that is no bundle stands for all bundles in it, however deep; `*`, `?`, `[...]` and `**` are a pattern
    unless a file of that very name exists. What holds no bundle is returned as it is: opening it says what is wrong.
    """
    return [bundle for path in paths for bundle in _one(path) or [path]]


def _one(path: str) -> list[str]:
    if Path(path).exists() or not glob.has_magic(path):
        return list(_below(path))
    matches = glob.glob(path, recursive=True)  # noqa: PTH207 (pathlib takes no pattern that starts at the root)
    return [bundle for match in sorted(matches) for bundle in _below(match)]


def _below(path: str) -> Iterator[str]:
    if (Path(path) / BUNDLE_FILE).is_file():
        yield path
        return
    for folder, names, files in os.walk(path):
        names.sort()
        if BUNDLE_FILE in files:
            names.clear()
            yield folder
