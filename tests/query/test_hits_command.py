"""`tsviz hits` from outside: streams, one position or all, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tsviz.cli.exit_codes import CliError
from tsviz.cli.hits import command


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(command, ["--opener", "tests.query.fakes:open_folder", *map(str, arguments)])


def test_positions_go_to_stdout_and_the_rest_to_stderr(bundle: Path) -> None:
    """A table of positions on standard output, their number on standard error."""
    result = _run(bundle, "rounds.waiting_requests > 0")
    assert result.stdout.splitlines() == [
        "trace  node  rank  round  stop  submission  request",
        "tiny   F        0      1  null        null  null",
        "tiny   F        0      4  null        null  null",
    ]
    assert (result.exit_code, result.stderr) == (0, "2 positions\n")


def test_one_position_is_wanted(bundle: Path) -> None:
    """--first, --last, --from and --back give one position; CSV leaves out what is null."""
    asked = [("--first",), ("--last",), ("--from", "3"), ("--from", "F/0:3.2"), ("--from", "3", "--back")]
    found = [_run(bundle, "rounds.round > 0", "--format", "csv", *options).stdout.splitlines()[1] for options in asked]
    assert found == ["tiny,F,0,1,,,", "tiny,F,0,6,,,", "tiny,F,0,4,,,", "tiny,F,0,3,,,", "tiny,F,0,2,,,"]


def test_decisions_that_are_not_known_are_told(bundle: Path) -> None:
    """A predicate about decisions says on standard error which parts have none."""
    result = _run(bundle, "verdicts.cause = 'capacity'")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "0 positions",
        "tiny F/0: decisions are not known (6 rounds); what needs them has no hits there (tsviz index)",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("rounds.rund > 0",), 1, "rounds.rund > 0\n               ^^^^"),
        (("rounds.round > 0", "--first", "--last"), 2, "exclude each other"),
        (("rounds.round > 0", "--back"), 2, "--back needs --from"),
        (("rounds.round > 0", "--from", "x"), 2, "expected [NODE/RANK:]ROUND[.STOP], found 'x'"),
    ],
)
def test_what_goes_wrong_has_its_code(bundle: Path, arguments: tuple[str, ...], code: int, says: str) -> None:
    """A wrong predicate ends with 1 and points at its place; wrong options end with 2."""
    result = _run(bundle, *arguments)
    assert (result.exit_code, says in result.stderr) == (code, True), result.stderr


def test_a_trace_that_is_none_ends_with_3(tmp_path: Path) -> None:
    """What cannot be opened is a trace that is unreadable."""
    result = _run(tmp_path / "nothing", "rounds.round > 0")
    assert isinstance(result.exception, SystemExit | CliError)
    assert result.exit_code == 3
