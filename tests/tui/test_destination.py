"""What people type into "go to"."""

from __future__ import annotations

import pytest

from tsviz.tui.destination import Destination, NoDestination, ToFinding, ToMoment, ToRequest, ToRound, parse


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
        ("#3", ToFinding(3)),
        ("#0", ToRequest("#0")),
        ("id:17", ToRequest("17")),
        ("a[/x]b", ToRequest("a[/x]b")),
        ("D/1:7", NoDestination("this is part P/0, not D/1")),
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
    assert parse(text, 10_000, "P/0") == where


def test_an_empty_trace_has_no_destination() -> None:
    """There is no round to go to."""
    assert parse("1", 0, "P/0") == NoDestination("this trace has no rounds")
