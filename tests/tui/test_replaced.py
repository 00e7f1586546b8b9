"""A trace that is replaced while it is open."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.tui.helpers import press, rest
from tsviz.replay.identity import Replaced, identity
from tsviz.replay.survey.ask import Failed, Plan
from tsviz.trace.reader import open_bundle
from tsviz.tui.app import DebuggerApp
from tsviz.tui.desk import TraceDesk
from tsviz.tui.queries import Total, Trouble

TRACES = Path(__file__).parents[2] / "traces"
WORDS = "the trace was replaced while it was open: open it again"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TraceDesk:
    """Return the desk of a copy of `head-of-line`, as `tsviz open` makes it."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    shutil.copytree(TRACES / "head-of-line", tmp_path / "trace")
    bundle = open_bundle(tmp_path / "trace")
    part = bundle.parts[0]
    return TraceDesk(str(tmp_path / "trace"), part.node, part.rank, identity(bundle, part))


def replace(desk: TraceDesk) -> None:
    """Put another trace in its place."""
    shutil.rmtree(desk.trace)
    shutil.copytree(TRACES / "retract-and-grant", desk.trace)


def test_a_trace_that_is_still_there_answers(desk: TraceDesk) -> None:
    """Findings begin with their plan, and a query ends with its total of one row."""
    assert isinstance(next(iter(desk.findings(derive=False))), Plan)
    assert list(desk.query("select 1", 10))[-1] == Total(1, 1, True)
    assert desk.view().head.rounds == 55


def test_another_trace_at_its_path_answers_nothing(desk: TraceDesk) -> None:
    """Findings, lost time, hits, comparison, queries and a new view are all refused, and say what to do."""
    replace(desk)
    streams = [desk.findings(derive=False), desk.lost_time(derive=False), desk.hits("pool.free < 4")]
    streams.append(desk.compare(str(TRACES / "head-of-line")))
    for stream in streams:
        (answer,) = list(stream)
        assert isinstance(answer, Failed)
        assert WORDS in answer.error
    (trouble,) = list(desk.query("select 1", 10))
    assert isinstance(trouble, Trouble)
    assert trouble.message.startswith(WORDS)
    with pytest.raises(Replaced, match=WORDS):
        desk.view()


async def test_reading_again_says_that_it_was_replaced(desk: TraceDesk) -> None:
    """`r` opens the trace anew: the last line says that another one is there, and the one that was opened stays."""
    view = desk.view()
    replace(desk)
    async with DebuggerApp(view, start_round=7, desk=desk).run_test(size=(120, 40)) as pilot:
        await rest(pilot)
        screen = await press(pilot, "r")
        await rest(pilot)
        assert WORDS in screen.scene.message
        assert (screen.scene.round, screen.scene.rounds) == (7, 55)
