"""Reads damaged copies of a bundle, one line of outcome each: `python -m tests.trace.reading_process BUNDLE WORK`.

Standard input has a line a damage: relative path, tab, then `flip OFFSET MASK` or `cut LENGTH`. The outcome is `same`,
`error TEXT`, `different TABLE` or `raised TYPE`. A process of its own, since a reader that dies must not take the tests
with it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from tsviz.trace.errors import TraceError
from tsviz.trace.reader import open_bundle
from tsviz.trace.tables import RECORDED


def everything(bundle: Path) -> dict[str, Any]:
    """Return all that can be read of a bundle."""
    opened = open_bundle(bundle)
    found: dict[str, Any] = {"meta": opened.meta, "end": opened.end, "description": opened.description}
    for part in opened.parts:
        found[f"{part.node}/{part.rank}"] = (part.meta, part.last_round, part.live, part.torn)
        for name in RECORDED:
            found[f"{part.node}/{part.rank} {name}"] = (part.rows(name), part.table(name).to_pylist())
    return found


def outcome(bundle: Path, expected: dict[str, Any]) -> str:
    """Read a damaged bundle and say what came of it."""
    try:
        found = everything(bundle)
    except TraceError as error:
        whole = all((error.path, error.place, error.expected, error.found)) and str(bundle) in error.path
        return f"error {error}" if whole else f"incomplete {error!r}"
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    different = [name for name, value in found.items() if value != expected.get(name)]
    return f"different {different}" if different or len(found) != len(expected) else "same"


def damaged(path: Path, how: list[str]) -> None:
    """Damage a file in place."""
    data = bytearray(path.read_bytes())
    if how[0] == "flip":
        data[int(how[1])] ^= int(how[2])
    else:
        del data[int(how[1]) :]
    path.write_bytes(data)


if __name__ == "__main__":
    bundle, work = Path(sys.argv[1]), Path(sys.argv[2])
    undamaged = everything(bundle)
    for line in sys.stdin:
        name, how = line.rstrip("\n").split("\t")
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(bundle, work)
        damaged(work / name, how.split())
        print(outcome(work, undamaged).replace("\n", " "), flush=True)
