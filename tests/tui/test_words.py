"""What panes say in the room that they have; no application is needed to read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tui.fakes import HEAD, by_formula
from tsviz.replay.recorded.snapshot import Cause, Frontier, Pool, RequestLine
from tsviz.replay.stops.story import PhaseStory, RoundStory, Stop
from tsviz.replay.why.tree import Answer, Branch
from tsviz.tui.frame import Ask, Frame, make_listing
from tsviz.tui.lines import Document
from tsviz.tui.panes.header import header
from tsviz.tui.panes.idle import idle
from tsviz.tui.panes.phases import phases
from tsviz.tui.panes.pool import pool
from tsviz.tui.panes.requests import requests
from tsviz.tui.panes.why import why
from tsviz.tui.scene import Detail, Scene

STORY = RoundStory(61, "derived", (), (), ())


def text(document: Document) -> str:
    """Return what a document says."""
    return "\n".join(document.line(y).text for y in range(document.height))


def scene_of(*lines: RequestLine, selected: int = 0, **more: object) -> Scene:
    """Return a scene at round 61 with these requests, decisions known."""
    head = replace(HEAD, frontier=Frontier("derived", HEAD.rounds))
    snapshot = replace(by_formula(head, 61, selected), requests=lines, pool=Pool(64, 4, 0, 50))
    listing = make_listing(lines, "", "state")
    frame = Frame(snapshot, listing, Ask(61, selected), {}, STORY)
    return Scene(frame=frame, head=head, round=61, selected=selected, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("width", "says"),
    [
        (60, "2,048 tok left, 96 held back, 5 in batch"),
        (55, "2,048 left, 96 held back, 5 in batch"),
        (43, "2,048 left, 96 held back"),
        (42, "2,048 left, 5 in batch"),
        (36, "2,048 tok left"),
        (29, "2,048 left"),
        (20, ""),
    ],
)
def test_the_head_of_a_phase_drops_words_and_cuts_none(width: int, says: str) -> None:
    """` 4 new prompts ` takes 17 cells, the note what is left less 2 (36 of 55); no number ever ends in dots."""
    phase = PhaseStory("new prompts", Stop(4, "phase", "", -1, ""), 2048, 96, 5, ())
    line = text(phases(scene_of(), RoundStory(61, "derived", (), (phase,), ()), width)[0])
    assert line.startswith("   4 new prompts ")
    assert line.strip("─ ").removeprefix("4 new prompts").strip("─ ") == says
    assert "…" not in line


def test_what_has_no_pages_says_in_the_list_why_it_waits() -> None:
    """In 42 cells: who computes shows its numbers, who waits with nothing its cause; scheduled ones show numbers."""
    cause = Cause("head_of_line", "behind r7 (head of line), 3 rounds", "r7", 59)
    held = RequestLine("r7", 7, "prefilling", 512, 900, 0, 5, 32, 9, True, 0)
    waits = RequestLine("r8", 8, "waiting", 0, 640, 0, 5, 0, 4, False, 0, cause)
    partly = RequestLine("r9", 9, "decoding", 700, 640, 60, 99, 44, 4, False, 0, cause)
    said = text(requests(scene_of(held, waits, partly, selected=7), 42, 10))
    assert "behind r7" in said
    assert "3 rounds" in said
    assert "640       0" not in said
    assert "700" in said
    assert "512" in said


def test_an_answer_without_anything_behind_it_is_said_once() -> None:
    """`aborted (its transfer failed)` stands in the paragraph; the tree, the same sentence, is left out."""
    line = RequestLine("r7", 0, "aborted", 0, 900, 0, 5, 0, 9, False, 0)
    words = "r7 aborted (its transfer failed) in front of round 60"
    answer = Answer("r7", 0, 61, "derived", "ended", 60, words + ".", Branch("ended", words, "r7"), "r7")
    scene = scene_of(line, view="why", detail=Detail("why", 61, 0, answer))
    assert " ".join(text(why(scene, 80, 20)).split()).count("aborted (its transfer failed)") == 1
    deeper = replace(answer, tree=Branch("capacity", "r7: capacity", children=(Branch("holders", "held: 60 blocks"),)))
    scene = scene_of(line, view="why", detail=Detail("why", 61, 0, deeper))
    assert "held: 60 blocks (at the refusal, before the plan)" in text(why(scene, 80, 20))


def test_the_pool_line_says_of_which_moment_it_tells() -> None:
    """50 active, 10 cached and 4 empty of 64: behind the plan, where there is room to say so."""
    assert "50 active + 10 cached + 4 empty = 64 pages behind the plan" in text(pool(scene_of(), 140, 1))
    assert "= 64 pages " in text(pool(scene_of(), 100, 1))


@pytest.mark.parametrize(
    ("to_verify", "verifying", "says"),
    [(False, None, "○ not verified"), (True, None, "◌ to be verified"), (True, (3, 12), "◌ verifying 25.0 %")],
)
def test_before_verification_begins_nothing_is_called_unverified(
    to_verify: bool, verifying: tuple[int, int] | None, says: str
) -> None:
    """What will be verified without being asked is not told as a verdict."""
    scene = Scene(head=replace(HEAD, frontier=Frontier("none", 0)), to_verify=to_verify, verifying=verifying)
    assert says in text(header(scene, 120, 2))


def test_an_empty_plan_says_whose_answer_it_waits_for() -> None:
    """Two have pages with their peers and one lacks pages; without the two, nobody waits for an answer from outside."""
    away = Cause("remote_transfer", "remote transfer, 9 rounds", "", 52)
    peers = [RequestLine(name, at, "remote", 16, 16, 1, 5, 5, 9, False, 0, away) for at, name in enumerate("AB")]
    lacks = RequestLine("C", 2, "waiting", 0, 16, 0, 5, 0, 9, False, 0, Cause("capacity", "no pages", "", 61))

    def said(*requests: RequestLine) -> str:
        frame = scene_of(*requests).frame
        assert frame is not None
        return " ".join(" ".join(each.text for each in idle(replace(frame.snapshot, rows=()), 60)).split())

    assert said(*peers, lacks) == (
        "Idle, it waits for peers that have pages of A, B. ⇄ 2 requests: remote transfer ▦ 1 request: capacity"
    )
    assert said(lacks) == ("Nothing was scheduled, and nobody waits for an answer from outside. ▦ 1 request: capacity")
    assert said() == "Nothing was scheduled in this round."


def test_an_empty_plan_that_retracted_somebody_is_not_stuck() -> None:
    """One gave way in this round, so the next plan has pages."""
    lacks = RequestLine("C", 2, "waiting", 0, 16, 0, 5, 0, 9, False, 0, Cause("capacity", "no pages", "", 61))
    frame = scene_of(lacks).frame
    assert frame is not None
    first, *_ = idle(replace(frame.snapshot, rows=(), retracted=1), 60)
    assert first.text.strip() == "Nothing was scheduled; 1 request gave way in this round."
