"""SQL: the editor, what it offers, the result and what is done with it."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.tui.desks import COLUMNS, FakeDesk, rows
from tests.tui.fakes import FullView
from tests.tui.helpers import compare, compare_both, rest, screen_text
from tsviz.tui.app import DebuggerApp
from tsviz.tui.desk import TraceDesk
from tsviz.tui.grid import Columns, Grid, place_of
from tsviz.tui.queries import Query, Save, Saved, Total, Trouble
from tsviz.tui.screens.chart import ChartScreen
from tsviz.tui.screens.main import MainScreen
from tsviz.tui.screens.sql import SqlScreen

SIZES = {"80x24": (80, 24), "120x40": (120, 40)}
TRACE = str(Path(__file__).parents[2] / "traces" / "head-of-line")


def app_on(desk: FakeDesk) -> DebuggerApp:
    """Return the application on the formula's trace with a desk."""
    return DebuggerApp(FullView(), start_round=61, desk=desk)


async def opened(pilot: Pilot[None], *keys: str, text: str | None = None) -> SqlScreen:
    """Open SQL, wait for the language, set the text, press keys."""
    await rest(pilot)
    await pilot.press("q")
    screen = pilot.app.screen
    assert isinstance(screen, SqlScreen)
    until = time.monotonic() + 30
    while screen._editor.grammar is None and time.monotonic() < until:
        await pilot.pause(0.02)
    if text is not None:
        screen._editor.load_text(text)
        screen._editor.move_cursor(screen._editor.document.end)
        await pilot.pause()
        screen._close_list()
    for key in keys:
        await pilot.press(key)
        await rest(pilot)
    screen.state.took_s = 0.5
    screen.redraw()
    await pilot.pause()
    return screen


@pytest.mark.parametrize("size", SIZES)
async def test_a_result(size: str) -> None:
    """120 rows, the third one under the cursor, numbers at the right, a null as what it is."""
    async with app_on(FakeDesk()).run_test(size=SIZES[size]) as pilot:
        await opened(pilot, "f5", "tab", "down", "down", "right", text="SELECT * FROM waits -- all of them")
        compare(pilot.app, f"sql-{size}")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("none", (COLUMNS, Total(0, 0, True))),
        ("error", (Trouble("failed", 'Binder Error: column "rond" not found', (7, 4), ("round", "rounds")),)),
        ("cut", (COLUMNS, rows(100), Total(100, 2_000_000, False))),
    ],
)
async def test_other_states(name: str, answer: tuple[object, ...]) -> None:
    """No row; an error at its place with what was meant; the first of more rows than were counted."""
    desk = FakeDesk()
    desk.answer = answer
    async with app_on(desk).run_test(size=(80, 24)) as pilot:
        await opened(pilot, "f5", text="SELECT rond FROM rounds")
        await compare_both(pilot, f"sql-{name}")


async def test_an_error_is_shown_at_its_place() -> None:
    """The cursor stands at the fifth character of the second line, which is marked; typing clears the mark."""
    desk = FakeDesk()
    desk.answer = (Trouble("failed", "no", (11, 3)),)
    async with app_on(desk).run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, "f5", text="SELECT\n   abc")
        assert screen._editor.cursor_location == (1, 4)
        assert screen._editor.error == (11, 3)
        await pilot.press("x")
        await pilot.pause()
        assert screen._editor.error is None


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_a_query_is_stopped(key: str) -> None:
    """Either key ends the process; the screen stays, and escape leaves it then."""
    desk = FakeDesk()
    desk.gate, desk.stop_at = threading.Event(), 1
    async with app_on(desk).run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, "f5", text="FROM rounds")
        assert screen.state.running
        assert "◌ running" in screen_text(pilot.app)
        await pilot.press(key)
        await rest(pilot)
        assert any(stream.cancelled.is_set() for stream in desk.streams)
        assert not screen.state.running
        assert screen.message == "Stopped."
        await pilot.press("escape")
        await rest(pilot)
        assert isinstance(pilot.app.screen, MainScreen)


async def test_enter_on_a_row_jumps_to_its_round() -> None:
    """The third row has round 5."""
    desk = FakeDesk()
    async with app_on(desk).run_test(size=(120, 40)) as pilot:
        await rest(pilot)
        await pilot.press("q")
        await rest(pilot)
        for key in ("f5", "tab", "down", "down", "enter"):
            await pilot.press(key)
            await rest(pilot)
        main = pilot.app.screen
        assert isinstance(main, MainScreen)
        assert main.scene.round == 5


