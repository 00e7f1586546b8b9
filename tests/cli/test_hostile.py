"""A hostile trace: escapes, markup, SQL and paths in every string harm nothing, whatever is asked of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .conftest import Tsviz

NAMES = (
    "esc\x1b[2J\x1b]0;owned\x07",
    "osc\x1b]52;c;aGk=\x07\x9b31m",
    "bidi\u202egnp.exe\u2066",
    "[bold red]markup[/] [link=file:///etc/passwd]x[/link]",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "a'; DROP VIEW requests; SELECT '",
    "\"; ATTACH '/tmp/owned.db'; --",
    "../../../../tmp/owned",
    "/etc/passwd",
    "line\r\nFAKE: all is well\ttab",
    '=HYPERLINK("http://x","y")',
    "-rf",
    "%s%n{0}{name}${HOME}$(id)`id`",
    "long" + "x" * 4000,
    " ",
    "\u200b",
)
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(tsviz: Tsviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording of the twin whose requests have hostile ids, in a folder with a hostile name."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    workload = tmp_path / "hostile.jsonl"
    rows = [
        {"id": name, "arrival_ms": 5 * n, "prompt_tokens": 60 + 10 * n, "output_tokens": 40, "max_new_tokens": 0}
        for n, name in enumerate(NAMES)
    ]
    workload.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "run'; --\x1b[31m[red]"
    ended = tsviz("record", "--workload", f"plain:{workload}", "--pages", "33", "--scheduler", "twin", "--level",
                  "plans", "--out", out)  # fmt: skip
    assert ended.code == 0, ended.err
    return out


def test_every_command_shows_what_is_hostile_and_obeys_none_of_it(tsviz: Tsviz, hostile: Path) -> None:
    """`sql`, `hits`, `findings`, `why`, `blame`, `info` and `index` answer, and no character gets through raw."""
    assert tsviz("index", hostile).code == 0
    asked: list[tuple[object, ...]] = [
        ("info", hostile),
        ("sql", hostile, "SELECT request, trace FROM requests ORDER BY submission"),
        ("sql", hostile, "FROM verdict_runs LIMIT 200"),
        ("hits", hostile, "verdicts.cause <> 'scheduled' AND waited_rounds > 1"),
        ("findings", hostile, "--all"),
        ("blame", hostile, "--by", "request"),
    ]
    for arguments in asked:
        ended = tsviz(*arguments)
        assert ended.code == 0, (arguments, ended.err)
        assert _OBEYED.findall(ended.out + ended.err) == [], arguments
    for name in NAMES:
        ended = tsviz("why", hostile, name)
        assert ended.code in (0, 2), (name, ended.err)
        assert _OBEYED.findall(ended.out + ended.err) == [], name
        assert "Traceback" not in ended.err


def test_the_name_of_an_output_is_shown_and_not_obeyed(tsviz: Tsviz, hostile: Path, tmp_path: Path) -> None:
    """Where what was written is named, or why it was not, one line is a line and no escape gets through."""
    out = tmp_path / "out\x1b]0;owned\x07\nFAKE: all is well"
    plain = tmp_path / "plain"
    for arguments, code in (
        (("record", "--workload", "poisson:requests=1", "--scheduler", "twin", "--out", out), 0),
        (("record", "--workload", "poisson:requests=1", "--scheduler", "twin", "--out", out), 2),
        (("record", "--workload", "poisson:requests=1", "--scheduler", "twin", "--out", out / "in"), 2),
        (("pack", out, f"{out}.pack"), 0),
        (("unpack", f"{out}.pack", f"{out}.new"), 0),
        (("report", out, "-o", f"{out}.html"), 0),
        (("slice", hostile, "1:2", "--out", out), 2),
        (("repair", tmp_path / "none\x1b[2J", plain), 3),
        (("sql", f"{out}.none", "FROM rounds"), 3),
    ):
        ended = tsviz(*arguments)
        assert ended.code == code, (arguments, ended)
        assert _OBEYED.findall(ended.out + ended.err) == [], arguments
        assert "\nFAKE" not in ended.out + ended.err, arguments


def test_values_come_back_as_they_were(tsviz: Tsviz, hostile: Path) -> None:
    """Machines get every id as it was recorded, and one that is SQL finds its own rows and no others."""
    ended = tsviz("sql", hostile, "--format", "json", "SELECT request FROM submissions ORDER BY submission")
    assert tuple(row["request"] for row in ended.json()) == NAMES
    quoted = NAMES[5].replace("'", "''")
    ended = tsviz("hits", hostile, "--format", "json", f"submissions.request = '{quoted}'")
    assert [row["request"] for row in ended.json()] == [NAMES[5]]


def test_an_export_stays_in_its_folder(tsviz: Tsviz, hostile: Path, tmp_path: Path) -> None:
    """Every file of a dataset lies in the folder that was named, and nothing else is written."""
    before = {path for path in tmp_path.rglob("*") if "cache" not in path.parts}
    out = tmp_path / "dataset"
    assert tsviz("export", hostile, "--parquet", out).code == 0
    behind = {path for path in tmp_path.rglob("*") if "cache" not in path.parts}
    assert all(out in (path, *path.parents) for path in behind - before)
    assert not Path("/tmp/owned").exists()
    assert not Path("/tmp/owned.db").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat(request, 100000000) FROM submissions",
        "SELECT list_sum(range(1000000000)) FROM submissions",
        "SELECT count(*) FROM operations a, operations b, operations c, operations d, operations e",
    ],
)
def test_a_query_that_grows_is_stopped(tsviz: Tsviz, hostile: Path, sql: str) -> None:
    """A column that expands, a call that does not end and a product of tables are stopped by time or memory."""
    ended = tsviz("sql", hostile, "--timeout", "5", "--memory", "128MiB", "--format", "csv", sql)
    assert ended.code in (1, 4), (ended.code, ended.err)
    assert "Traceback" not in ended.err
