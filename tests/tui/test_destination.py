"""What people type into "go to"."""

from __future__ import annotations

import pytest

from tsviz.tui.destination import Destination, NoDestination, ToFinding, ToMoment, ToPart, ToRequest, ToRound, parse

IN_2000 = 946_684_800 * 10**9
"""2000-01-01 00:00 UTC."""


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("1204", ToRound(1204)),
        (" 1,204 ", ToRound(1204)),
        ("1204.3", ToRound(1204, 3)),
        ("P/0:1204", ToRound(1204)),
        ("mooncake@P/0:1204.3", ToRound(1204, 3)),
        ("50%", ToRound(5000)),
        ("0%", ToRound(1)),
        ("100 %", ToRound(10000)),
        ("r17", ToRequest("r17")),
        ("12.5s", ToMoment(12_500_000_000, False, "12.5s since the start")),
        ("1h 2min 3s 4ms", ToMoment(3_723_004_000_000, False, "1h 2min 3s 4ms since the start")),
        ("2m", ToMoment(120_000_000_000, False, "2m since the start")),
        ("1970-01-02T00:00:01Z", ToMoment(86_401_000_000_000, True, "1970-01-02T00:00:01Z")),
        ("[1970-01-01 02:00:00,123 +02:00]", ToMoment(123_000_000, True, "[1970-01-01 02:00:00,123 +02:00]")),
        ("1970-01-01 00:00:00.000000007", ToMoment(7, True, "1970-01-01 00:00:00.000000007 UTC")),
        ("1970-13-01 00:00:00", ToRequest("1970-13-01 00:00:00")),
        ("1970/01/01 00:00:09.5", ToMoment(9_500_000_000, True, "1970/01/01 00:00:09.5 UTC")),
        ("02:51:07.5", ToMoment(10_267_500_000_000, True, "02:51:07.5 UTC", "day")),
        ("02:51 +02:00", ToMoment(3_060 * 10**9, True, "02:51 +02:00", "day")),
        ("12:30:00:1", ToRequest("12:30:00:1")),
        ("01-02 00:00:01", ToMoment(IN_2000 + 86_401 * 10**9, True, "01-02 00:00:01 UTC", "year")),
        ("Jan  2 00:00:01", ToMoment(IN_2000 + 86_401 * 10**9, True, "Jan  2 00:00:01 UTC", "year")),
        (
            "I0102 00:00:01.000001 77 x.cc:1] a",
            ToMoment(IN_2000 + 86_401 * 10**9 + 1_000, True, "I0102 00:00:01.000001 UTC", "year"),
        ),
        (
            "INFO 01-02 00:00:01 [core.py:3] stuck",
            ToMoment(IN_2000 + 86_401 * 10**9, True, "01-02 00:00:01 UTC", "year"),
        ),
        ("#3", ToFinding(3)),
        ("#0", ToRequest("#0")),
        ("id:17", ToRequest("17")),
        ("a[/x]b", ToRequest("a[/x]b")),
        ("D/1:7", NoDestination("the parts are P/0, D/0, not D/1")),
        ("D/0:13", ToPart("D/0", 13)),
        ("trace@D/0:99999.2", ToPart("D/0", 99999, 2)),
        ("0", NoDestination("rounds are 1 to 10,000")),
        ("10001", NoDestination("rounds are 1 to 10,000")),
        ("9" * 5000, NoDestination("rounds are 1 to 10,000")),
        ("101%", NoDestination("101% is more than the whole trace")),
        ("", NoDestination("a round, 45%, a time (12.5s, or one from a log), #finding, a request id")),
        ("id:", NoDestination("a request id after id:")),
    ],
)
def test_a_text_leads_to_a_round_or_a_request_or_says_why_not(text: str, where: Destination) -> None:
    """Positions are written as everywhere else: `[node/rank:]round.stop`; whatever is not one is a request id."""
    assert parse(text, 10_000, "P/0", ("P/0", "D/0")) == where


def test_an_empty_trace_has_no_destination() -> None:
    """There is no round to go to."""
    assert parse("1", 0, "P/0") == NoDestination("this trace has no rounds")


def test_a_time_of_day_is_the_one_in_the_trace_or_nearest_to_it() -> None:
    """A trace from 23:59 to 00:02: 00:01 is in it, 23:58 a minute before it, 00:03 a minute behind."""
    begin, minute = (20_000 * 1440 - 1) * 60 * 10**9, 60 * 10**9
    times = {text: ToMoment(ns, True, "", "day") for text, ns in (("00:01", minute), ("00:03", 3 * minute))}
    times["23:58"] = ToMoment(1438 * minute, True, "", "day")
    found = {text: (moment.within(begin, begin + 3 * minute) - begin) // minute for text, moment in times.items()}
    assert found == {"00:01": 2, "00:03": 4, "23:58": -1}


def test_a_date_without_a_year_is_of_the_year_of_the_trace() -> None:
    """1 January and 31 December beside a trace that begins on 2026-12-31 at 23:00; 29 February is of 2028."""
    begin = 1_798_758_000 * 10**9  # 2026-12-31 23:00 UTC
    hour = 3600 * 10**9
    new_year, eve = parse("01-01 00:30", 9, "F/0"), parse("12-31 23:30", 9, "F/0")
    assert isinstance(new_year, ToMoment) and isinstance(eve, ToMoment)
    assert new_year.within(begin, begin + 2 * hour) == begin + hour * 3 // 2
    assert eve.within(begin, begin + 2 * hour) == begin + hour // 2
    leap = parse("02-29 00:00", 9, "F/0")
    assert isinstance(leap, ToMoment)
    assert leap.within(1_835_395_200 * 10**9, 1_835_395_200 * 10**9) == 1_835_395_200 * 10**9  # 2028-02-29
