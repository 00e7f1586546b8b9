"""Reading cold tables: Parquet files behind a manifest, page checksums verified as pages are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from . import layout
from .catalogue import TABLES
from .columns import TEXT, Table
from .compact import footer_crc
from .errors import Damaged
from .validate import checked_batch, checked_schema

_GROUP_ROWS_LIMIT = 1 << 21
_SMALLEST_FILE_BYTES = 12


class ColdTables:
    """The cold tables of one part directory's `cold`."""

    torn = None

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        path = directory / layout.MANIFEST_FILE
        manifest = layout.read_json(path)
        self.last_round: int = layout.field(path, manifest, "last_round", int)
        self.last_seq: int = layout.field(path, manifest, "last_seq", int)
        self._tables: dict[str, Any] = layout.field(path, manifest, "tables", dict)
        self._checked: dict[str, Path] = {}
        for name, entry in self._tables.items():
            if not isinstance(entry, dict):
                raise Damaged(path, repr(name)[:80], "an object", type(entry).__name__)
            for key in ("rows", "bytes", "footer_crc"):
                layout.field(path, entry, key, int)
            if name in TABLES:
                self._check_size(directory / f"{name}.parquet", entry["bytes"])

    @staticmethod
    def _check_size(path: Path, expected: int) -> Path:
        size = layout.regular_file(path).stat().st_size
        if size != expected or size < _SMALLEST_FILE_BYTES:
            raise Damaged(path, "size", f"{expected} bytes", f"{size} bytes")
        return path

    def rows(self, table: Table) -> int:
        """Rows of a table."""
        entry = self._tables.get(table.name)
        return int(entry["rows"]) if entry else 0

    def _file(self, table: Table) -> Path:
        if table.name not in self._checked:
            entry = self._tables[table.name]
            path = self._check_size(self._directory / f"{table.name}.parquet", entry["bytes"])
            if (found := footer_crc(path)) != entry["footer_crc"]:
                raise Damaged(path, "footer", f"CRC {entry['footer_crc']:08x}", f"{found:08x}")
            self._checked[table.name] = path
        return self._checked[table.name]

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a table, validated in full. Raises `Damaged`."""
        if table.name not in self._tables:
            return
        path = self._file(table)
        rows = 0
        try:
            words = [c.name for c in table.columns if c.type == TEXT]
            with pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=words) as file:
                mapping = checked_schema(path, table, file.schema_arrow)
                for group in range(file.num_row_groups):
                    if (count := file.metadata.row_group(group).num_rows) > _GROUP_ROWS_LIMIT:
                        raise Damaged(path, f"row group {group}", f"at most {_GROUP_ROWS_LIMIT} rows", str(count))
                    for batch in file.read_row_group(group).unify_dictionaries().to_batches():
                        rows += batch.num_rows
                        yield checked_batch(path, f"row group {group}", table, mapping, batch)
        except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
            raise Damaged(path, "content", "Parquet pages with their checksums", _first_line(error)) from None
        if rows != self.rows(table):
            raise Damaged(path, "rows", f"{self.rows(table)} rows", f"{rows} rows")

    def dataset(self, table: Table) -> ds.Dataset:
        """Return a table as a dataset that is read by column and row group. Raises `Damaged` for a wrong schema."""
        path = self._file(table)
        words = [c.name for c in table.columns if c.type == TEXT]
        scan = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        format_ = ds.ParquetFileFormat(
            read_options=ds.ParquetReadOptions(dictionary_columns=words), default_fragment_scan_options=scan
        )
        found = ds.dataset([str(path)], format=format_)
        checked_schema(path, table, found.schema)
        return found


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
