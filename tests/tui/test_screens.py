"""Whole screens as text. Look at a new one before keeping it: TSVIZ_UPDATE_SCREENS=1."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from tests.tui.fakes import HEAD, FakeView, FullView
from tests.tui.helpers import compare, compare_both, press, screen_text, settle
from tsviz.tui.app import DebuggerApp

SIZES = {"80x24": (80, 24), "120x40": (120, 40), "200x60": (200, 60)}


@pytest.mark.parametrize("size", SIZES)
async def test_the_main_screen(size: str) -> None:
    """Round 64: prefills and decodes, a request that completes its prompt, transfers, a full pool."""
    async with DebuggerApp(FullView(), start_round=64).run_test(size=SIZES[size]) as pilot:
        await settle(pilot)
        await press(pilot, "t", "1")
        compare(pilot.app, f"main-{size}")


@pytest.mark.parametrize("pane", ["round", "inspector"])
async def test_tabs(pane: str) -> None:
    """At 80x24 each pane is a tab."""
    async with DebuggerApp(FullView(), start_round=64).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "2" if pane == "round" else "t")
        compare(pilot.app, f"tab-{pane}-80x24")


@pytest.mark.parametrize(("key", "name"), [("question_mark", "help"), ("l", "legend")])
async def test_sheets(key: str, name: str) -> None:
    """Help and legend over the main screen."""
    async with DebuggerApp(FullView(), start_round=64).run_test(size=(120, 60)) as pilot:
        await settle(pilot)
        await pilot.press(key)
        await pilot.pause()
        compare(pilot.app, f"{name}-120x60")


@pytest.mark.parametrize("size", ["80x24", "120x40"])
async def test_an_empty_trace(size: str) -> None:
    """0 rounds."""
    async with DebuggerApp(FakeView(replace(HEAD, rounds=0, requests=0))).run_test(size=SIZES[size]) as pilot:
        await settle(pilot)
        compare(pilot.app, f"empty-{size}")


@pytest.mark.parametrize("size", ["80x24", "120x40"])
async def test_an_unreadable_first_round(size: str) -> None:
    """The view raised before anything was shown."""
    view = FullView()
    view.broken[1] = OSError("rounds, segment 3, byte 4096: crc 0x1234, expected 0x5678")
    async with DebuggerApp(view).run_test(size=SIZES[size]) as pilot:
        await settle(pilot)
        compare(pilot.app, f"error-{size}")


async def test_a_view_that_offers_nothing_more() -> None:
    """Without `pool_history` the pool strip is left out."""
    async with DebuggerApp(FakeView(), start_round=64).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "t", "1")
        await compare_both(pilot, "bare", "120x40", "80x24")


@pytest.mark.parametrize("size", [(20, 5), (10, 2)])
async def test_too_small(size: tuple[int, int]) -> None:
    """A kind sentence."""
    async with DebuggerApp(FullView()).run_test(size=size) as pilot:
        await settle(pilot)
        compare(pilot.app, f"small-{size[0]}x{size[1]}")


@pytest.mark.parametrize("key", ["question_mark", "l", "g", "ctrl+p"])
async def test_nothing_lies_over_the_sentence_of_a_terminal_that_is_too_small(key: str) -> None:
    """Of help, legend, go to and palette nothing is seen below 48x14; made larger they are back."""
    async with DebuggerApp(FullView()).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, key)
        box = pilot.app.screen.children[0]
        assert pilot.app.screen_stack[1:] and box.display
        await pilot.resize_terminal(47, 24)
        await settle(pilot)
        assert all(not child.display for child in pilot.app.screen.children)
        assert "make it larger" in " ".join(screen_text(pilot.app).split())
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        assert box.display


def test_importing_the_screen_imports_no_catalog() -> None:
    """`tsviz.tui.app` loads neither DuckDB nor Arrow nor torch nor plotly nor numpy."""
    unwanted = ("duckdb", "pyarrow", "torch", "plotly", "numpy")
    code = f"import sys, tsviz.tui.app; print([m for m in {unwanted} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
