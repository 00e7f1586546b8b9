"""Asks a trace whose bundle or index is damaged, one line of outcome each: `python -m tests.replay.damaged_reader`.

Arguments: the folder that holds `bundle` and `cache`, a folder to work in, and whether tables are datasets (1) or held
in memory (0). Standard input has a line a damage: relative path, tab, then `flip OFFSET MASK`, `cut LENGTH` or `gone`.
The outcome is `same`, `without` (all that can be said without the index), `error TEXT`, `different WHAT` or
`raised TYPE`. A process of its own, since a reader that dies must not take the tests with it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.trace.reading_process import damaged
from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked
from tsviz.query.problem import QueryError
from tsviz.replay.findings.scan import check_part
from tsviz.replay.hits import hits
from tsviz.replay.reexecution import index as indexes
from tsviz.replay.why.answer import facts_of
from tsviz.trace import reader
from tsviz.trace.catalogue import TABLES
from tsviz.trace.errors import TraceError

PREDICATES = (
    "verdicts.cause <> 'scheduled' AND waited_rounds > 2",
    "pool.available_blocks < 8",
    "operations.kind = 'prefill'",
)
ROUND = "SELECT request, kind, slot, input_tokens FROM operations WHERE round = 101"


def answers(folder: Path) -> dict[str, Any]:
    """Return what the tables, hit lists and findings of a trace say."""
    opened = indexes.open_indexed(folder / "bundle")
    locked = Locked(Catalog([opened]), Limits(rows=None, threads=1))
    try:
        found: dict[str, Any] = {
            name: locked.query(f'SELECT count(*), bit_xor(hash(t)) FROM "{name}" t')[0].to_pylist() for name in TABLES
        }
        found["parts"] = locked.query("FROM parts")[0].to_pylist()
        for _ in range(2):
            found["round"] = locked.query(ROUND)[0].to_pylist()
        for predicate in PREDICATES:
            found[predicate] = hits(locked, predicate).positions.to_pylist()
    finally:
        locked.close()
    bundle = reader.open_bundle(folder / "bundle")
    part = bundle.parts[0]
    index = indexes.open_index(part)
    facts = None if index is None else facts_of(part, index)
    found["findings"] = [one.sentence for one in check_part(bundle, part, facts)]
    return found


def outcome(folder: Path, sound: dict[str, Any], without: dict[str, Any]) -> str:
    """Ask a damaged trace and say what came of it."""
    try:
        found = answers(folder)
    except (TraceError, QueryError) as error:
        return f"error {error}"
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    for name, expected in (("same", sound), ("without", without)):
        if found == expected:
            return name
    return f"different {[name for name, value in found.items() if value not in (sound[name], without[name])]}"


def copied(folder: Path, work: Path) -> None:
    """Put a sound copy of the folder in the place of what is there."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder, work)


def main() -> None:
    """Answer every damage on standard input."""
    folder, work = Path(sys.argv[1]), Path(sys.argv[2])
    if sys.argv[3] == "1":
        reader.DATASET_ROWS = indexes.DATASET_ROWS = reader.KEPT_ROWS = indexes.KEPT_ROWS = 0  # type: ignore[misc]
    os.environ["TSVIZ_CACHE"] = str(work / "cache")
    copied(folder, work)
    sound = answers(work)
    shutil.rmtree(work / "cache")
    without = answers(work)
    for line in sys.stdin:
        name, how = line.rstrip("\n").split("\t")
        copied(folder, work)
        if how == "gone":
            (work / name).unlink()
        else:
            damaged(work / name, how.split())
        print(outcome(work, sound, without).replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
