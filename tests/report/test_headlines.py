"""What a report says first: of how many requests, and how all of them ended."""

from __future__ import annotations

from typing import Any

import pytest

from tsviz.replay.lost.blame import Share
from tsviz.report.headlines import headlines, tiles
from tsviz.report.subject import Source, Subject, SubjectPart

PART = SubjectPart("F", 0, [], [])


def source(ended: tuple[int, int, int, int], with_first: int) -> Source:
    """A part whose requests (accepted, finished, aborted, failed) ended so; some have a first token within 2 s."""
    ended_row = dict(zip(("accepted", "finished", "aborted", "failed"), ended, strict=True))
    ttft = {"requests": with_first, "p50_ns": 1.5e9, "p99_ns": 2e9, "max_ns": 2e9}

    def ask(sql: str) -> list[dict[str, Any]]:
        if "AS accepted" in sql:
            return [ended_row]
        if "FROM ttft" in sql:
            return [ttft]
        return [{"n": 0, "ns": 0, "t": 0}] if "FROM rounds" in sql else []

    return Source(Subject("t", {}, ask, [PART], "0"), PART)


@pytest.mark.parametrize(
    ("ended", "below", "says"),
    [
        ((141, 28, 12, 0), "of 141; 12 aborted, 101 open",
         "101 of 141 requests had not ended when the recording did (max rounds); 28 finished, 12 aborted."),
        ((10, 5, 2, 3), "of 10; 2 aborted, 3 failed",
         "10 requests: 5 finished, 2 aborted, 3 failed, none is left open."),
        ((4, 4, 0, 0), "of 4", "4 requests: 4 finished, none is left open."),
    ],
)  # fmt: skip
def test_how_requests_ended_adds_up(ended: tuple[int, int, int, int], below: str, says: str) -> None:
    """28 finished, 12 aborted and 101 open are 141; 5, 2 aborted and 3 failed are 10."""
    asked = source(ended, ended[0])
    assert headlines(asked, PART, "max rounds")[0].says == says
    tile = tiles(asked, "max rounds")[0]
    assert (tile.figure, tile.below) == (str(ended[1]), below)


def test_the_first_token_is_told_of_those_that_have_one() -> None:
    """31 of 141 requests have a first token: a half is said of them; where all have one, of the requests."""
    some, every = source((141, 28, 12, 0), 31), source((31, 31, 0, 0), 31)
    times = "within 1.50\u00a0s, 99 in 100 within 2.00\u00a0s; the longest takes 2.00\u00a0s."
    assert headlines(some, PART, "")[1].says == (
        f"The first token of 31 of 141 requests is recorded: half of them have it {times}"
    )
    assert headlines(every, PART, "")[1].says == f"Half of the requests have their first token {times}"
    assert tiles(some, "")[2].below == "in half of 31; 99 in 100: 2.00\u00a0s"


def test_failed_requests_are_no_good_end() -> None:
    """With 3 of 10 failed the sentence warns, with aborted ones alone, which clients wish for, it does not."""
    grades = [headlines(source(ended, 10), PART, "")[0].grade for ended in ((10, 5, 2, 3), (10, 8, 2, 0))]
    assert grades == ["warn", "good"]


def test_a_figure_without_requests_says_so() -> None:
    """No request of the part has a time per token, as on a node that only prefills."""
    assert (tiles(source((4, 4, 0, 0), 4), "")[3].figure, tiles(source((4, 4, 0, 0), 4), "")[3].below) == (
        "–", "no request has one here"
    )  # fmt: skip


def test_waits_between_tokens_are_told_where_they_are_many() -> None:
    """30 % of the time between tokens is a wait for prefill rounds; 4 % would not be told."""

    def said(share: float) -> list[str]:
        waits = int(share * 100)
        shares = [Share("all", "tpot", "decode_waits_for_prefill_round", waits, 100, 4, 40),
                  Share("all", "tpot", "scheduled", 100 - waits, 100, 4, 40)]  # fmt: skip
        return [one.says for one in headlines(source((4, 4, 0, 0), 4), SubjectPart("F", 0, [], shares), "")]

    assert "30.0\u00a0% of the time between tokens is spent without a row: a prefill round 30.0\u00a0%." in said(0.3)
    assert not any("between tokens" in one for one in said(0.04))
