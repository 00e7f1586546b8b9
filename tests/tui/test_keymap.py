"""Keys that the user chose, and that every binding can be chosen and is explained."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.binding import Binding

from tests.tui.desks import FakeDesk
from tests.tui.fakes import FullView
from tests.tui.helpers import main_screen, pane_text, press, rest, screen_text
from tsviz.tui.app import DebuggerApp
from tsviz.tui.keymap import PROBLEM, chosen_keys, keymap_of, screens
from tsviz.tui.screens.pages import PagesScreen


def test_every_binding_of_every_screen_has_an_id_and_help() -> None:
    """A sentence that begins with a capital letter, an id of its own, and no key twice in a screen."""
    from tsviz.tui import keymap

    ours = screens()
    assert len(ours) == 12
    ids = [name for bindings in ours.values() for name in bindings]
    assert len(ids) == len(set(ids))
    for name, bindings in ours.items():
        assert list(keymap._clashes(bindings)) == [], name


def test_every_binding_has_help_text() -> None:
    """Nothing is bound that help does not explain: description and tooltip, on every screen."""
    from tsviz.tui.screens import (
        ask_line,
        chart,
        compare,
        findings,
        goto,
        lost,
        main,
        notes,
        pages,
        sheet,
        sql,
        watches,
    )

    screens_of = (
        main.MainScreen, findings.FindingsScreen, lost.LostScreen, sql.SqlScreen, chart.ChartScreen,
        watches.WatchesScreen, notes.NotesScreen, pages.PagesScreen, compare.CompareScreen, sheet.Sheet, goto.GoTo,
        ask_line.AskLine,
    )  # fmt: skip
    for screen in screens_of:
        for binding in screen.BINDINGS:
            assert isinstance(binding, Binding)
            assert binding.id, binding
            assert binding.tooltip, binding
            assert binding.tooltip[0].isupper(), binding


def test_unknown_ids_are_told_with_what_was_meant() -> None:
    """`round.nxt` is none; a value that is no key is told."""
    chosen = keymap_of({"round.nxt": "x", "round.back": "", "round.first": "x,"})
    assert chosen.keys == {}
    assert chosen.problems == (
        "there is no 'round.nxt', did you mean 'round.next'?",
        "round.back: expected keys such as 'x' or 'ctrl+n,f7'",
        "round.first: expected keys such as 'x' or 'ctrl+n,f7'",
    )


def test_a_clash_is_told_and_ours_stays() -> None:
    """`f` opens the findings; two wishes for one key end with the first."""
    chosen = keymap_of({"round.next": "f"})
    assert chosen.keys == {}
    assert "f is" in chosen.problems[0]
    assert "findings" in chosen.problems[0]
    assert "round.next keeps 'n,right'" in chosen.problems[0]
    swapped = keymap_of({"round.next": "p", "round.back": "n"})
    assert swapped.keys == {"round.next": "p", "round.back": "n"}
    assert swapped.problems == ()


def test_the_file_is_read(kept: Path) -> None:
    """None is no choice; a damaged one is told."""
    assert chosen_keys() == {}
    path = kept / "config" / "keys.toml"
    path.parent.mkdir()
    path.write_text('[keys]\n"round.next" = "ctrl+n"\n"findings.jump" = "g"\n')
    assert chosen_keys() == {"round.next": "ctrl+n", "findings.jump": "g"}
    path.write_text("[keys")
    assert PROBLEM in chosen_keys()
    path.write_text("keys = 3")
    assert "expected a table" in chosen_keys()[PROBLEM]


async def test_chosen_keys_hold_on_every_screen() -> None:
    """ctrl+n steps; in the findings g jumps, and its last line says so; what is wrong is said at the start."""
    keymap = {"round.next": "ctrl+n", "findings.jump": "g", "nonsense": "y", "pages.round.next": "ctrl+n"}
    app = DebuggerApp(FullView(), start_round=61, desk=FakeDesk(), keymap=keymap)
    async with app.run_test(size=(120, 40)) as pilot:
        await rest(pilot)
        assert "there is no 'nonsense'" in pane_text(app, "bottom")
        await press(pilot, "ctrl+n")
        assert main_screen(app).scene.round == 62
        await pilot.press("f", "down", "g")
        await rest(pilot)
        assert main_screen(app).scene.round == 290
        await pilot.press("m", "n", "ctrl+n")
        await rest(pilot)
        assert isinstance(app.screen, PagesScreen)
        assert app.screen.scene.round == 291
        assert "ctrl+n next" in screen_text(app)


@pytest.mark.parametrize(
    ("typed", "round_", "says"),
    [("#2", 290, "stall"), ("#9", 61, "there are 3 findings"), ("2.5s", 61, "the times of this view are not known")],
)
async def test_go_to_findings_and_moments(typed: str, round_: int, says: str) -> None:
    """#2 is the stall from round 290 on."""
    from textual.widgets import Input

    app = DebuggerApp(FullView(), start_round=61, desk=FakeDesk())
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "f", "escape", "g")
        app.screen.query_one(Input).value = typed
        await pilot.press("enter")
        await rest(pilot)
        assert main_screen(app).scene.round == round_
        assert says in pane_text(app, "bottom")
