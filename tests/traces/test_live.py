"""The shipped live run: a real model's trace is looked at where there is no torch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tsviz.replay.overview import overview
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.view import open_view
from tsviz.scheduler import compat
from tsviz.trace.order.checker import check_ops
from tsviz.trace.order.recorded import read_ops
from tsviz.trace.reader import open_bundle

TRACES = Path(__file__).resolve().parents[2] / "traces"
LIVE = json.loads((TRACES / "live.json").read_text())["smollm2-live"]
BUNDLE = open_bundle(TRACES / "smollm2-live")


def test_the_live_run_verifies_with_the_twin() -> None:
    """The twin makes every plan that the model ran on."""
    assert verify(BUNDLE.parts[0], compat).complete


def test_its_catalogue_entry_points_at_a_recovery() -> None:
    """In the round of the entry its request is back, and pages come back from the host with it."""
    request = LIVE["request"]
    assert any(r.request == request for r in open_view(BUNDLE).snapshot(LIVE["round"]).requests)
    transfers = BUNDLE.parts[0].table("transfers").to_pylist()
    assert any(t["round"] == LIVE["round"] and t["kind"] == "load_back" for t in transfers)
    assert any(t["source_pinned"] is False for t in transfers)


def test_its_operations_are_ordered_and_its_tokens_are_not_told() -> None:
    """No two operations race, each forward of 30 layers is there, and no token or prompt is in the trace."""
    part = BUNDLE.parts[0]
    ops = list(read_ops(part))
    assert check_ops(ops) == []
    forwards = part.table("forwards").num_rows
    assert sum(op.kind.value == "layer" for op in ops) == 30 * forwards > 0
    assert BUNDLE.description["tokens"] == "identity"
    assert all(row["tokens"] is None for row in part.table("events").to_pylist())


def test_it_is_looked_at_without_torch() -> None:
    """The checker reads it in a process in which torch cannot be imported."""
    code = (
        "import sys; sys.modules['torch'] = None; from tsviz.executor.races import main;"
        f"sys.exit(main([{str(TRACES / 'smollm2-live')!r}]))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TRACES.parent, check=False)
    assert (run.returncode, run.stdout) == (0, "")


def test_what_it_ran_on_is_told() -> None:
    """`info` says model, mode and number format, how many operations there are, that none raced, and what that cost."""
    told = overview(BUNDLE)["device"]
    assert (told["model"], told["dtype"], told["races"]) == ("smollm2", "float32", 0)
    assert told["operations"] == len(BUNDLE.parts[0].table("device_ops")) > 0
    assert re.fullmatch(r"\d\.\d\d % of the run, on the control thread", told["recorder"])
    assert overview(open_bundle(TRACES / "mixed-stall"))["device"] == {}