async def test_completion_is_offered_and_taken() -> None:
    """`FROM retr` offers `retractions`; down and up move, tab takes it; escape closes the list and stays."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, *"retr", text="FROM ")
        assert screen._completion is not None
        names = [entry.name for entry in screen._completion.entries]
        assert "retractions" in names
        assert "retractions" in screen_text(pilot.app)
        await pilot.press("down", "up", "escape")
        assert screen._completion is None
        await pilot.press("ctrl+@")
        await pilot.pause()
        assert screen._completion is not None
        screen._choice = [entry.name for entry in screen._completion.entries].index("retractions")
        await pilot.press("tab")
        await pilot.pause()
        assert screen._editor.text == "FROM retractions"
        assert screen._completion is None


async def test_what_is_typed_takes_the_place_of_the_example() -> None:
    """The example is selected; a query of one's own is not, and is typed on."""
    async with app_on(FakeDesk()).run_test(size=SIZES["120x40"]) as pilot:
        screen = await opened(pilot, "F", "R")
        assert screen._editor.text == "FR"
        await pilot.press("escape")
        await pilot.press("escape")
        screen = await opened(pilot, "O")
        assert screen._editor.text == "FRO"


async def test_enter_behind_a_semicolon_runs() -> None:
    """Elsewhere it begins a line."""
    desk = FakeDesk()
    async with app_on(desk).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "enter", text="FROM rounds")
        assert desk.queries == []
        screen._editor.load_text("FROM rounds;")
        screen._editor.move_cursor(screen._editor.document.end)
        await pilot.press("enter")
        await rest(pilot)
        assert desk.queries == [("FROM rounds;", 10_000)]


async def test_history_is_kept_in_the_state_folder(kept: Path) -> None:
    """Queries come back newest first, also in another session; one that is asked again stands once."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        for text in ("FROM a", "FROM b", "FROM a"):
            screen._editor.load_text(text)
            await pilot.press("f5")
            await rest(pilot)
    assert json.loads((kept / "state" / "queries.json").read_text()) == ["FROM b", "FROM a"]
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "ctrl+up", "ctrl+up")
        assert screen._editor.text == "FROM b"
        await pilot.press("ctrl+up")
        assert screen.message == "There is no older query."
        await pilot.press("ctrl+down")
        assert screen._editor.text == "FROM a"


async def test_a_damaged_history_is_told_and_left_alone(kept: Path) -> None:
    """It is not read and not written over."""
    path = kept / "state" / "queries.json"
    path.parent.mkdir()
    path.write_text("{")
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        assert "not read and not kept" in screen.message
        await pilot.press("f5")
        await rest(pilot)
        assert "not read and not kept" in screen.message
    assert path.read_text() == "{"


async def test_more_rows_are_asked_for() -> None:
    """M asks for ten times as many; where all are there it says so."""
    desk = FakeDesk()
    desk.answer = (COLUMNS, rows(100), Total(100, 2_000_000, False))
    async with app_on(desk).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "f5", "tab", "M", text="FROM x")
        assert desk.queries == [("FROM x", 10_000), ("FROM x", 100_000)]
        desk.answer = (COLUMNS, rows(100), Total(100, 100, True))
        await pilot.press("M")
        await rest(pilot)
        await pilot.press("M")
        assert screen.message == "All rows are here."


async def test_the_chart_of_a_column() -> None:
    """`round` is the axis, `wait_ms` is drawn; the mark has a value and a round to jump to."""
    async with app_on(FakeDesk()).run_test(size=(80, 24)) as pilot:
        await opened(pilot, "f5", "tab", "c", text="FROM x")
        chart = pilot.app.screen
        assert isinstance(chart, ChartScreen)
        await pilot.press("end")
        await rest(pilot)
        await compare_both(pilot, "chart")
        await pilot.press("x", "x", "x")
        await rest(pilot)
        await compare_both(pilot, "chart-bars")
        await pilot.press("end", "enter")
        await rest(pilot)
        main = pilot.app.screen
        assert isinstance(main, MainScreen)
        assert main.scene.round == 239


async def test_writing_to_a_file() -> None:
    """w asks for a name; what was written is said."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        await opened(pilot, "f5", "tab", "w", text="FROM x")
        pilot.app.screen.query_one(Input).value = "/tmp/none/waits.parquet"
        await pilot.press("enter")
        await rest(pilot)
        assert "✓ 120 rows written to /tmp/none/waits.parquet" in screen_text(pilot.app)


