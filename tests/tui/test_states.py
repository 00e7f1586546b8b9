"""Designed states, hostile traces, sizes, and how much is drawn."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from textual.widgets import Input

from tests.tui.desks import FakeDesk
from tests.tui.fakes import HEAD, FakeView, FullView, IndexedLater, StillView, by_formula
from tests.tui.helpers import pane_text, press, rest, screen_text, settle
from tsviz.replay.recorded.snapshot import BlockTable, Preparing, RequestLine, Row, Transfer
from tsviz.tui.app import DebuggerApp, run
from tsviz.tui.panes.states import too_small
from tsviz.tui.scene import Scene
from tsviz.tui.terminal import NoTerminal, require_terminal
from tsviz.tui.widgets.pane import Pane

HOSTILE_IDS = (
    "\x1b[31mred\x1b[0m",
    "\x1b]52;c;ZXZpbA==\x07",
    "a[/x]b",
    "[bold red]b[/]",
    "\u202egnp.exe",
    "z\u200bw\u200dj\ufeff",
    "x" * 10_000,
    "\n\r\t\x00\x7f\x9b2J",
    "漢字" * 50,
    "👩\u200d👩\u200d👧",
    "$(rm -rf /)",
    "",
)


def hostile_view() -> FakeView:
    """Return a view in which every string is an attack."""
    evil = HOSTILE_IDS[0] + HOSTILE_IDS[1] + "a[/x]b\u202e"
    head = replace(HEAD, name=evil, node=evil, role=evil, engine=evil, engine_version=evil, rule_set=evil, clock=evil)
    lines = tuple(
        RequestLine(name, i, evil if i == 3 else "decoding", 10, 10, 1, 5, 1, 1, True, 0)
        for i, name in enumerate(HOSTILE_IDS)
    )
    rows = tuple(Row(evil if i == 3 else "decode", name, i, i, None, 1, 0, 10) for i, name in enumerate(HOSTILE_IDS))
    still = replace(
        by_formula(HEAD, 10, 0),
        head=head,
        requests=lines,
        rows=rows,
        events=HOSTILE_IDS,
        counts={evil: 3},
        selected=0,
        transfers=(Transfer(1, evil, 1, None, None),),
        tables=(BlockTable(evil, 16, (1, 0, 2), frozenset({0}), {0: 0}, frozenset()),),
    )
    return StillView(still)


def is_harmless(text: str) -> bool:
    """Return whether no character of the text does anything to a terminal but fill cells."""
    return all(c == "\n" or (ord(c) >= 0x20 and not 0x7F <= ord(c) < 0xA0) for c in text) and not any(
        c in text for c in "\u202a\u202b\u202c\u202d\u202e\u200b\u200d\ufeff\u2066"
    )


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_hostile_strings_reach_no_terminal(size: tuple[int, int]) -> None:
    """Escapes, OSC 52, markup, bidi, zero-width and 10 kB ids are drawn as text in their cells, on every pane."""
    async with DebuggerApp(hostile_view()).run_test(size=size) as pilot:
        screen = await settle(pilot)
        for key in ("1", "down", "down", "down", "2", "t", "down", "y", "o", "o", "g"):
            await press(pilot, key)
            assert is_harmless(screen_text(pilot.app))
        pilot.app.screen.query_one(Input).value = "a[/x]b \x1b[2J"
        await pilot.press("enter")
        await settle(pilot)
        assert is_harmless(screen_text(pilot.app))
        assert is_harmless(pilot.app.clipboard)
        for submission in range(len(HOSTILE_IDS)):
            screen.select(submission, HOSTILE_IDS[submission])
            await settle(pilot)
            assert is_harmless(screen_text(pilot.app))


async def test_hostile_errors_are_text() -> None:
    """An exception whose text is markup and escapes is shown, not obeyed."""
    view = FullView()
    view.broken[1] = ValueError("a[/x]b \x1b]0;owned\x07" + "y" * 5000)
    async with DebuggerApp(view).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        text = screen_text(pilot.app)
        assert "This round could not be read." in text
        assert "a[/x]b" in text
        assert is_harmless(text)


async def test_an_empty_trace_says_that_it_is_empty() -> None:
    """0 rounds: no round is asked for, and keys that move say so."""
    view = FakeView(replace(HEAD, rounds=0, requests=0))
    async with DebuggerApp(view).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "This trace has no rounds." in pane_text(pilot.app, "requests")
        for key in ("n", "p", "end", "home", "space", "]", "down", "N", "o", "y", "slash", "escape", "g", "escape"):
            await press(pilot, key)
        for key in ("n", "W"):
            await press(pilot, "escape", key)
            assert "This trace has no rounds." in pane_text(pilot.app, "bottom"), key
        assert view.calls == []


async def test_loading_is_a_state_of_its_own() -> None:
    """Before the first frame every pane says what is being loaded, and keys are answered."""
    view = FullView()
    view.gate = threading.Event()
    async with DebuggerApp(view, start_round=61).run_test(size=(120, 40)) as pilot:
        for _ in range(200):
            await pilot.pause(0.01)
            if "Loading round 61" in pane_text(pilot.app, "inspector"):
                break
        assert "Loading round 61" in pane_text(pilot.app, "inspector")
        await pilot.press("l")
        await pilot.press("escape")
        view.gate.set()
        await settle(pilot)
        assert "r18" in pane_text(pilot.app, "inspector")


async def test_a_trace_that_is_being_indexed_says_so_and_then_shows_its_requests() -> None:
    """Without requests the pane says how far indexing is; when it is done they appear without a key."""
    view = IndexedLater()
    async with DebuggerApp(view, start_round=61).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "once: 25.0 %" in pane_text(pilot.app, "requests")
        assert "No request is in the system" not in pane_text(pilot.app, "requests")
        view.preparing = None
        for _ in range(400):
            await pilot.pause(0.01)
            if "r18" in pane_text(pilot.app, "requests"):
                break
        assert "r18" in pane_text(pilot.app, "requests")


async def test_a_trace_that_cannot_be_indexed_says_why() -> None:
    """The reason stands where the requests would."""
    view = IndexedLater()
    view.preparing = Preparing(1, 4, "the disk is full")
    async with DebuggerApp(view, start_round=61).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "could not be indexed" in pane_text(pilot.app, "requests")
        assert "the disk is full" in pane_text(pilot.app, "requests")
        await press(pilot, "W")
        assert "Requests are not known: the disk is full" in pane_text(pilot.app, "bottom")


@pytest.mark.parametrize(
    ("round_", "request_id", "says"),
    [
        (121, "r40", "it waits to be admitted"),
        (39, "r4", "its pages were given to others"),
        (100, "r4", "It is not in the system in round 100."),
        (10, "r40", "It is not in the system in round 10."),
    ],
)
async def test_a_request_without_a_table_says_why(round_: int, request_id: str, says: str) -> None:
    """r40 comes in 121; r4 is retracted in 38..43 and has ended by 100."""
    async with DebuggerApp(FullView(), start_round=121 if round_ == 10 else 39, request=request_id).run_test(
        size=(120, 40)
    ) as pilot:
        await settle(pilot)
        screen = await press(pilot, "t")
        screen.go(round_)
        await settle(pilot)
        text = pane_text(pilot.app, "inspector")
        assert request_id in text
        assert says in " ".join(text.split())


async def test_an_empty_plan_says_so() -> None:
    """A round that schedules nothing is not a broken screen."""
    async with DebuggerApp(FullView(), start_round=290).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "Nothing was scheduled in this round." in " ".join(pane_text(pilot.app, "round").split())
        assert "No request is in the system." in pane_text(pilot.app, "requests")


async def test_a_live_trace_says_when_nothing_newer_is_written() -> None:
    """At the end of what is committed n looks again; when rounds have come it goes to the last."""
    view = FullView(replace(HEAD, live=True))
    async with DebuggerApp(view, start_round=300).run_test(size=(120, 40)) as pilot:
        screen = await settle(pilot)
        assert "live" in pane_text(pilot.app, "header")
        await press(pilot, "n")
        assert "This was the last round when the trace was opened" in pane_text(pilot.app, "bottom")
        view.head = replace(view.head, rounds=310)
        await press(pilot, "end")
        assert screen.scene.round == 310
        assert "round 310 of 310" in pane_text(pilot.app, "header")


async def test_gaps_are_not_hidden() -> None:
    """A recording with gaps says how many."""
    async with DebuggerApp(FullView(replace(HEAD, gaps=2))).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "▲ 2 gaps" in pane_text(pilot.app, "header")


def test_a_terminal_that_is_too_small_gets_a_sentence_that_fits() -> None:
    """20x5 is one line of words after another, each at most 20 cells; 10x2 keeps the number."""
    document = too_small(Scene(), 20, 5)
    lines = [document.line(y).text for y in range(document.height)]
    assert len(lines) <= 5
    assert all(len(line) <= 20 for line in lines)
    assert "48x14" in " ".join(lines)
    assert too_small(Scene(), 10, 2).height <= 2
    assert too_small(Scene(), 1, 1).height <= 1


@pytest.mark.parametrize("size", [(40, 10), (20, 5)])
async def test_what_is_too_small_is_the_terminal_and_nothing_else_is_shown(size: tuple[int, int]) -> None:
    """At 40x10 and at 20x5 the true size and ctrl+q are named, and no pane stands below."""
    async with DebuggerApp(FullView()).run_test(size=size) as pilot:
        await settle(pilot)
        words = " ".join(screen_text(pilot.app).split())
        assert f"{size[0]}x{size[1]}" in words
        assert "ctrl+q" in words
        assert "Requests" not in words


async def test_a_storm_of_resizes_leaves_a_whole_screen() -> None:
    """Through 1x1, 20x5, 500x5, 48x14 and back: but for where panes were scrolled to, the screen is the same."""
    async with DebuggerApp(FullView(), start_round=61).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        before = screen_text(pilot.app)
        sizes = [(20, 5), (1, 1), (500, 5), (5, 200), (48, 14), (47, 14), (80, 24), (117, 13), (118, 20), (300, 100)]
        for width, height in sizes:
            await pilot.resize_terminal(width, height)
            await pilot.press("n", "p")
        await pilot.resize_terminal(120, 40)
        screen = await settle(pilot)
        for pane in screen.query(Pane):
            pane.scroll_to(y=0, animate=False, immediate=True)
        await settle(pilot)
        assert screen_text(pilot.app) == before


@pytest.mark.parametrize("size", [(20, 5), (47, 40), (200, 13)])
async def test_too_small_says_so_kindly_and_still_quits(size: tuple[int, int]) -> None:
    """The sentence is all there is, and ctrl+q leaves."""
    async with DebuggerApp(FullView()).run_test(size=size) as pilot:
        await settle(pilot)
        assert "48x14" in screen_text(pilot.app).replace("\n", " ")
        await pilot.press("ctrl+q")
        await pilot.pause()
        assert pilot.app._exit


async def test_other_screens_say_that_there_is_no_room_and_come_back() -> None:
    """At 40x10 findings, breakpoints and pages are that sentence alone; at 80x24 they are as before."""
    async with DebuggerApp(FullView(), start_round=61, desk=FakeDesk()).run_test(size=(80, 24)) as pilot:
        for key in ("f", "b", "m"):
            await press(pilot, key)
            await rest(pilot)
            before = screen_text(pilot.app)
            await pilot.resize_terminal(40, 10)
            await rest(pilot)
            lines = screen_text(pilot.app).split("\n")
            assert lines[0] == "This terminal is 40x10. tsviz needs"
            assert not any(lines[3:])
            await pilot.resize_terminal(80, 24)
            await rest(pilot)
            assert screen_text(pilot.app) == before
            await press(pilot, "escape")


async def test_a_hundred_thousand_requests_cost_what_is_visible() -> None:
    """A step, a selection and a jump to the end of the list draw at most the visible lines each, not 100,000."""
    many = tuple(RequestLine(f"r{i}", i, "waiting", 0, 10, 0, 5, 0, 1, False, 0) for i in range(100_000))
    view = StillView(replace(by_formula(HEAD, 61, 5), requests=many, selected=5))
    async with DebuggerApp(view, start_round=61).run_test(size=(120, 40)) as pilot:
        screen = await settle(pilot)
        pane = screen.query_one("#requests", Pane)
        assert pane.document.height == 100_001
        assert pane.virtual_size.height == 100_001
        visible = pane.size.height
        for key in ("n", "down", "pagedown"):
            pane.lines_drawn = 0
            await press(pilot, key)
            assert pane.lines_drawn <= 2 * visible
        screen.select(99_999, "r99999")
        pane.lines_drawn = 0
        await settle(pilot)
        assert pane.lines_drawn <= 2 * visible
        assert "r99999" in screen_text(pilot.app)


async def test_a_step_draws_only_the_lines_that_differ() -> None:
    """When a snapshot is the same but for its round, the list of requests draws no line again."""
    view = StillView(by_formula(HEAD, 61, 18))
    async with DebuggerApp(view, start_round=61).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        screen = await press(pilot, "t")
        for pane in screen.query(Pane):
            pane.lines_drawn = 0
        await press(pilot, "n")
        assert screen.query_one("#requests", Pane).lines_drawn == 0
        assert screen.query_one("#inspector", Pane).lines_drawn == 0
        assert screen.query_one("#header", Pane).lines_drawn > 0


async def test_without_colour_every_line_still_says_its_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR: not one colour is sent, and two states, two kinds of change, two bars differ as text."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with DebuggerApp(FullView(), start_round=40, request="r4").run_test(size=(200, 60)) as pilot:
        await settle(pilot)
        text = screen_text(pilot.app)
        for meaning in ("◐ prefilling", "● decoding", "↺ retracted", "○ waiting"):
            assert meaning in text
        await press(pilot, "home", "slash", *"r10", "enter")
        plain = [
            segment.style
            for strip in pilot.app.screen._compositor.render_strips(pilot.app.size)
            for segment in strip.apply_filter(pilot.app._filters[-1], pilot.app.screen.styles.background)
            if segment.style is not None
        ]
        assert plain
        assert {style.color.name for style in plain if style.color} <= {"default"}
        assert {style.bgcolor.name for style in plain if style.bgcolor} <= {"default"}


class Stream:
    """A stream that is, or is not, a terminal."""

    def __init__(self, terminal: bool) -> None:
        self.terminal = terminal

    def isatty(self) -> bool:
        """Say whether it is one."""
        return self.terminal


@pytest.mark.parametrize(
    ("stdin", "stderr", "term", "says"),
    [
        (False, True, "xterm", "stdin is not a terminal"),
        (True, False, "xterm", "stderr is not a terminal"),
        (True, True, "dumb", "TERM=dumb cannot move a cursor"),
    ],
)
def test_without_a_terminal_it_refuses_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, stdin: bool, stderr: bool, term: str, says: str
) -> None:
    """Nothing hangs in a pipe: the error names what is missing."""
    monkeypatch.setattr("sys.__stdin__", Stream(stdin))
    monkeypatch.setattr("sys.__stderr__", Stream(stderr))
    monkeypatch.setenv("TERM", term)
    with pytest.raises(NoTerminal, match=says):
        run(FullView())


def test_with_a_terminal_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends are terminals and TERM is one that can."""
    monkeypatch.setattr("sys.__stdin__", Stream(True))
    monkeypatch.setattr("sys.__stderr__", Stream(True))
    monkeypatch.setenv("TERM", "xterm-256color")
    require_terminal()
