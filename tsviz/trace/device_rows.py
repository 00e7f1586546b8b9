"""What a device says of itself as rows of `forwards`, `forward_rows`, `device_ops`, `device_ranges` and `page_crcs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
            for row in entry.rows:
                tables["forward_rows"].add(round=entry.round, submission=submission(row.request), **row._asdict())
        case e.DeviceOpEntry():
            _add_op(tables, entry)
        case e.PageCrcsEntry():
            for crc in entry.rows if content else ():
                tables["page_crcs"].add(round=entry.round, op=entry.op, **crc._asdict())


def _add_op(tables: Mapping[str, TableBuilder], entry: e.DeviceOpEntry) -> None:
    values = entry._asdict()
    reads, writes = values.pop("reads"), values.pop("writes")
    tables["device_ops"].add(**values)
    ranges = tables["device_ranges"]
    for written, touched in ((False, reads), (True, writes)):
        for space, begin, end in touched:
            ranges.add(round=entry.round, op=entry.op, space=space, writes=written, begin_byte=begin, end_byte=end)
