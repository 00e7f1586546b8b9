"""What a device says of itself as rows of `forwards`, `forward_rows`, `device_ops`, `device_ranges` and `page_crcs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from . import entries as e
from .builder import TableBuilder


def add_measured(
    tables: Mapping[str, TableBuilder], last_round: int, entry: e.Measured, submission: Callable[[str], int], *,
    content: bool,
) -> None:  # fmt: skip
    """Add one entry; `last_round` is the round of the last plan, `submission` what a request id names now.

    Without `content` checksums are left out: they would tell a guessed prompt from another one.
    """
    match entry:
        case e.ForwardEntry():
            round_ = last_round if entry.round is None else entry.round
            tables["forwards"].add(round=round_, start_ns=entry.start_ns, end_ns=entry.end_ns)
        case e.ForwardRowsEntry():
            _add_rows(tables["forward_rows"], entry, submission)
        case e.DeviceOpsEntry():
            _add_ops(tables, list(entry.ops))
        case e.PageCrcsEntry():
            for crc in entry.rows if content else ():
                tables["page_crcs"].add(round=entry.round, op=entry.op, **crc._asdict())


def _add_rows(table: TableBuilder, entry: e.ForwardRowsEntry, submission: Callable[[str], int]) -> None:
    rows = list(entry.rows)
    table.columns["round"].repeat(entry.round, len(rows))
    table.columns["submission"].extend([submission(row.request) for row in rows])
    for name, values in zip(e.ForwardRow._fields, zip(*rows, strict=True), strict=bool(rows)):
        table.columns[name].extend_any(values)


def _add_ops(tables: Mapping[str, TableBuilder], ops: Sequence[e.DeviceOp]) -> None:
    columns = tables["device_ops"].columns
    for name, values in zip(e.DeviceOp._fields, zip(*ops, strict=True), strict=bool(ops)):
        if name in columns:
            columns[name].extend_any(values)
    for op in ops:
        for writes, touched in ((False, op.reads), (True, op.writes)):
            _add_ranges(tables["device_ranges"], op, touched, writes=writes)


def _add_ranges(
    table: TableBuilder, op: e.DeviceOp, touched: e.RangeColumns | Sequence[tuple[str, int, int]], *, writes: bool
) -> None:
    if not isinstance(touched, e.RangeColumns):
        for space, begin, end in touched:
            table.add(round=op.round, op=op.op, space=space, writes=writes, begin_byte=begin, end_byte=end)
        return
    (begins, ends), columns = touched.columns(), table.columns
    for name, value in (("round", op.round), ("op", op.op), ("writes", writes)):
        columns[name].repeat(value, len(begins))
    columns["space"].repeat_text(touched.space, len(begins))
    columns["begin_byte"].extend_numpy(begins)
    columns["end_byte"].extend_numpy(ends)
