"""`tsviz.open`: the examples of docs/python.md, and that importing tsviz costs nothing."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tsviz
from tsviz.trace.errors import TraceError

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_examples_say_what_comes_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every line of docs/python.md that ends in a comment evaluates to it, in the order of the document."""
    monkeypatch.chdir(ROOT / "traces")
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path))
    names: dict[str, Any] = {}
    shown = 0
    for block in re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL):
        lines = block.splitlines()
        for statement in ast.parse(block).body:
            _, _, comment = lines[(statement.end_lineno or 0) - 1].partition("  # ")
            code = ast.get_source_segment(block, statement)
            assert code is not None
            if comment:
                assert eval(code, names) == ast.literal_eval(comment), code
                shown += 1
            else:
                exec(code, names)
    assert shown == 26


def test_importing_tsviz_loads_nothing_heavy() -> None:
    """`import tsviz` loads its version and nothing else; the name `open` brings in the rooms."""
    code = "import sys, tsviz; print([m for m in sys.modules if m.split('.')[0] in ('numpy', 'pyarrow', 'duckdb') or "
    code += "m.startswith('tsviz.')]); tsviz.open; print('pyarrow' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert run.stdout.split("\n")[:2] == ["['tsviz.version']", "True"]


def test_what_is_no_trace_is_named(tmp_path: Path) -> None:
    """Opening nothing raises an error that names the path, and tsviz has no other names."""
    with pytest.raises(TraceError, match="nowhere"):
        tsviz.open(tmp_path / "nowhere")
    with pytest.raises(AttributeError, match="no attribute 'close'"):
        _ = tsviz.close  # type: ignore[attr-defined]


def test_decided_tables_of_an_index_come_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without an index there are no verdicts; behind `index()` the same trace has them."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path))
    trace = tsviz.open(ROOT / "traces" / "mixed-stall")
    assert trace.table("verdict_runs").num_rows == 0
    assert trace.parts["decisions"].to_pylist() == ["none"]
    trace.index()
    assert trace.parts["decisions"].to_pylist() == ["derived"]
    assert {"nothing_retractable", "decode_holdback"} <= set(trace.table("cause_counts")["cause"].to_pylist())


def test_a_damaged_bundle_of_a_folder_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a folder the sound bundle answers; one without its description and one with a broken table are warned of."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    for name in ("a", "b", "c"):
        shutil.copytree(ROOT / "traces" / "mixed-stall", tmp_path / "runs" / name)
    (tmp_path / "runs" / "a" / "bundle.json").write_text("{}")
    table = next((tmp_path / "runs" / "b").rglob("rounds.parquet"))
    table.write_bytes(table.read_bytes()[:-20] + b"x" * 20)
    with pytest.warns(UserWarning, match="left out: .*runs/a"):
        trace = tsviz.open(tmp_path / "runs")
    with pytest.warns(UserWarning, match="left out: .*runs/b"):
        assert set(trace.requests["trace"].to_pylist()) == {"c"}
    assert [Path(one.path).name for one in trace.left_out] == ["a", "b"]
    assert all(one.reason for one in trace.left_out)
    with pytest.raises(TraceError):
        tsviz.open(tmp_path / "runs" / "a")
    sound = tsviz.open(tmp_path / "runs" / "c")
    assert sound.left_out == ()
