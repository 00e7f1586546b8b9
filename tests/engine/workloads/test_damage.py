"""Damaged files: whatever the damage, the only error is the one that says where."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tsviz.engine.workloads.errors import WorkloadError
from tsviz.engine.workloads.registry import load

TURN = {"t": 0, "type": "n", "in": 70, "out": 5, "hash_ids": [1], "api_time": 1.5, "think_time": 0.5}
SUB = {"t": 9, "type": "subagent", "duration_ms": 900, "requests": [TURN], "tool_tokens": 5, "system_tokens": 6}
SESSION = {"block_size": 64, "hash_id_scope": "local", "tool_tokens": 5, "system_tokens": 6, "requests": [TURN, SUB]}
ROW = {"timestamp": 0, "input_length": 600, "output_length": 7, "hash_ids": [0, 1]}
TABLE = {"0": {"input_tokens": "{5: 0.5, 6: 0.5}", "output_tokens": "{7: 1.0}"}}

GOOD = {
    "mooncake": ("x.jsonl", f"{json.dumps(ROW)}\n{json.dumps(ROW)}\n"),
    "azure": ("x.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44"),
    "burstgpt": ("x.csv", "Timestamp,Model,Request tokens,Response tokens,Total tokens\n1,m,15,115,130\n"),
    "weka": ("x.json", json.dumps(SESSION)),
    "servegen": ("x-trace.csv", "0,0.1,0.9,Gamma,1.1,8.0\n600,0.1,0.9,Weibull,1.1,8.0\n"),
}
PIECES = st.sampled_from(
    [
        "",
        "0",
        "-1",
        "9" * 30,
        "1e400",
        "NaN",
        "null",
        "{",
        "[",
        "]",
        '"',
        ",",
        "\n",
        "\r\n",
        "\0",
        "\u2028",
        ":",
        "true",
    ]
)


@given(kind=st.sampled_from(sorted(GOOD)), data=st.data())
@settings(max_examples=400, deadline=None)
def test_no_damage_gets_past_the_checks(kind: str, data: st.DataObject) -> None:
    """With any stretch replaced by anything, a file loads or is refused with a WorkloadError, and rows are counted."""
    name, text = GOOD[kind]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    piece = data.draw(st.one_of(PIECES, st.text(max_size=4)))
    damaged = (text[:start] + piece + text[end:]).encode("utf-8", "surrogatepass")
    _load_damaged(kind, name, damaged)


@given(kind=st.sampled_from(sorted(GOOD)), content=st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_random_bytes_are_refused(kind: str, content: bytes) -> None:
    """Bytes that are no workload raise nothing but a WorkloadError."""
    _load_damaged(kind, GOOD[kind][0], content)


def test_the_files_that_are_damaged_here_are_good() -> None:
    """Without damage each of them loads."""
    for kind, (name, text) in GOOD.items():
        _load_damaged(kind, name, text.encode(), good=True)


def _load_damaged(kind: str, name: str, content: bytes, *, good: bool = False) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        path.with_name("x-dataset.json").write_text(json.dumps(TABLE)) if kind == "servegen" else None
        with contextlib.nullcontext() if good else contextlib.suppress(WorkloadError):
            workload = load(f"{kind}:{path}")
            counted = len(workload.requests) + sum(workload.skipped.values())
            assert counted == workload.meta["input_rows"]
            assert not good or counted > 0
