"""Rows of a CSV file by column name, with the line each came from."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice

from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.files import TextFile


def rows_by_column(
    file: TextFile, columns: Sequence[str], rows: int | None, optional: Sequence[str] = ()
) -> Iterator[tuple[Place, list[str]]]:
    """Yield place and values of the first `rows` rows, in the order of `columns`, then of `optional` ("" if absent).

    Raises `WorkloadError` for a column that is missing or there twice, and for a row of another width than the header.
    """
    lines = file.lines()
    heading = Place(str(file.path), "line 1")
    header = [name.strip() for name in _split(lines[0], heading)]
    for name in columns:
        if header.count(name) != 1:
            raise heading.error(name, "one column of that name", f"{header.count(name)} in {', '.join(header)}")
    picked = [header.index(name) if name in header else None for name in (*columns, *optional)]
    if len(lines) < 2:
        raise Place(str(file.path), "line 2").error("content", "at least one row", "end of file")
    for number, line in enumerate(islice(lines, 1, None if rows is None else rows + 1), 2):
        place = Place(str(file.path), f"line {number}")
        values = _split(line, place)
        if len(values) != len(header):
            raise place.error("row", f"{len(header)} values as in the header", f"{len(values)}: {line}")
        yield place, ["" if column is None else values[column] for column in picked]


def _split(line: str, place: Place) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error as problem:
        raise place.error("row", "comma-separated values", str(problem)) from None
