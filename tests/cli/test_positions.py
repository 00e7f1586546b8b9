"""A trace with a position, as it is pasted from one command into another."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tsviz.cli.traces import Place, parse_place
from tsviz.query.problem import QueryError
from tsviz.query.source import Bundle
from tsviz.query.worker import _opened

from .conftest import Tsviz

TRACES = Path(__file__).resolve().parents[2] / "traces"
PAIR = TRACES / "prefill-decode-pair"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))


_ASKED = (
    ("sql", "{}", "SELECT node, count(*) AS n FROM rounds GROUP BY ALL ORDER BY ALL", "--format", "csv"),
    ("hits", "{}", "rounds.round = 12", "--format", "csv"),
    ("export", "{}", "--csv", "OUT", "--table", "rounds", "--format", "csv"),
)


def _asked(words: tuple[str, ...], trace: str, out: Path) -> list[str]:
    return [trace if word == "{}" else str(out) if word == "OUT" else word for word in words]


@pytest.mark.parametrize("words", _ASKED, ids=[words[0] for words in _ASKED])
def test_a_part_narrows_and_a_round_is_refused(tsviz: Tsviz, tmp_path: Path, words: tuple[str, ...]) -> None:
    """`TRACE@D/0` answers of D alone, in a folder too; a round behind a trace is refused with what narrows to it."""
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "pair").symlink_to(PAIR)
    for number, trace in enumerate((f"{PAIR}@D/0", f"{folder}@D/0")):
        ended = tsviz(*_asked(words, trace, tmp_path / f"out{number}"))
        assert ended.code == 0, ended.err
        told = ended.out if words[0] != "export" else (tmp_path / f"out{number}" / "rounds.csv").read_text()
        assert ",D," in told.replace("\nD,", "\n,D,") and ",P," not in told.replace("\nP,", "\n,P,")
    refused = tsviz(*_asked(words, f"{PAIR}@P/0:12.3", tmp_path / "none"))
    assert refused.code == 2 and refused.out == ""
    assert "expected TRACE or TRACE@NODE/RANK, found round 'P/0:12.3'" in refused.err
    assert "TRACE@P/0 without the round asks all of it" in refused.err and "12" in refused.err.rpartition(";")[2]
    wrong = tsviz(*_asked(words, f"{PAIR}@D/7", tmp_path / "none"))
    assert wrong.code == 3 and "no part D/7; there are P/0, D/0" in wrong.err


def test_a_damaged_bundle_of_a_folder_is_left_out_of_an_export(tsviz: Tsviz, tmp_path: Path) -> None:
    """The others are exported, the damaged one is named with the reason, code 3; named itself it is an error."""
    folder = tmp_path / "runs"
    shutil.copytree(PAIR.parent / "mixed-stall", folder / "bad")
    (folder / "good").symlink_to(PAIR)
    table = next((folder / "bad").rglob("rounds.parquet"))
    table.write_bytes(table.read_bytes()[:-20] + b"x" * 20)
    ended = tsviz("export", str(folder), "--csv", str(tmp_path / "out"), "--table", "rounds", "--format", "csv")
    assert ended.code == 3 and "warning: left out: " in ended.err and "bad/parts" in ended.err
    rows = (tmp_path / "out" / "rounds.csv").read_text().splitlines()
    assert {row.split(",")[0] for row in rows} == {"trace", PAIR.name}
    named = tsviz("export", str(folder / "bad"), "--csv", str(tmp_path / "none"), "--table", "rounds")
    assert named.code == 3 and not (tmp_path / "none").exists()


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


def test_a_round_beyond_the_end_is_refused(tsviz: Tsviz, tmp_path: Path) -> None:
    """`info` names the rounds there are, and `slice` does so for a number of any length."""
    ended = tsviz("info", f"{PAIR}@99999")
    assert ended.code == 2 and ": rounds are 1 to " in ended.err
    ended = tsviz("slice", PAIR, "5:99999999999999999999", "--out", tmp_path / "out")
    assert ended.code == 2 and "expected rounds A:B with 1 <= A <= B <= " in ended.err


def test_a_query_is_a_plain_file_of_a_size_or_words(tsviz: Tsviz, tmp_path: Path) -> None:
    """A device, a file beyond 4 MiB and an empty query are mistakes in the call."""
    long = tmp_path / "long.sql"
    long.write_bytes(b" " * ((4 << 20) + 1))
    for words, said in (
        (("--file", "/dev/zero"), "/dev/zero: expected a plain file"),
        (("--file", long), "expected a query of at most 4,194,304 bytes"),
        (("",), "the query is empty"),
    ):
        ended = tsviz("sql", PAIR, *words)
        assert (ended.code, ended.out) == (2, "") and said in ended.err, ended


def test_a_table_that_may_not_be_read_is_named_as_by_other_commands() -> None:
    """An error of the system while a trace is opened is its file and its reason, without a number."""

    def opener(_: str) -> Bundle:
        raise PermissionError(13, "Permission denied", "/trace/rounds.parquet")

    with pytest.raises(QueryError) as caught:
        _opened(opener, "/trace")
    assert caught.value.problem.message == "/trace/rounds.parquet: Permission denied"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("hits", TRACES / "mixed-stall", "rounds.round > 0", "--from", "99"), "no round 99 for --from"),
        (("sql", TRACES / "mixed-stall", "FROM waiting(99)"), "no round 99 for waiting"),
    ],
)
def test_a_round_behind_the_end_is_told_with_the_rounds_that_are_there(
    tsviz: Tsviz, command: tuple[Any, ...], told: str
) -> None:
    """The trace has five rounds: nothing is so in round 99, and standard error says which rounds there are."""
    ended = tsviz(*command)
    assert ended.code == 0
    assert f"{told}: {TRACES / 'mixed-stall'} F/0 has rounds 1 to 5" in ended.err
    assert len(ended.out.splitlines()) == 1  # the names of the columns


def test_a_round_that_is_there_is_not_told_of(tsviz: Tsviz) -> None:
    """Neither a round of the trace nor one that is worked out draws a note."""
    query = "SELECT 'waiting(99)' FROM waiting(5), waiting(2 + 97)"
    assert "no round" not in tsviz("sql", TRACES / "mixed-stall", query).err
