"""`tsviz verify` on traces of either scheduler: by default the one that recorded, and what it says of the other."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.fatal import SURPLUS
from tsviz.adapters.tokenspeed import engine_of, recording_module
from tsviz.cli import schedulers
from tsviz.cli.main import main
from tsviz.cli.parting import listed_row
from tsviz.scheduler import compat
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.reader import open_bundle
from tsviz.trace.writer import BundleWriter

from .conftest import Tsviz

PAIR = (
    "--pd", "--scheduler", "twin", "--groups", "full:8,sliding:4:w=12:k=2", "--max-new", "undeclared", "--pages", "60",
    "--prefix-page", "8", "--chunk", "32", "--batch", "4",
)  # fmt: skip
CUT = """{"id": "a", "arrival_ms": 0, "prompt": [["s", 24], ["a", 24]], "output_tokens": 4}
{"id": "b", "after": "a", "prompt": [["s", 24], ["b", 20]], "output_tokens": 6}
"""
"""Prompts that share 24 tokens, of which a sliding group keeps none: the real scheduler lands 24 of 44 tokens."""


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pair of the twin, one of whose landings the real scheduler would cut."""
    folder = tmp_path_factory.mktemp("uncut")
    (folder / "cut.jsonl").write_text(CUT)
    with pytest.raises(SystemExit) as ended:
        main(["record", *PAIR, "--workload", f"plain:{folder / 'cut.jsonl'}", "--out", str(folder / "trace")])
    assert ended.value.code in (0, None)
    return folder / "trace"


def test_a_trace_is_verified_by_whom_recorded_it(tsviz: Tsviz, uncut: Path) -> None:
    """A pair of the twin verifies without an option, though the real scheduler would plan otherwise."""
    ended = tsviz("verify", uncut, "--format", "json")
    assert (ended.code, [row["with"] for row in ended.json()]) == (0, ["twin", "twin"])


@pytest.mark.oracle
def test_the_other_scheduler_diverges_at_a_listed_point(tsviz: Tsviz, uncut: Path) -> None:
    """The real one lands 24 of 44 tokens: code 5, who recorded it, what verifies it, and row 5 of the list."""
    pytest.importorskip("tokenspeed_scheduler")
    ended = tsviz("verify", uncut, "--with", "real", "--format", "json")
    assert ended.code == 5
    prefill, decode = ended.json()
    assert (prefill["outcome"], decode["outcome"], decode["expected"], decode["got"]) == (
        "equal",
        "diverged",
        "44",
        "24",
    )
    assert ended.err == (
        f"error: {uncut}: the real scheduler does not make these plans, which the twin recorded\n"
        "hint: --with twin verifies it; the two part on purpose in a few places: this is row 5 of docs/conformance.md,"
        " section 1\n"
    )


def test_what_the_real_one_raises_is_a_row_of_the_list(uncut: Path) -> None:
    """Its three listed errors are rows 5, 6 and 7; any other, and what the twin makes again, is none."""
    part: Any = open_bundle(uncut).part("D", 0)
    from tsviz.replay.reexecution.verify import Divergence

    def row(by: str, words: str) -> int | None:
        return listed_row(part, by, Divergence(3, 5, "calls.plan.outcome", "ok", f"RuntimeError ({words})"))

    assert row("real", "publish window exceeds table size at a.cpp:3 in f") == 5
    assert row("real", "materialized suffix starts beyond the requested extent at a.cpp:3 in f") == 6
    assert row("real", "Host probe hit without a Host or L3 entry at a.cpp:3 in f") == 7
    assert row("real", "something else") is None
    assert row("twin", "publish window exceeds table size") is None


@pytest.mark.oracle
def test_where_the_real_one_ends_its_process_the_twins_trace_is_sound(tsviz: Tsviz, tmp_path: Path) -> None:
    """Row 1: the twin recorded a call that it answered and at which the package aborts: a divergence, not bad data."""
    pytest.importorskip("tokenspeed_scheduler")
    writer = BundleWriter(tmp_path / "trace", meta={})
    recorded = recording_module(
        compat,
        lambda config: writer.recorder(
            node="N", rank=0, config=describe_config(config), engine=engine_of(compat),
            event_reader=event_reader(compat), now_ns=lambda: 1, clock="virtual", rule_set="0.1.24",
        ),
    )  # fmt: skip
    with pytest.raises(RuntimeError):
        SURPLUS["result-prefill-done"](recorded)
    writer.close({"error": None})
    ended = tsviz("verify", tmp_path / "trace", "--with", "real")
    assert ended.code == 5
    assert f"ended its process ({signal.SIGABRT.name})" in ended.err
    assert "hint: --with twin lives on; docs/conformance.md, section 1" in ended.err
    assert tsviz("verify", tmp_path / "trace").code == 0


def test_without_the_package_it_is_said_who_can(tsviz: Tsviz, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace of the real scheduler where that is not installed: code 2, how to get it, and that the twin can."""

    def missing(name: str) -> Any:
        raise schedulers.SchedulerMissing(2, f"{name} is not installed")  # type: ignore[arg-type]

    monkeypatch.setattr("tsviz.cli.verify.load_sheltered", missing)
    ended = tsviz("verify", recorded)
    assert (ended.code, "--with twin re-executes it with ours" in ended.err) == (2, True)
