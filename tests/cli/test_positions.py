"""A trace with a position, as it is pasted from one command into another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsviz.cli.traces import Place, parse_place

from .conftest import Tsviz

PAIR = Path(__file__).resolve().parents[2] / "traces" / "prefill-decode-pair"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("position", ["P/0:12.3", "12", "D/0"])
def test_commands_about_whole_traces_pass_a_position_over(tsviz: Tsviz, tmp_path: Path, position: str) -> None:
    """`sql`, `hits` and `export` answer as without the position, and say on standard error that they pass it over."""
    said = f"{PAIR}: the whole trace is read; the position {position} is passed over"
    for index, words in enumerate(
        (
            ["sql", "{}", "SELECT node, count(*) AS n FROM rounds GROUP BY ALL ORDER BY ALL", "--format", "csv"],
            ["hits", "{}", "rounds.round = 12", "--format", "csv"],
            ["export", "{}", "--csv", "OUT", "--table", "rounds", "--format", "csv"],
        )
    ):
        ended = []
        for side, trace in enumerate((str(PAIR), f"{PAIR}@{position}")):
            out = str(tmp_path / f"{index}{side}")
            ended.append(tsviz(*(trace if word == "{}" else out if word == "OUT" else word for word in words)))
            assert ended[-1].code == 0, ended[-1].err
        without, pasted = ended
        assert pasted.out.replace(f"{index}1", f"{index}0") == without.out
        assert said in pasted.err
        assert said not in without.err


def test_a_part_is_a_position(tsviz: Tsviz) -> None:
    """`TRACE@D/0` means the part without a round, and `index` derives that part alone."""
    assert parse_place(f"{PAIR}@D/0") == Place(PAIR, "D", 0)
    ended = tsviz("index", f"{PAIR}@D/0", "--format", "json")
    assert ended.code == 0, ended.err
    assert [row["part"] for row in ended.json()] == ["D/0"]


def test_what_is_no_position_is_named(tsviz: Tsviz) -> None:
    """What stands behind the @ and is no position is named, with what was expected."""
    ended = tsviz("info", f"{PAIR}@D")
    assert ended.code == 2
    assert "expected TRACE@[NODE/RANK:]ROUND[.STOP] or TRACE@NODE/RANK, found 'D' behind the @" in ended.err
