"""`tsviz sql` from outside: streams, exit codes, errors that help."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tsviz.cli.sql import caret, command

from .fakes import save
from .tiny import tiny

OPENER = ["--opener", "tests.query.fakes:open_folder"]
ROOT = Path(__file__).parents[2]
ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r"


def _run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, [*OPENER, *map(str, arguments)], input=stdin)


def _start(*arguments: object) -> subprocess.Popen[bytes]:
    code = "from tsviz.cli.sql import command; command()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *OPENER, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


_UNDER_WAY_TICKS = 100
"""More processor time than the query process takes until it asks: its query is being answered."""


def _ticks(pid: str) -> int:
    """Return the processor time that a process has used, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _ended(pid: str) -> bool:
    """Wait until a process that is not ours is gone, or only its entry is left for whoever inherited it."""
    stat = Path(f"/proc/{pid}/stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.05)
    return True


def test_data_goes_to_stdout_and_the_rest_to_stderr(bundle: Path) -> None:
    """A table stands on standard output; how many rows it has, on standard error."""
    result = _run(bundle, "SELECT round, waiting_requests FROM rounds WHERE waiting_requests > 0 ORDER BY round")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "round  waiting_requests",
        "    1                 1",
        "    4                 2",
    ]
    assert result.stderr == "2 rows\n"


def test_the_query_comes_from_stdin_or_a_file(bundle: Path, tmp_path: Path) -> None:
    """Without a query argument it is read from standard input; with --file all arguments are traces."""
    sql = "SELECT DISTINCT trace FROM parts ORDER BY trace"
    assert json.loads(_run(bundle, "--format", "json", stdin=sql).stdout) == [{"trace": "tiny"}]
    file = tmp_path / "q.sql"
    file.write_text(sql)
    two = _run(bundle, bundle, "-f", file, "--format", "json")
    assert json.loads(two.stdout) == [{"trace": "tiny"}, {"trace": "tiny~2"}]
    assert two.stderr == ""


def test_a_capped_result_says_so(bundle: Path) -> None:
    """A result that was cut says of how many rows, on standard error, in every format."""
    result = _run(bundle, "FROM range(500)", "--limit", 2, "--format", "csv")
    assert result.stdout == "range\n0\n1\n"
    assert result.stderr == "2 of 500 rows; --limit 0 gives all\n"
    assert len(_run(bundle, "FROM range(20000)", "--limit", 0, "--format", "csv").stdout.splitlines()) == 20_001


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["{bundle}", "SELECT rond FROM rounds"], 1, 'error: Binder Error: Referenced column "rond" not found'),
        (["{bundle}", "DROP VIEW rounds"], 1, "only a query can be asked"),
        (["{bundle}", "SELECT 1; SELECT 2"], 1, "one query at a time"),
        (["{bundle}", "SELECT repeat('x', 1000000000)", "--memory", "64MiB"], 1, "--memory"),
        (["{bundle}", "SELECT INTERVAL 1 DAY AS i", "--format", "parquet"], 1, "parquet cannot hold the result"),
        ([], 2, "no trace"),
        (["{bundle}", "SELECT 1", "--memory", "much"], 2, "expected a size such as 512MiB"),
        (["{bundle}", "SELECT 1", "--memory", "1K"], 2, "at least 64 MiB"),
        (["--schema", "request"], 2, "did you mean requests"),
        (["/nowhere/run", "FROM rounds"], 3, "/nowhere/run: expected a bundle"),
        (["{bundle}", ENDLESS, "--timeout", "1"], 4, "stopped after 1 s"),
    ],
)
def test_exit_codes(arguments: list[str], code: int, words: str, bundle: Path) -> None:
    """A wrong query is 1, wrong usage 2, an unreadable trace 3, a timeout 4; the reason is on standard error."""
    result = _run(*(a.replace("{bundle}", str(bundle)) for a in arguments), stdin="")
    assert result.exit_code == code, result.output
    assert words in result.stderr
    assert result.stdout == ""


