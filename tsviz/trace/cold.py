"""Reading cold tables: Parquet files behind a manifest.

A table that is read whole is checked whole against the CRC of its file. A large one is handed out as a dataset: of it
the footer is checked when it is opened and the pages, by their checksums, as they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from . import layout
from .catalogue import TABLES
from .columns import TEXT, Table
from .compact import file_crc, footer_crc
from .errors import Damaged, first_line
from .validate import ARROW_FAULTS, checked_batch, checked_schema, wanted

_GROUP_ROWS_LIMIT = 1 << 21
_COLUMN_LIMIT = 1 << 31
_SMALLEST_FILE_BYTES = 12


class ColdTables:
    """The cold tables of one part directory's `cold`."""

    torn = None

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        path = layout.directory(directory) / layout.MANIFEST_FILE
        manifest = layout.read_json(path)
        self.last_round: int = layout.field(path, manifest, "last_round", int)
        self.last_seq: int = layout.field(path, manifest, "last_seq", int)
        self._tables: dict[str, Any] = layout.field(path, manifest, "tables", dict)
        for name, entry in self._tables.items():
            if not isinstance(entry, dict):
                raise Damaged(path, repr(name)[:80], "an object", type(entry).__name__)
            for key in ("rows", "bytes", "crc", "footer_crc"):
                layout.field(path, entry, key, int)
            if name in TABLES:
                self._check_size(directory / f"{name}.parquet", entry["bytes"])

    @staticmethod
    def _check_size(path: Path, expected: int) -> int:
        size = layout.regular_file(path).stat().st_size
        if size != expected or size < _SMALLEST_FILE_BYTES:
            raise Damaged(path, "size", f"{expected} bytes", f"{size} bytes")
        return size

    def rows(self, table: Table) -> int:
        """Rows of a table."""
        entry = self._tables.get(table.name)
        return int(entry["rows"]) if entry else 0

    def bytes(self, table: Table) -> int:
        """Size of the file of a table."""
        entry = self._tables.get(table.name)
        return int(entry["bytes"]) if entry else 0

    def file(self, table: Table, *, whole: bool) -> Path:
        """Return the file of a table, checked whole or by its footer. Raises `Damaged`."""
        entry = self._tables[table.name]
        path = self._directory / f"{table.name}.parquet"
        size = self._check_size(path, entry["bytes"])
        place, key = (f"bytes 0 to {size}", "crc") if whole else ("footer", "footer_crc")
        try:
            found = file_crc(path) if whole else footer_crc(path)
        except ValueError as error:
            raise Damaged(path, place, "a Parquet footer", str(error)) from None
        if found != entry[key]:
            raise Damaged(path, place, f"CRC {entry[key]:08x}", f"{found:08x}")
        return path

    def check_bytes(self, whole_bytes: int) -> None:
        """Compare every file with its CRC; of more than `whole_bytes` in all only the footers. Raises `Damaged`."""
        known = [table for table in TABLES.values() if table.name in self._tables]
        whole = sum(map(self.bytes, known)) <= whole_bytes
        for table in known:
            self.file(table, whole=whole)

    def batches(self, table: Table, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a table, validated in full; of `columns` only, if given. Raises `Damaged`."""
        if table.name not in self._tables:
            return
        if columns is not None:
            table = Table(table.name, table.doc, tuple(c for c in table.columns if c.name in columns))
        path = self.file(table, whole=True)
        rows = 0
        try:
            words = [c.name for c in table.columns if c.type == TEXT]
            with pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=words) as file:
                _, mapping = wanted(checked_schema(path, table, file.schema_arrow))
                known = [name for name, at in zip(table.names, mapping, strict=True) if at is not None]
                for group in range(file.num_row_groups):
                    check_group(path, group, file.metadata.row_group(group))
                    for batch in file.read_row_group(group, columns=known).unify_dictionaries().to_batches():
                        rows += batch.num_rows
                        yield checked_batch(path, f"row group {group}", table, mapping, batch)
        except ARROW_FAULTS as error:
            raise Damaged(path, "content", "Parquet pages with their checksums", first_line(error)) from None
        if rows != self.rows(table):
            raise Damaged(path, "rows", f"{self.rows(table)} rows", f"{rows} rows")

    def dataset(self, table: Table) -> ds.Dataset:
        """Return a table as a dataset that is read by column and row group. Raises `Damaged` for a wrong schema."""
        path = self.file(table, whole=False)
        words = [c.name for c in table.columns if c.type == TEXT]
        scan = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        format_ = ds.ParquetFileFormat(
            read_options=ds.ParquetReadOptions(dictionary_columns=words), default_fragment_scan_options=scan
        )
        found = ds.dataset([str(path)], format=format_)
        checked_schema(path, table, found.schema)
        return found


def check_group(path: Path, group: int, metadata: pq.RowGroupMetaData) -> None:
    """Refuse a row group that says it is larger than any that is written, before anything is allocated for it."""
    place = f"row group {group}"
    if metadata.num_rows > _GROUP_ROWS_LIMIT:
        raise Damaged(path, place, f"at most {_GROUP_ROWS_LIMIT} rows", str(metadata.num_rows))
    for index in range(metadata.num_columns):
        column = metadata.column(index)
        if max(column.num_values, column.total_uncompressed_size) > _COLUMN_LIMIT:
            place = f"{place} {column.path_in_schema}"
            found = f"{column.num_values} values in {column.total_uncompressed_size} bytes"
            raise Damaged(path, place, f"at most {_COLUMN_LIMIT} of either", found)
