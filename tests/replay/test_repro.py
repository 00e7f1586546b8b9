"""Scripts: they run alone on the real package and show what the trace shows."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tsviz.replay.repro.data import TooLong, recorded_calls
from tsviz.replay.repro.script import Repro, make_repro
from tsviz.replay.scenario.scenario import NotAScenario
from tsviz.replay.slice import write_slice
from tsviz.scheduler import compat as twin

from .apart_runs import calm, locked, record, request, scenario


def run_alone(made: Repro, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script where the project cannot be imported."""
    pytest.importorskip("tokenspeed_scheduler")
    path = folder / "script.py"
    path.write_text(made.text, encoding="utf-8")
    (folder / "tsviz").mkdir()
    (folder / "tsviz" / "__init__.py").write_text("raise ImportError('the script must not need this')")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "script.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_script_shows_the_live_lock_on_the_real_package(tmp_path: Path) -> None:
    """It prints who took whose pages, and ends with exit code 1 because the problem is there."""
    part = record(locked(), tmp_path / "t").parts[0]
    made = make_repro(part, twin, name="locked")
    ended = run_alone(made, tmp_path)
    assert made.closed_loop
    assert "LIVE-LOCK" in ended.stdout, ended.stderr
    assert "a took pages of b in" in ended.stdout
    assert "b took pages of a in" in ended.stdout
    assert ended.returncode == 1


def test_a_script_of_one_round_compares_its_rows(tmp_path: Path) -> None:
    """TRACE@5 ends behind round 5 and finds the recorded rows."""
    part = record(locked(), tmp_path / "t").parts[0]
    ended = run_alone(make_repro(part, twin, name="locked", round_=5), tmp_path)
    assert ended.stdout.splitlines()[-1] == "as recorded", ended.stderr
    assert "round    6" not in ended.stdout


def test_what_a_closed_loop_cannot_do_becomes_calls(tmp_path: Path) -> None:
    """With two tokens a decode step the script holds the recorded calls, and they make the recorded last round."""
    made = scenario((request("a", 1, 4, 5), request("b", 2, 5, 4)), 12, decode_input_tokens=2)
    part = record(made, tmp_path / "t").parts[0]
    script = make_repro(part, twin, name="wide")
    ended = run_alone(script, tmp_path)
    assert not script.closed_loop
    assert ended.stdout.splitlines()[-1] == "as recorded", ended.stderr


def test_strings_of_a_trace_are_literals(tmp_path: Path) -> None:
    """An id that would end a string or a docstring stays data: the script parses and its id comes out as it went in."""
    bad = 'a"""\n__import__("os")\'\\'
    part = record(scenario((request(bad, 1, 4, 2),), 20), tmp_path / "t").parts[0]
    text = make_repro(part, twin, name='x"""; boom').text
    tree = ast.parse(text)
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert bad in constants
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    assert not {"boom", "__import__"} & names


def test_a_trace_that_is_too_long_is_refused_with_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rounds than a script may have are an error that says how many and what to do."""
    monkeypatch.setattr("tsviz.replay.repro.data.MAX_ROUNDS", 10)
    part = record(locked(), tmp_path / "t").parts[0]
    with pytest.raises(TooLong, match="at most 10 fit a script: minimize"):
        recorded_calls(part, twin, 20)


def test_a_slice_makes_no_script(tmp_path: Path) -> None:
    """The calls before a slice are not in it."""
    bundle = record(calm(), tmp_path / "t")
    write_slice(bundle, bundle.parts[0], 3, 5, tmp_path / "s")
    from tsviz.trace.reader import open_bundle

    with pytest.raises(NotAScenario, match="a slice from round 3"):
        make_repro(open_bundle(tmp_path / "s").parts[0], twin, name="s")
