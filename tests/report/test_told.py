"""Charts as tables."""

from __future__ import annotations

from tsviz.report.axis import Axis
from tsviz.report.chart import Chart, area, line, y_axis
from tsviz.report.told import told

AXIS = Axis(1, 60, 1, ())
"""Sixty rounds, a column each: twenty pieces of three rounds."""


def test_a_timeline_is_told_in_twenty_pieces() -> None:
    """Values 0 to 59: the first three have the mean 1, the last three 58; a line that is only drawn is left out."""
    rising, bound = area("decode", "decode", list(range(60))), line("budget", "text", [9] * 60, hoverinfo="skip")
    table = told(Chart("x", "Requests", "", [rising, bound], y_axis("requests")), AXIS).table
    assert table is not None
    assert (table.caption, table.headings) == ("Requests: requests", ("rounds", "decode, mean"))
    assert len(table.rows) == 20
    assert (table.rows[0], table.rows[-1]) == (("1 to 3", "1"), ("58 to 60", "58"))


def test_points_are_told_with_the_highest_of_a_piece() -> None:
    """Two points of 1 and 2 s in rounds 1 and 3; where there is no point there is a dash."""
    points = {"mode": "markers", "name": "time", "x": [1, 3], "y": [1.0, 2.0]}
    table = told(Chart("x", "Time", "", [points]), AXIS).table
    assert table is not None
    assert table.rows[0] == ("1 to 3", "1.50", "2")
    assert table.rows[1] == ("4 to 6", "–", "–")


def test_a_histogram_is_told_by_its_columns() -> None:
    """Columns of no request are left out."""
    bars = {"text": ["1 ms to 2 ms", "2 ms to 4 ms"], "y": [0, 1204]}
    table = told(Chart("x", "Queue", "", [bars], timed=False), AXIS).table
    assert table is not None
    assert list(table.rows) == [("2 ms to 4 ms", "1,204")]
