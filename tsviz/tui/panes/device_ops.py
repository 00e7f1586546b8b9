"""The operations of a real device in one round, a line each on one axis of time, and what its rows came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsviz.replay.recorded.snapshot import DeviceOperation, DeviceRow
from tsviz.tui.clean import fit
from tsviz.tui.lines import Line, Span, clip, heading
from tsviz.tui.numbers import counted, grouped, size

_STREAM_CELLS, _TOOK_CELLS, _BYTES_CELLS = 8, 9, 9
_FROM_WIDTH_WAITS, _FROM_WIDTH_BYTES = 66, 78
"""Panes narrower than this leave out what an operation waited for, and how much it moved."""
_ROLES = {
    "zero": "warn", "store_ordered": "transfer", "store_pinned": "transfer", "load": "transfer", "fetch": "transfer",
    "backup": "transfer", "land": "accent", "receive": "accent", "send": "accent", "commit": "dim",
}  # fmt: skip
"""How an operation is drawn; what is not here is part of a forward."""
_REQUEST_CELLS, _NUMBERS_CELLS = 14, 35


@dataclass(frozen=True, slots=True)
class _Run:
    """Operations of one kind on one stream for one thing: a forward's layers, those of a load, what a peer sends."""

    ops: tuple[DeviceOperation, ...]

    @property
    def name(self) -> str:
        """The kind, with the layers."""
        first, last = self.ops[0], self.ops[-1]
        if first.layer is None:
            return first.kind if len(self.ops) == 1 else f"{first.kind} ×{len(self.ops):,}"
        layers = f"{first.layer}" if len(self.ops) == 1 else f"{first.layer}–{last.layer}"
        return f"{first.kind if len(self.ops) == 1 else first.kind + 's'} {layers}"

    @property
    def busy_ns(self) -> int:
        """How long they ran, one by one."""
        return sum(op.end_ns - op.start_ns for op in self.ops)


def operation_lines(ops: Sequence[DeviceOperation], width: int) -> list[Line]:
    """Return a line a run of operations: its stream, what it is, when it was queued (·) and ran (█), how long."""
    if not ops:
        return []
    runs: dict[tuple[object, ...], list[DeviceOperation]] = {}
    for op in ops:
        runs.setdefault((op.stream, op.kind, op.op_id, op.layer is None), []).append(op)
    first, last = min(op.submit_ns for op in ops), max(op.end_ns for op in ops)
    kinds = {op.op: op.kind for op in ops}
    waits_cells = 16 if width >= _FROM_WIDTH_WAITS else 0
    bytes_cells = _BYTES_CELLS if width >= _FROM_WIDTH_BYTES else 0
    name_cells = 14 + waits_cells
    cells = max(width - 2 - _STREAM_CELLS - name_cells - _TOOK_CELLS - bytes_cells, 4)
    lines = [heading(f" operations of this round: {len(ops):,}", f"{(last - first) / 1e6:,.2f} ms ", width)]
    before = ""
    for run in map(_Run, map(tuple, runs.values())):
        op = run.ops[0]
        stream = "" if op.stream == before else op.stream
        before = op.stream
        name = fit(run.name, 14)
        if waits_cells:
            name += fit(_waits(run, kinds), waits_cells)
        spans = [Span(f" {fit(stream, _STREAM_CELLS)}", "dim"), Span(name[:14]), Span(name[14:], "dim")]
        spans += _bar(run, first, max(last - first, 1), cells)
        spans.append(Span(f"{run.busy_ns / 1e6:>{_TOOK_CELLS},.3f}", "text"))
        if bytes_cells:
            moved = sum(each.moved_bytes for each in run.ops if each.kind != "commit")
            spans.append(Span(f"{size(moved) if moved else '·':>{bytes_cells}}", "dim"))
        lines.append(clip(Line(tuple(spans)), width))
    return lines


def _waits(run: _Run, kinds: dict[int, str]) -> str:
    """Return whose events the first of them waits for, by kind; of an earlier round it is `before`."""
    names = dict.fromkeys(kinds.get(number, "before") for number in run.ops[0].waits)
    return f"← {', '.join(names)}" if names else ""


def _bar(run: _Run, first_ns: int, whole_ns: int, cells: int) -> list[Span]:
    """Return when the operations were queued and when they ran, as cells of the axis."""
    queued, begin, end = (
        (min(op.submit_ns for op in run.ops) - first_ns) * cells // whole_ns,
        (min(op.start_ns for op in run.ops) - first_ns) * cells // whole_ns,
        -((first_ns - max(op.end_ns for op in run.ops)) * cells // whole_ns),
    )
    queued = min(max(queued, 0), cells - 1)
    begin = min(max(begin, queued), cells - 1)
    end = min(max(end, begin + 1), cells)
    role = _ROLES.get(run.ops[0].kind, "budget")
    return [
        Span(" " * queued, "bar-empty"), Span("·" * (begin - queued), "bar-empty"),
        Span("█" * (end - begin), role), Span(" " * (cells - end), "bar-empty"),
    ]  # fmt: skip


def row_lines(rows: Sequence[DeviceRow], width: int) -> list[Line]:
    """Return what each row that gave tokens came to."""
    if not rows:
        return []
    broken = sum(row.broken for row in rows)
    said = f"{counted(broken, 'row')} broken " if broken else f"{len(rows):,} "
    cells = max(min(_REQUEST_CELLS, width - _NUMBERS_CELLS), 4)
    lines = [
        heading(" rows that gave tokens", said, width),
        clip(Line((Span(f"  {fit('request', cells)} before   fed accepted    margin", "dim"),)), width),
    ]
    for row in rows:
        mark = Span("✗", "bad") if row.broken else Span(" ")
        margin = Span(" no number", "bad") if row.broken else Span(f"{row.top2_margin:>10.4g}", "dim")
        spans = (
            Span(" "), mark, Span(fit(row.request, cells), "strong"), Span(f"{grouped(row.valid_tokens):>7}"),
            Span(f"{row.fed_tokens:>6}"), Span(f"{row.accepted_tokens:>9}", "accent"), margin,
        )  # fmt: skip
        lines.append(clip(Line(spans), width))
    return lines
