"""The operations of a device in a round: what stands on a line, where on the axis, and what is left out when narrow."""

from __future__ import annotations

from tsviz.replay.recorded.snapshot import DeviceOperation, DeviceRow
from tsviz.tui.lines import Line
from tsviz.tui.panes.device_ops import operation_lines, row_lines

MS = 1_000_000


def op(number: int, stream: str, kind: str, queued: int, began: int, ended: int, **more: object) -> DeviceOperation:
    """An operation of round 7 with its times in ms."""
    values: dict[str, object] = {"layer": None, "op_id": None, "moved_bytes": 0, "waits": ()}
    return DeviceOperation(
        op=number, round=7, stream=stream, kind=kind, submit_ns=queued * MS, start_ns=began * MS, end_ns=ended * MS,
        **values | more,  # type: ignore[arg-type]
    )  # fmt: skip


OPS = [
    op(40, "default", "zero", 0, 0, 5, moved_bytes=2048, waits=(39,)),
    op(41, "load", "load", 0, 5, 7, layer=0, op_id=3, waits=(40,), moved_bytes=500),
    op(42, "load", "load", 0, 7, 10, layer=1, op_id=3, moved_bytes=500),
    op(43, "exec", "layer", 1, 7, 12, layer=0, waits=(41, 39)),
    op(44, "exec", "layer", 1, 12, 19, layer=1, waits=(42,)),
    op(45, "host", "commit", 19, 20, 20, moved_bytes=1),
]
"""20 ms: cleared, two layers loaded behind that, two layers computed behind those, and committed."""


def text(lines: list[Line]) -> list[str]:
    """The lines as text, without what stands empty behind them."""
    return ["".join(span.text for span in line.spans).rstrip() for line in lines]


def test_layers_of_one_thing_are_one_line_on_the_axis_of_the_round() -> None:
    """20 cells for 20 ms: a cell a millisecond, a dot where an operation was queued, its full cells where it ran."""
    width = 2 + 8 + 14 + 9 + 20
    head, *lines = text(operation_lines(OPS, width))
    assert head.startswith(" operations of this round: 6 ─") and head.endswith("─ 20.00 ms")
    assert lines == [
        " default zero          █████                   5.000",
        " load    loads 0–1     ·····█████              5.000",
        " exec    layers 0–1     ······████████████    12.000",
        " host    commit                           █    0.000",
    ]


def test_a_wide_pane_says_what_was_waited_for_and_how_much_was_moved() -> None:
    """The first of a run's waits, by kind; what is of another round is before."""
    width = 2 + 8 + 14 + 16 + 9 + 9 + 20
    assert text(operation_lines(OPS, width))[1:] == [
        " default zero          ← before        █████                   5.000  2.05 kB",
        " load    loads 0–1     ← zero          ·····█████              5.000  1.00 kB",
        " exec    layers 0–1    ← load, before   ······████████████    12.000        ·",
        " host    commit                                           █    0.000        ·",
    ]


def test_what_a_peer_sends_is_one_line() -> None:
    """Three receives of one round, from the first one's begin to the last one's end."""
    ops = [op(n, "peer", "receive", 0, 5 * n, 5 * n + 2, moved_bytes=100) for n in range(3)]
    assert text(operation_lines(ops, 2 + 8 + 14 + 9 + 12))[1:] == [" peer    receive ×3    ████████████    6.000"]


def test_times_that_cannot_be_stay_within_the_axis() -> None:
    """An operation of a damaged trace that ended before it began has one cell."""
    (_, line) = operation_lines([op(0, "exec", "layer", 9, 5, 2)], 60)
    assert sum(span.text.count("█") for span in line.spans) == 1


def test_rows_say_what_they_had_and_what_came_of_them() -> None:
    """Tokens before, fed and accepted; a row whose logits are no numbers has a mark and no margin."""
    rows = [DeviceRow("chat-1", 1048, 3, 2, 0.5, False), DeviceRow("chat-2", 7, 1, 1, float("nan"), True)]
    head, *lines = text(row_lines(rows, 60))
    assert head.endswith("─ 1 row broken")
    assert lines == [
        "  request        before   fed accepted    margin",
        "  chat-1          1,048     3        2       0.5",
        " ✗chat-2              7     1        1 no number",
    ]
