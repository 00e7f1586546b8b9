"""`--follow` and `tsviz.follow`: what is new, row by row, until the recording ends."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

import tsviz
from tests.cli.conftest import Tsviz
from tests.trace.recording_process import recorded
from tests.trace.test_followers import step
from tsviz.cli.following import Novelty
from tsviz.cli.output import Format
from tsviz.replay.growth import growth
from tsviz.trace import writer
from tsviz.trace.writer import BundleWriter

TRACES = Path(__file__).resolve().parents[2] / "traces"


class Live:
    """A recording that grows by some rounds whenever somebody waits, and is closed then."""

    def __init__(self, real: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writer, "FLUSH_SECONDS", 0.0)
        monkeypatch.setattr(writer, "TAKE_SECONDS", 3600.0)  # the test takes, at moments that it chooses
        self.path, self.steps = path, [18, 12]
        self._writer = BundleWriter(path, meta={})
        self._module, self._scheduler = recorded(real, self._writer)
        self.grow(12)

    def grow(self, rounds: int) -> None:
        """Make so many rounds and commit them."""
        for _ in range(rounds // 6):
            step(self._module, self._scheduler)
        self._writer._take_all()

    def wait(self, _seconds: float) -> None:
        """Grow, or close."""
        if self.steps:
            self.grow(self.steps.pop(0))
        else:
            self._writer.close({"error": None})


@pytest.fixture
def live(real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    """A recording of twelve rounds so far."""
    return Live(real, tmp_path / "live", monkeypatch)


def test_a_recording_is_yielded_whenever_more_is_committed_and_at_its_end(live: Live) -> None:
    """12, 30, 42 rounds, then ended; what was yielded before stays as it was."""
    seen = []
    for now in growth(live.path, wait=live.wait):
        seen.append(now)
        assert now.bundle.parts[0].rows("rounds") == now.rounds
    assert [(now.rounds, now.ended) for now in seen] == [(12, False), (30, False), (42, False), (42, True)]
    assert [now.bundle.parts[0].table("rounds").num_rows for now in seen] == [12, 30, 42, 42]


def test_traces_of_a_recording_that_grows_take_sql(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tsviz.follow` yields a Trace each time."""
    monkeypatch.setitem(growth.__kwdefaults__, "wait", live.wait)
    counts = [trace.sql("SELECT count(*) AS n FROM rounds")["n"][0].as_py() for trace in tsviz.follow(live.path)]
    assert counts == [12, 30, 42, 42]


def test_sql_follows_a_recording_row_by_row(live: Live, tsviz: Tsviz, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is written once, with one heading, and the end is told on standard error."""
    monkeypatch.setitem(growth.__kwdefaults__, "wait", live.wait)
    ended = tsviz("sql", live.path, "--follow", "--format", "csv", "SELECT round FROM rounds WHERE round % 10 = 0")
    assert (ended.code, ended.out.split()) == (0, ["round", "10", "20", "30", "40"])
    assert "N/0: finished, 42 rounds" in ended.err


def test_a_recording_without_a_part_is_waited_for(
    real: ModuleType, tsviz: Tsviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is recorded yet: 3 and these words without `--follow`; with it the rounds that come are yielded."""
    path = tmp_path / "live"
    begun = BundleWriter(path, meta={})
    for command in (["info", path], ["findings", path], ["sql", path, "SELECT 1"]):
        ended = tsviz(*command)
        said = f"error: {path}: nothing is recorded yet: no scheduler was made so far; its recorder lives"
        assert (ended.code, ended.err.splitlines()) == (3, [said])
    waited: list[float] = []
    told: list[str] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        module, scheduler = recorded(real, begun)
        step(module, scheduler)
        begun.close({"error": None})

    assert [(now.rounds, now.ended) for now in growth(path, wait=wait, waits=told.append)] == [(6, True)]
    assert len(waited) == 1
    assert told == [f"{path}: nothing is recorded yet: no scheduler was made so far; its recorder lives"]


def test_findings_of_a_trace_that_has_ended_are_told_once(tsviz: Tsviz) -> None:
    """The live-lock that ships, in one row; `--fail-on` ends with 1 as it does without --follow."""
    trace = TRACES / "mixed-undeclared-livelock"
    ended = tsviz("findings", trace, "--follow", "--format", "jsonl", "--fail-on", "livelock")
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 1
    assert [row["at"] for row in rows if row["finding"] == "livelock"] == ["F/0:2522"]


def test_what_cannot_be_followed_is_said(tsviz: Tsviz) -> None:
    """Two traces, and a format that ends with its last row."""
    trace = TRACES / "mixed-stall"
    assert "expected --format" in tsviz("sql", trace, "--follow", "--format", "json", "SELECT 1").err
    two = tsviz("sql", trace, trace, "--follow", "SELECT 1")
    assert (two.code, two.err.splitlines()[0]) == (2, "error: --follow follows one trace, found 2")


def test_a_row_that_is_there_more_often_is_new_so_often() -> None:
    """Counted as rows: `a` twice, then three times, is one new row; an answer that shrank tells nothing."""
    out = io.BytesIO()
    novelty = Novelty(Format.CSV, out, None)
    for values, new in ((["a", "a"], 2), (["a", "b", "a", "a"], 2), (["a"], 0), ([], 0)):
        assert novelty.write(pa.table({"x": pa.array(values, pa.string())})) == new
    assert out.getvalue().decode().split() == ["x", "a", "a", "b", "a"]


def test_the_heading_comes_first_where_no_row_is_there_yet() -> None:
    """Nothing, then one row: the heading once, then the row."""
    out = io.BytesIO()
    novelty = Novelty(Format.CSV, out, None)
    for values, new in (([], 0), ([7], 1)):
        assert novelty.write(pa.table({"x": pa.array(values, pa.int32())})) == new
    assert out.getvalue().decode().split() == ["x", "7"]
