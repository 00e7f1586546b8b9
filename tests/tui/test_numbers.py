"""Numbers for people."""

from __future__ import annotations

import pytest

from tsviz.tui.destination import moment_of
from tsviz.tui.numbers import bar, clock_time, counted, instant, level, percent


def test_numbers_carry_separators_and_units() -> None:
    """One is singular, everything else plural; thousands are grouped."""
    assert [counted(n, "page") for n in (0, 1, 1204)] == ["0 pages", "1 page", "1,204 pages"]


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0.000 000 s"),
        (8_123_456, "0.008 123 s"),
        (59_999_999_999, "59.999 999 s"),
        (61_000_000_000, "1 min 01.000 000 s"),
        (3_723_004_005_000, "1 h 02 min 03.004 005 s"),
        (-1_500_000, "-0.001 500 s"),
    ],
)
def test_times_show_all_digits_down_to_a_microsecond(time_ns: int, text: str) -> None:
    """3,723.004005 s are 1 h, 2 min and 3.004005 s."""
    assert clock_time(time_ns) == text


def test_a_share_of_nothing_is_a_dash() -> None:
    """There is no percentage of an empty whole."""
    assert percent(0, 0) == "–"
    assert percent(1, 8) == "12.5 %"


def test_a_bar_is_exact_to_an_eighth_and_never_lies_at_its_ends() -> None:
    """5 of 8 in one cell are five eighths; one of a million is a sliver; all but one of a million is not full."""
    assert bar(5, 8, 1) == ("▋", "")
    assert bar(1, 1_000_000, 4)[0] == "▏"
    assert bar(999_999, 1_000_000, 4)[0] == "███▉"
    assert bar(1, 1, 4) == ("████", "")
    assert bar(0, 1, 4) == ("", "    ")


def test_a_level_is_full_only_for_everything() -> None:
    """1,023 of 1,024 pages are drawn below full, one page above nothing."""
    assert [level(n, 1024) for n in (0, 1, 512, 1023, 1024)] == [" ", "▁", "▄", "▇", "█"]


@pytest.mark.parametrize(
    ("time_ns", "step_ns", "text"),
    [
        (0, 12e6, "0.00s"),
        (12_345_678_901, 1e6, "12.346s"),
        (59_996_000_000, 20e6, "1m00.00s"),
        (123_456_000_000, 300e6, "2m03.5s"),
        (7_384_000_000_000, 9e9, "2h03m04s"),
    ],
)
def test_an_instant_has_the_digits_of_its_step_and_is_what_go_to_takes(time_ns: int, step_ns: float, text: str) -> None:
    """On an axis of 12 ms a column hundredths of a second differ; typed again it is the moment, within a step."""
    assert instant(time_ns, step_ns) == text
    moment = moment_of(text)
    assert moment is not None
    assert abs(moment.time_ns - time_ns) <= step_ns
