"""`tsviz export` on the shipped traces."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from .conftest import Tsviz

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "traces"


def test_a_dataset_has_what_sql_has(tsviz: Tsviz, tmp_path: Path) -> None:
    """Rows that DuckDB reads from the files are those that `tsviz sql` gives."""
    out = tmp_path / "set"
    ended = tsviz(
        "export", TRACES / "prefill-decode-pair", TRACES / "mixed-stall", "--parquet", out, "--format", "json"
    )
    assert ended.code == 0, ended.err
    rows = {row["table"]: row["rows"] for row in ended.json()}
    query = "SELECT trace, node, rank, round, scheduled_tokens, empty_pages FROM {} ORDER BY ALL"
    asked = tsviz(
        "sql", TRACES / "prefill-decode-pair", TRACES / "mixed-stall", query.format("rounds"), "--format", "json"
    )
    files = f"read_parquet('{out}/rounds/**/*.parquet', hive_partitioning = true)"
    read = duckdb.connect().sql(query.format(files)).fetchall()
    assert read == [tuple(row.values()) for row in asked.json()]
    assert len(read) == rows["rounds"] > 80


def test_wrong_usage_says_so(tsviz: Tsviz, tmp_path: Path) -> None:
    """A directory that is in use and an unknown table are usage errors, a missing trace is an unreadable one."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("")
    trace = TRACES / "mixed-stall"
    assert tsviz("export", trace, "--parquet", tmp_path / "mine").code == 2
    ended = tsviz("export", trace, "--parquet", tmp_path / "new", "--table", "round")
    assert (ended.code, "no table round" in ended.err) == (2, True)
    assert tsviz("export", tmp_path / "nowhere", "--parquet", tmp_path / "new").code == 3
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("language", ["sql", "python"])
def test_the_statements_of_the_document_run(
    tsviz: Tsviz, tmp_path: Path, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The DuckDB and pyarrow statements of docs/export.md run on a dataset as they stand."""
    monkeypatch.chdir(tmp_path)
    assert tsviz("export", TRACES / "retract-and-grant", "--parquet", "run.parquet").code == 0
    text = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    blocks = re.findall(rf"```{language} run\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        if language == "sql":
            assert duckdb.connect().sql(block).fetchall()
        else:
            exec(compile(block, "docs/export.md", "exec"), {})


def test_csv_files_have_what_sql_has(tsviz: Tsviz, tmp_path: Path) -> None:
    """A file a table, whose rows DuckDB reads as `tsviz sql` gives them."""
    out = tmp_path / "set"
    ended = tsviz("export", TRACES / "mixed-stall", "--csv", out, "--table", "rounds", "--table", "parts")
    assert ended.code == 0, ended.err
    assert sorted(file.name for file in out.iterdir()) == ["parts.csv", "rounds.csv"]
    query = "SELECT trace, node, rank, round, scheduled_tokens, empty_pages FROM {} ORDER BY ALL"
    asked = tsviz("sql", TRACES / "mixed-stall", query.format("rounds"), "--format", "json")
    read = duckdb.connect().sql(query.format(f"read_csv('{out}/rounds.csv', types = {{'node': 'VARCHAR'}})")).fetchall()
    assert read == [tuple(row.values()) for row in asked.json()]


def test_one_kind_of_export_at_a_time(tsviz: Tsviz, tmp_path: Path) -> None:
    """No target, two targets, and tables or several traces for Perfetto are usage errors that leave nothing."""
    trace = TRACES / "mixed-stall"
    for arguments in (
        (trace,), (trace, "--csv", tmp_path / "a", "--parquet", tmp_path / "b"),
        (trace, "--perfetto", tmp_path / "c", "--table", "rounds"),
        (trace, TRACES / "head-of-line", "--perfetto", tmp_path / "c"),
    ):  # fmt: skip
        assert tsviz("export", *arguments).code == 2
    assert list(tmp_path.iterdir()) == []
