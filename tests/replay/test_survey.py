"""What is asked about a whole trace, in this process and in one of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tsviz.replay.findings.model import CHECKSUMS, DEVICE
from tsviz.replay.findings.scan import CHECKS
from tsviz.replay.lost.keys import LostKey
from tsviz.replay.survey import ask as survey
from tsviz.replay.survey.ask import Answer, Extent, Failed, Looked, LostTime, Plan, Progress, from_json, to_json
from tsviz.replay.survey.child import Survey
from tsviz.trace.reader import open_bundle

TRACES = Path(__file__).parents[2] / "traces"
MADE = [check.name for check in CHECKS if check.needs not in (DEVICE, CHECKSUMS)]
"""What is checked of a trace whose device was simulated."""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of indexes for this module."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TSVIZ_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def here(name: str, what: str, derive: bool = False) -> list[Answer]:
    """Return the answers of this process, without progress."""
    bundle = open_bundle(TRACES / name)
    if what == "findings":
        answers = survey.findings(bundle, derive=derive, tell=lambda _: None)
    else:
        answers = survey.lost_time(bundle.parts[0], derive=derive, tell=lambda _: None)
    return [answer for answer in answers if not isinstance(answer, Progress)]


def elsewhere(name: str, what: str, derive: bool = False) -> list[Answer]:
    """Return the answers of a process of its own, without progress."""
    ask = {"what": what, "trace": str(TRACES / name), "node": None, "rank": None, "derive": derive}
    return [answer for answer in Survey(ask) if not isinstance(answer, Progress)]


def keys(answers: list[Answer]) -> list[LostKey]:
    """Return all sums."""
    return [key for answer in answers if isinstance(answer, LostTime) for key in answer.keys]


def test_without_decisions_the_checks_that_need_them_are_not_checkable() -> None:
    """`head-of-line` is recorded without decisions and nothing is in the cache: the extent says none, of 55 rounds."""
    answers = here("head-of-line", "findings")
    assert answers[:2] == [Plan(len(MADE)), Extent("F/0", "none", 0, 55)]
    looked = [answer for answer in answers if isinstance(answer, Looked)]
    assert [one.name for one in looked] == MADE
    hold = next(one for one in looked if one.name == "head_of_line_hold")
    assert (hold.outcome, hold.severity) == ("not_checkable", "costly")
    assert hold.sentence == "not checkable without decisions (tsviz index)"


def test_another_process_says_the_same() -> None:
    """What crosses the pipe is what was said; the hold of `head-of-line` lasts from round 5 to 15, behind `report`."""
    there = elsewhere("head-of-line", "findings", derive=True)
    assert there == here("head-of-line", "findings")
    hold = next(one for one in there if isinstance(one, Looked) and one.name == "head_of_line_hold")
    assert (hold.outcome, hold.part) == ("found", "F/0")
    assert hold.requests[0] == "report"


def test_lost_time_sums_and_names_the_longest_run() -> None:
    """chat-4 waited from round 5 to 15, 11 rounds of 48.96 ms: the longest head of line of all; 7 chats waited."""
    found = keys(elsewhere("head-of-line", "lost_time", derive=True))
    assert [key.key for key in found if key.view == "class"] == ["chat", "report"]
    fleet = found[0]
    assert (fleet.view, fleet.requests) == ("fleet", 9)
    worst = fleet.phases[0].causes[0]
    assert (worst.cause, worst.request) == ("head_of_line", "chat-4")
    assert (worst.run.first_round, worst.run.last_round, worst.run.time_ns) == (5, 15, 11 * 48_960_000)
    assert worst.time_ns == 6 * 10 * 48_960_000 + 11 * 48_960_000


def test_a_trace_that_is_none_is_told() -> None:
    """The last answer says why."""
    answers = elsewhere("no-such-trace", "findings")
    assert [type(answer) for answer in answers] == [Failed]
    assert "no-such-trace" in str(answers[0])


def test_a_survey_that_is_cancelled_says_no_more() -> None:
    """Its process is gone behind it."""
    asked = Survey({"what": "findings", "trace": str(TRACES / "mixed-undeclared-livelock"), "derive": False})
    answers = iter(asked)
    assert next(answers) == Plan(len(MADE))
    asked.cancel()
    assert not [answer for answer in answers if isinstance(answer, Failed)]
    assert asked._process is not None
    with pytest.raises(ProcessLookupError):
        os.kill(asked._process.pid, 0)


def test_an_answer_that_is_none_is_refused() -> None:
    """A damaged line is no answer."""
    with pytest.raises(ValueError, match="expected an answer"):
        from_json({"is": "Popen", "args": ["sh"]})
    assert from_json(to_json(Failed("x"))) == Failed("x")
