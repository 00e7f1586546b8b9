"""Taking a problem apart from the command line: slice, minimize, repro, bisect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.replay.apart_runs import calm, locked, record

from .conftest import Tsviz


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A small live-lock."""
    record(locked(), tmp_path / "lock")
    return tmp_path / "lock"


def test_slice_writes_a_trace_that_verifies(tsviz: Tsviz, trace: Path, tmp_path: Path) -> None:
    """Rounds 30 to 45 are 16 rows of `rounds`, all made again by the twin, and `why` answers in them."""
    out = tmp_path / "slice"
    ended = tsviz("slice", trace, "30:45", "--out", out, "--format", "json")
    assert (ended.code, ended.json()[0]["rounds_rows"], ended.err) == (0, 16, "")
    assert tsviz("sql", out, "select min(round) a, max(round) b from rounds", "--format", "json").json() == [
        {"a": 30, "b": 45}
    ]
    verified = tsviz("verify", out, "--with", "twin", "--format", "json")
    assert (verified.code, verified.json()[0]["verified_rounds"]) == (0, 16), verified.err
    by_default = tsviz("verify", out, "--format", "json")
    assert (by_default.code, by_default.json()) == (0, verified.json())
    assert by_default.err == "a slice from round 30: only the twin can re-execute it (--with twin)\n"
    refused = tsviz("verify", out, "--with", "real")
    assert (refused.code, "say --with twin" in refused.err) == (2, True)
    assert tsviz("index", out).code == 0
    why = tsviz("why", out, "a@40")
    assert why.code == 0, why.err


@pytest.mark.oracle
def test_from_a_trace_to_a_script(tsviz: Tsviz, trace: Path, tmp_path: Path) -> None:
    """minimize keeps the live-lock and records it on the real package; repro's script shows it with exit code 1."""
    pytest.importorskip("tokenspeed_scheduler")
    small, script = tmp_path / "small", tmp_path / "lock.py"
    ended = tsviz("minimize", trace, "--while", "livelock", "--out", small, "--format", "json")
    (row,) = ended.json()
    assert ended.code == 0, ended.err
    assert row["recorded_with"].startswith("tokenspeed-scheduler ")
    assert row["requests"] <= row["requests_before"] == 4
    assert tsviz("verify", small).code == 0
    assert tsviz("repro", small, "--out", script).code == 0
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    shown = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 1, shown.stderr
    assert "LIVE-LOCK" in shown.stdout
    info = json.loads((small / "bundle.json").read_text())["meta"]
    assert info["predicate"] == "livelock"
    assert len(info["scenario"]["requests"]) == row["requests"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("slice", "TRACE", "5", "--out", "OUT"), 2, "expected rounds A:B"),
        (("slice", "TRACE", "5:9999", "--out", "OUT"), 2, "B <= 140"),
        (("minimize", "TRACE", "--while", "nonsense", "--out", "OUT"), 2, "no finding 'nonsense'"),
        (("minimize", "TRACE", "--while", "select nothing", "--out", "OUT"), 1, "Binder Error"),
        (("minimize", "TRACE", "--while", "stall", "--out", "OUT"), 2, "does not hold on the recording"),
        (("minimize", "TRACE", "--while", "livelock", "--out", "TRACE"), 2, "expected a path outside every bundle"),
        (("bisect", "TRACE"), 2, "expected a trace of tokenspeed-scheduler, found tsviz-twin"),
        (("bisect", "TRACE", "--set", "a=b"), 2, "expected NAME=NUMBER"),
    ],
)
def test_what_cannot_be_done_is_said(
    tsviz: Tsviz, trace: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    """Every refusal has its exit code and says what was expected; nothing is written."""
    places = {"TRACE": str(trace), "OUT": str(tmp_path / "out")}
    ended = tsviz(*(places.get(a, a) for a in arguments))
    assert ended.code == code
    assert words in ended.err
    assert not (tmp_path / "out").exists()


def test_repro_writes_to_standard_output(tsviz: Tsviz, tmp_path: Path) -> None:
    """Without --out the script is the only thing on standard output."""
    record(calm(), tmp_path / "calm")
    ended = tsviz("repro", tmp_path / "calm")
    assert ended.code == 0
    compile(ended.out, "script", "exec")


def test_repro_overwrites_no_file(tsviz: Tsviz, tmp_path: Path) -> None:
    """A file that is there stays as it is, and the command ends with a usage error."""
    taken = tmp_path / "precious.txt"
    taken.write_text("mine")
    ended = tsviz("repro", Path(__file__).parents[2] / "traces" / "mixed-stall", "--out", taken)
    assert ended.code == 2
    assert str(taken) in ended.err
    assert taken.read_text() == "mine"
