"""A copy of a trace whose tables lie in many small row groups, none of which is kept whole: a large trace in small."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tsviz.trace import compact, layout, reader
from tsviz.trace.columns import Table
from tsviz.trace.reader import Part, open_bundle

GROUP_ROWS = 97


class _Tables:
    def __init__(self, part: Part) -> None:
        self._part = part
        self.last_round, self.last_seq = part.last_round, part.rows("calls") - 1

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        return iter(self._part.table(table.name).to_batches())


def cut_into_groups(source: Path, out: Path, patch: pytest.MonkeyPatch) -> Part:
    """Copy a bundle of one part into small row groups, and have all of them read as those of a large trace are."""
    part = open_bundle(source).parts[0]
    shutil.copytree(source, out)
    cold = layout.part_directory(out, part.node, part.rank) / layout.COLD
    shutil.rmtree(cold)
    cold.mkdir()
    patch.setattr(compact, "group_rows", lambda _table: GROUP_ROWS)
    compact.write_cold(_Tables(part), cold)
    patch.setattr(reader, "KEPT_ROWS", 0)
    return open_bundle(out).parts[0]