def test_an_error_shows_its_place_and_candidates(bundle: Path) -> None:
    """The line of the error is shown with a mark under it, and what may have been meant."""
    result = _run(bundle, "SELECT round,\n  rond\nFROM rounds")
    lines = result.stderr.splitlines()
    assert lines[1:3] == ["line 2:   rond", "          ^^^^"]
    assert lines[3].startswith("hint: did you mean ") and "round" in lines[3]


def test_a_place_in_a_long_line_is_shown_from_near_it() -> None:
    """A line is shown from 50 characters in front of the error, 100 in all; a mark never leaves it."""
    sql = "x" * 200 + "WRONG" + "y" * 200
    assert caret(sql, 200, 5) == f"line 1: {'x' * 50}WRONG{'y' * 45}\n{' ' * 58}^^^^^"
    assert caret("ab", 2, 1) == "line 1: ab\n          ^"


def test_lists_need_no_trace() -> None:
    """--tables lists every relation with its line; --schema lists columns, types and docs."""
    listing = _run("--tables")
    assert "  hol_holds\n      a row a round whose last prefill row" in listing.stdout
    assert "  block_table(request_id, at_round)\n" in listing.stdout
    machine = {row["name"]: row for row in json.loads(_run("--tables", "--format", "json").stdout)}
    assert machine["calls"]["columns"][:5] == ["trace", "node", "rank", "seq", "round"]
    columns = json.loads(_run("--schema", "zeroed", "--format", "json").stdout)
    assert columns[-1] == {"column": "page", "type": "INTEGER", "doc": "page id"}


def test_an_interrupt_kills_the_query_and_exits_130(bundle: Path) -> None:
    """SIGINT ends the command with 130, and its query with it."""
    process = _start(bundle, ENDLESS)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (found := children.read_text().split()) or _ticks(found[0]) < _UNDER_WAY_TICKS:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert process.stdout is not None and process.stdout.read() == b""
    assert _ended(found[0])


def test_a_reader_that_leaves_is_no_error(bundle: Path) -> None:
    """When standard output closes early the command ends with 0 and says nothing."""
    process = _start(bundle, "FROM range(3000000)", "--limit", "0", "--format", "csv")
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == b"range\n"
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == b""


def test_a_damaged_trace_that_nobody_named_is_left_out(bundle: Path) -> None:
    """The answer is of the others, the damaged one is named, and the code is 3; one that was named ends everything."""
    for name in ("a", "b"):
        (bundle.parent / "runs" / name).mkdir(parents=True)
        (bundle.parent / "runs" / name / "bundle.json").write_text("{}")
    save(bundle.parent / "runs" / "c", tiny())
    (bundle.parent / "runs" / "c" / "bundle.json").write_text("{}")
    (bundle.parent / "runs" / "b" / "rounds.parquet").write_text("no Parquet")
    (bundle.parent / "runs" / "a" / "rounds.parquet").write_text("no Parquet")
    runs = bundle.parent / "runs"
    result = _run(runs, "SELECT DISTINCT trace FROM rounds")
    assert (result.exit_code, result.stdout.split()) == (3, ["trace", "c"])
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["1 row", "warning", "warning", "error"]
    assert str(runs / "a") in result.stderr
    result = _run(runs / "b", runs / "c", "SELECT DISTINCT trace FROM rounds")
    assert (result.exit_code, result.stdout) == (3, "")


def test_text_is_utf_8_whatever_the_locale(bundle: Path) -> None:
    """Without a locale the query and the trace's name are read as UTF-8, and bytes that are none are refused."""
    named = bundle.rename(bundle.parent / "spür")
    run = [sys.executable, "-c", "from tsviz.cli.main import main; main()", "sql", *OPENER, str(named)]
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONPATH": str(ROOT)}
    asked = [*run, "--format", "csv", "SELECT DISTINCT trace, 'é→' AS e FROM rounds"]
    done = subprocess.run(asked, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout.decode()) == (0, "trace,e\nspür,é→\n"), done.stderr
    done = subprocess.run([*map(os.fsencode, run), b"SELECT '\xff'"], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, b"error: expected UTF-8, found \"SELECT '?'\"\n")
