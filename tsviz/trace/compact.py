"""Closing a part: its hot streams become sorted Parquet row groups near a million rows.

Rows are appended in order of rounds, so row groups are sorted as they come. The manifest, written last, makes the cold
files count and lets the hot ones go. It holds a CRC of every file, since the checksums of Parquet pages leave out their
headers, and one of its footer for a reader that does not want the whole file.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from . import hot, layout
from .catalogue import TABLES
from .columns import INTS, TEXT, Column, Table
from .decided import DECIDED

ROW_GROUP_ROWS = 1 << 20
_LIST_GROUP_ROWS = 1 << 18
_STEP_GROUP_ROWS = 1 << 14
_STEPPED = frozenset(("rounds", "zeroed", "transfers"))
"""Tables of which a step through a trace reads the rows of one round: in small groups that is a look-up, not a scan."""
_TOLD_GROUP_ROWS = 1 << 16
"""Of decided tables: the story of a round reads twenty of them (a quarter more bytes than in groups of a million)."""
_ENCODED = (pa.int32(), pa.int64(), INTS)
_RISING = frozenset(("round", "seq", "call_seq", "time_ns", "start_ns", "end_ns", "op_id", "cause_round"))


def _encoding(column: Column) -> tuple[str, str]:
    """Return the Parquet path of a column and its encoding.

    Numbers that rise from row to row are stored as differences. Others repeat the pattern of earlier rows or are drawn
    from a range; split into their bytes they compress two to three times better than as differences (measured).
    """
    if column.type == INTS:
        return f"{column.name}.list.element", "BYTE_STREAM_SPLIT"
    return column.name, "DELTA_BINARY_PACKED" if column.name in _RISING else "BYTE_STREAM_SPLIT"


class Source(Protocol):
    """What is compacted: the rows of every table in order, and where they end."""

    @property
    def last_round(self) -> int:
        """The last round that was committed."""
        ...

    @property
    def last_seq(self) -> int:
        """The last call that was committed."""
        ...

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table."""
        ...


def group_rows(table: Table) -> int:
    """Return how many rows a row group of a cold table holds."""
    if table.name in _STEPPED:
        return _STEP_GROUP_ROWS
    if table.name in DECIDED:
        return _TOLD_GROUP_ROWS
    return _LIST_GROUP_ROWS if any(c.type == INTS for c in table.columns) else ROW_GROUP_ROWS


def compact_part(part: Path) -> None:
    """Compact the committed hot tables of a part directory and remove them. Raises `TraceError` or OSError.

    May be called again after it was interrupted at any point: until it is done the hot tables are what counts.
    """
    draft = part / (layout.COLD + ".draft")
    if draft.exists():
        shutil.rmtree(draft)
    if not (part / layout.COLD / layout.MANIFEST_FILE).exists():
        draft.mkdir()
        try:
            write_cold(hot.HotTables(part / layout.HOT), draft)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        draft.replace(part / layout.COLD)
    shutil.rmtree(part / layout.HOT, ignore_errors=True)


def write_cold(source: Source, draft: Path) -> None:
    """Write the cold tables of a part and their manifest into the directory `draft`."""
    write_tables(
        draft, ((table, source.batches(table), group_rows(table)) for table in TABLES.values()),
        source.last_round, source.last_seq,
    )  # fmt: skip


def write_tables(
    directory: Path, tables: Iterable[tuple[Table, Iterator[pa.RecordBatch], int]], last_round: int, last_seq: int
) -> None:
    """Write tables (definition, rows, rows of a row group) and the manifest that makes them count."""
    written: dict[str, Any] = {}
    for table, batches, limit in tables:
        path = directory / f"{table.name}.parquet"
        with _naming(path):
            rows = _write(path, table, batches, limit)
        if rows:
            written[table.name] = {
                "rows": rows, "bytes": path.stat().st_size, "crc": file_crc(path), "footer_crc": footer_crc(path),
            }  # fmt: skip
        else:
            path.unlink()
    manifest = {"tables": written, "last_round": last_round, "last_seq": last_seq}
    layout.write_json(directory / layout.MANIFEST_FILE, manifest)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in what the system says of it, which errors of Arrow leave out."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def file_crc(path: Path) -> int:
    """Return the CRC of a whole file."""
    crc = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc = zlib.crc32(block, crc)
    return crc


def footer_crc(path: Path) -> int:
    """Return the CRC of a Parquet file's footer. Raises ValueError where there is no room for the footer it claims."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        if length > file.tell() - 4:
            raise ValueError(f"a footer of {length} bytes")
        file.seek(-8 - length, 2)
        return zlib.crc32(file.read())


def _write(path: Path, table: Table, batches: Iterator[pa.RecordBatch], limit: int) -> int:
    words = [c.name for c in table.columns if c.type == TEXT]
    rows = 0
    writer = pq.ParquetWriter(
        path,
        table.schema,
        compression="zstd",
        compression_level=6,
        use_dictionary=words,
        dictionary_pagesize_limit=8 << 20,
        column_encoding=dict(_encoding(column) for column in table.columns if column.type in _ENCODED),
        write_page_checksum=True,
        write_statistics=True,
    )
    with writer:
        pending: list[pa.RecordBatch] = []
        waiting = 0
        for batch in batches:
            pending.append(batch)
            waiting += batch.num_rows
            if waiting >= limit:
                joined = pa.Table.from_batches(pending, table.schema).unify_dictionaries()
                whole = waiting - waiting % limit
                writer.write_table(joined.slice(0, whole), row_group_size=limit)
                rest = joined.slice(whole)
                pending, waiting = rest.to_batches(), rest.num_rows
                rows += whole
        if waiting:
            joined = pa.Table.from_batches(pending, table.schema).unify_dictionaries()
            writer.write_table(joined, row_group_size=limit)
            rows += waiting
    return rows
