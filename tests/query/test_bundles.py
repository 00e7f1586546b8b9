"""Real bundles in one query: hot and cold, decisions recorded and derived, through the process that answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.trace.lives import record
from tsviz.cli.record import command as record_command
from tsviz.cli.sql import command as sql_command
from tsviz.query.catalog import Catalog
from tsviz.query.locked import Locked
from tsviz.query.paths import bundles_of
from tsviz.replay.reexecution.index import build_index, open_indexed
from tsviz.scheduler import compat
from tsviz.trace.catalogue import TABLES
from tsviz.trace.decided import DECIDED
from tsviz.trace.reader import open_bundle

WORKLOAD = Path(__file__).resolve().parents[2] / "traces" / "workloads" / "retract-and-grant.jsonl"


def _difference(locked: Locked, name: str, one: str, other: str) -> int:
    side = f"SELECT * EXCLUDE (trace) FROM {name} WHERE trace = '{{}}'"
    sql = f"({side.format(one)} EXCEPT ALL {side.format(other)})"
    return locked.query(f"SELECT count(*) AS n FROM {sql}")[0].to_pylist()[0]["n"]


def test_hot_and_cold_parts_are_one_relation(tmp_path: Path) -> None:
    """The same life, finished and compacted, and still in its hot tables, has the same rows in one query."""
    for name in ("cold", "hot"):
        record(compat, tmp_path / "runs" / name, 7, compacted=name == "cold")
    locked = Locked(Catalog([open_indexed(path) for path in bundles_of([str(tmp_path / "runs")])]))
    counts = locked.query("SELECT trace, count(*) AS n FROM operations GROUP BY trace ORDER BY trace")[0].to_pylist()
    assert [row["trace"] for row in counts] == ["cold", "hot"]
    assert counts[0]["n"] > 0
    for name in TABLES:
        if name not in ("rounds", "calls"):  # the durations of calls are measured
            assert _difference(locked, name, "cold", "hot") == _difference(locked, name, "hot", "cold") == 0, name


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One run of the twin, recorded with its decisions, and without, of which they are derived."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "runs"
    folder.mkdir()
    for level in ("decisions", "plans"):
        arguments = ["--workload", f"plain:{WORKLOAD}", "--pages", "65", "--scheduler", "twin", "--level", level]
        ended = CliRunner().invoke(record_command, [*arguments, "--out", str(folder / level)])
        assert ended.exit_code == 0, ended.output
    build_index(open_bundle(folder / "plans").part())
    return folder


def test_derived_rows_are_recorded_rows(pair: Path) -> None:
    """Decided tables of an index have the rows that the scheduler told while it ran, and parts say which is which."""
    locked = Locked(Catalog([open_indexed(path) for path in bundles_of([str(pair)])]))
    parts = locked.query("SELECT trace, decisions, decided_round = last_round AS whole FROM parts ORDER BY trace")[0]
    assert [tuple(row.values()) for row in parts.to_pylist()] == [
        ("decisions", "recorded", True),
        ("plans", "derived", True),
    ]
    assert locked.query("FROM verdicts")[0].num_rows > 100
    for name in (*DECIDED, "verdict_runs", "lost_time"):
        both = (_difference(locked, name, "decisions", "plans"), _difference(locked, name, "plans", "decisions"))
        assert both == (0, 0), name


def test_the_command_takes_a_folder_or_a_pattern(pair: Path) -> None:
    """`tsviz sql` asks all bundles of a folder at once, with the decisions of the index, in its own process."""
    sql = "SELECT trace, count(*) AS n FROM verdicts GROUP BY trace ORDER BY trace"
    for argument in (pair, pair / "*"):
        ended = CliRunner().invoke(sql_command, [str(argument), sql, "--format", "json"])
        assert ended.exit_code == 0, ended.output
        rows = json.loads(ended.stdout)
        assert [row["trace"] for row in rows] == ["decisions", "plans"]
        assert rows[0]["n"] == rows[1]["n"] > 50


def test_a_damaged_index_is_dropped(pair: Path) -> None:
    """A trace whose index is damaged is asked without it, and the index can be built again."""
    for file in (pair.parent / "cache").rglob("verdicts.parquet"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0xFF
        file.write_bytes(content)
    assert not hasattr(open_indexed(pair / "plans").parts[0], "derived_round")
    build_index(open_bundle(pair / "plans").part())
    assert hasattr(open_indexed(pair / "plans").parts[0], "derived_round")
