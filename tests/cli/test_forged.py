"""Bundles that were changed by somebody who knows the format, checksums included: refused by name, never "equal"."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tsviz.trace.layout import read_json, write_json
from tsviz.trace.segments import commit_line

from .conftest import Tsviz

pytestmark = pytest.mark.oracle

GOLDEN = Path(__file__).parents[1] / "trace" / "golden" / "1.0"
PART = Path("parts") / "N.0"


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    """A closed bundle of an earlier release, to change."""
    return Path(shutil.copytree(GOLDEN / "fused-cold", tmp_path / "cold"))


def change(path: Path, forge: Callable[[dict[str, Any]], Any]) -> None:
    """Change a JSON file and give it the checksum of what it then says."""
    values = read_json(path)
    forge(values)
    write_json(path, values)


def refused(tsviz: Tsviz, trace: Path, file: str, place: str, expected: str, found: str) -> None:
    """`verify` and `index` end with the code of an unreadable trace, naming file, place, expected and found."""
    for command in (("verify", "--with", "twin"), ("verify", "--with", "real"), ("index",)):
        ended = tsviz(command[0], trace, *command[1:])
        assert (ended.code, ended.out) == (3, ""), (command, ended)
        assert file in ended.err
        assert f"{place}: expected {expected}" in ended.err, ended.err
        assert f"found {found}" in ended.err, ended.err


@pytest.mark.parametrize(
    ("place", "value", "expected", "found"),
    [
        ("digest", "plan/2", "plan/1", "'plan/2'"),
        ("rule_set", "0.1.99", "0.1.24", "'0.1.99'"),
        ("node", "M", "'N'", "'M'"),
        ("rank", 7, "0", "7"),
        ("tokens", "identity", "'full'", "'identity'"),
    ],
)
def test_a_part_that_says_something_else_of_itself_is_refused(
    tsviz: Tsviz, cold: Path, place: str, value: object, expected: str, found: str
) -> None:
    """A digest, rules, a name or a token mode that are not what they must be are named, and nothing is "equal"."""
    change(cold / PART / "part.json", lambda v: v.__setitem__(place, value))
    refused(tsviz, cold, "part.json", place, expected, found)


def test_a_trace_by_unknown_rules_can_still_be_looked_at(tsviz: Tsviz, cold: Path) -> None:
    """What was recorded under rules that tsviz does not know opens and takes SQL: 27 rounds are 27 rounds."""
    change(cold / PART / "part.json", lambda v: v.__setitem__("rule_set", "0.1.99"))
    assert tsviz("sql", cold, "select count(*) n from rounds", "--format", "json").json() == [{"n": 27}]
    assert tsviz("info", cold).code == 0


def test_what_is_added_is_left_unread(tsviz: Tsviz, cold: Path) -> None:
    """Unknown fields and tables of a newer MINOR change nothing (architecture.md, section 5)."""
    change(cold / "bundle.json", lambda v: v.update({"colour": "red", "schema": "1.7"}))
    change(cold / PART / "part.json", lambda v: v.__setitem__("moon", {"phase": 3}))
    entry = {"rows": 1, "bytes": 1, "crc": 1, "footer_crc": 1}
    change(cold / PART / "cold" / "manifest.json", lambda v: v["tables"].__setitem__("moons", entry))
    assert tsviz("verify", cold, "--with", "twin").code == 0


def test_a_manifest_without_tables_is_refused(tsviz: Tsviz, cold: Path) -> None:
    """A manifest that names no table but a last call is no trace of 0 rounds that are all equal."""
    change(cold / PART / "cold" / "manifest.json", lambda v: v.__setitem__("tables", {}))
    refused(tsviz, cold, "manifest.json", "tables, calls", "107 rows (the last call is 106)", "0 rows")


def test_commits_without_tables_are_refused(tsviz: Tsviz, tmp_path: Path) -> None:
    """The same of a bundle that was not compacted."""
    hot = Path(shutil.copytree(GOLDEN / "fused-hot", tmp_path / "hot"))
    commits = hot / PART / "hot" / "commits.jsonl"
    body = commits.read_bytes().splitlines()[-1].rpartition(b" ")[0]
    record = json.loads(body) | {"commit": 0, "tables": {}}
    commits.write_bytes(commit_line(record))
    refused(tsviz, hot, "commits.jsonl", "tables, calls", "107 rows", "0 rows")


@pytest.mark.parametrize("table", ["rounds", "submissions", "events", "operations", "table_changes"])
def test_a_table_that_was_left_out_is_refused(tsviz: Tsviz, cold: Path, table: str) -> None:
    """A table that calls, plans or scheduled rows speak of must be there, with as many rows as they say."""
    change(cold / PART / "cold" / "manifest.json", lambda v: v["tables"].pop(table))
    refused(tsviz, cold, "manifest.json", f"tables, {table}", "", "0 rows")