async def test_columns_scroll() -> None:
    """At 48 columns the last one, of 48 cells, comes wholly into sight when it is chosen."""
    async with app_on(FakeDesk()).run_test(size=(48, 24)) as pilot:
        screen = await opened(pilot, "f5", "tab", text="FROM x")
        assert screen._first == 0
        for key in ("right", "right", "right"):
            await pilot.press(key)
        await rest(pilot)
        assert "note" in screen_text(pilot.app)
        assert screen._first > 0
        await pilot.press("y")
        assert screen.message.startswith("Copied")


async def test_the_mouse_in_the_result() -> None:
    """One click chooses a row, another one jumps."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "f5", text="FROM x")
        await pilot.click("#sql-rows", offset=(5, 6))
        await rest(pilot)
        assert screen.cursor == 6
        await pilot.click("#sql-rows", offset=(5, 6))
        await rest(pilot)
        main = pilot.app.screen
        assert isinstance(main, MainScreen)
        assert main.scene.round == 13


def test_places_of_rows() -> None:
    """`round` first, else a column that ends so; node and rank make a part; without a round there is no place."""
    import pyarrow as pa

    def grid(**values: object) -> Grid:
        batch = pa.record_batch({name: [value] for name, value in values.items()})
        made = Grid(Columns(tuple(batch.schema.names), tuple(str(f.type) for f in batch.schema)))
        made.add(batch)
        return made

    place = place_of(grid(node="P", rank=1, first_round=7, round=9, request="r1", submission=3), 0)
    assert place is not None
    assert (place.round, place.part, place.request, place.submission) == (9, "P/1", "r1", 3)
    place = place_of(grid(since_round=7, end_round=None), 0)
    assert place is not None
    assert place.round == 7
    assert place_of(grid(request="r1", rounds=3), 0) is None


def test_a_query_runs_in_the_locked_process() -> None:
    """Round 8 of head-of-line; a write is refused; a cancelled query says that it was stopped."""
    answers = list(Query((TRACE,), "SELECT round FROM rounds WHERE round = 8", 10))
    assert answers[0] == Columns(("round",), ("int32",)) or isinstance(answers[0], Columns)
    assert answers[-1] == Total(1, 1, True)
    refused = list(Query((TRACE,), "DROP VIEW rounds", 10))
    assert isinstance(refused[0], Trouble)
    assert refused[0].kind == "refused"
    query = Query((TRACE,), "SELECT count(*) FROM range(1000000000) a, range(1000000) b", 10)
    threading.Timer(1.5, query.cancel).start()
    stopped = list(query)
    assert isinstance(stopped[-1], Trouble)
    assert stopped[-1].kind == "cancelled"


@pytest.mark.parametrize(
    ("name", "first"), [("r.csv", b"round,request\n"), ("r.jsonl", b'{"round":'), ("r.parquet", b"PAR1")]
)
def test_a_result_is_written_whole_and_over_nothing(tmp_path: Path, name: str, first: bytes) -> None:
    """The ending names the format; a file that is there stays as it is; an unknown ending is told."""
    sql = "SELECT round, request FROM operations"
    path = tmp_path / name
    answers = list(Save((TRACE,), sql, path))
    assert isinstance(answers[-1], Saved)
    assert path.read_bytes().startswith(first)
    again = list(Save((TRACE,), sql, path))
    assert isinstance(again[-1], Trouble)
    assert "exists" in again[-1].message
    unknown = list(Save((TRACE,), sql, tmp_path / "r.xlsx"))
    assert isinstance(unknown[-1], Trouble)
    assert ".csv" in unknown[-1].message
    failed = list(Save((TRACE,), "SELECT nothing", tmp_path / "s.csv"))
    assert isinstance(failed[-1], Trouble)
    assert not (tmp_path / "s.csv").exists()


def test_the_real_desk_offers_all_of_it() -> None:
    """Nothing runs before a stream is read."""
    desk = TraceDesk(TRACE, "F", 0)
    for stream in (desk.findings(derive=False), desk.lost_time(derive=False), desk.query("x", 1), desk.language(),
                   desk.save("x", Path("y"))):  # fmt: skip
        stream.cancel()
