"""`tsviz record --model`: a live run as a trace that is verified, checked and queried like any other."""

from __future__ import annotations

import os
import re
import sys
import time
from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

from tests.executor.conftest import tsviz
from tsviz.executor import backups
from tsviz.executor.options import DeviceOptions, Edge
from tsviz.executor.store import PageStore
from tsviz.replay.moments import wall_offset_ns
from tsviz.trace.order.checker import check_ops
from tsviz.trace.order.recorded import read_ops
from tsviz.trace.reader import open_bundle

RECORD = (
    "record", "--model", "tiny-state", "--scheduler", "twin", "--workload", "poisson:requests=8,rate=200",
    "--scale", "40", "--max-new", "undeclared", "--pages", "30", "--host-pages", "40", "--prefix-page", "8",
    "--chunk", "32", "--batch", "4", "--mode", "exact", "--mixed", "--overlap", "1",
)  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A recorded run of a seeded hybrid model."""
    out = tmp_path_factory.mktemp("live") / "run"
    assert tsviz(*RECORD, "--out", out) == 0
    return out


def test_a_live_run_is_verified(bundle) -> None:
    """Re-executing the calls gives the recorded plans, round by round."""
    assert tsviz("verify", bundle) == 0


def test_every_forward_has_its_operations(bundle) -> None:
    """A forward of a three-layer model is a prologue, three layers, an epilogue and a result; its rows have tokens."""
    part = open_bundle(bundle).part("F", 0)
    ops = part.table("device_ops").to_pylist()
    forwards = part.table("forwards").num_rows
    kinds = [op["kind"] for op in ops]
    assert kinds.count("prologue") == kinds.count("epilogue") == kinds.count("result") == forwards > 0
    assert kinds.count("layer") == 3 * forwards
    rows = part.table("forward_rows")
    assert all(n >= 1 for n in rows["accepted_tokens"].to_pylist())
    assert not any(rows["broken"].to_pylist())


def test_its_clock_is_put_on_the_one_on_the_wall(bundle) -> None:
    """The anchor is taken on the run's own clock, which begins with it: nodes of a pair are merged on one clock."""
    opened = open_bundle(bundle)
    (part,) = opened.parts
    first_ns = part.table("rounds")["start_ns"][0].as_py()
    anchor = opened.description["clock_anchor"]
    assert 0 < anchor["monotonic_ns"] < first_ns < 60 * 10**9
    offset_ns = wall_offset_ns(opened, part, first_ns)
    assert anchor["wall_ns"] < first_ns + offset_ns < time.time_ns()


def test_the_checker_reads_a_trace(bundle) -> None:
    """The operations of a recorded run are ordered wherever they touch the same bytes; without events they are not."""
    ops = list(read_ops(open_bundle(bundle).part("F", 0)))
    assert check_ops(ops) == []
    for op in ops:
        op.waits, op.seen = (), ()
    assert any(race.edge == "zero -> layer" for race in check_ops(ops))


def test_a_run_whose_operations_race_is_told(tmp_path, monkeypatch, capsys) -> None:
    """A device without an edge of its own order ends with 6 and with what names the pair; the trace is whole."""
    options = partial(DeviceOptions, omitted=frozenset({Edge.ZERO_FORWARD}))
    monkeypatch.setattr("tsviz.executor.options.DeviceOptions", options)
    assert tsviz(*RECORD, "--out", tmp_path / "run") == 6
    said = capsys.readouterr().err
    assert re.search(r"run: nothing orders [\d,]+ pairs of operations of the device\n.*tsviz findings ", said)
    assert tsviz("findings", tmp_path / "run", "--fail-on", "device_race") == 6


def test_a_draft_model_drafts(tmp_path) -> None:
    """With the model's first layer as its draft a run is recorded, verified and says so; it has a layer's ops more."""
    out = tmp_path / "run"
    assert tsviz(*RECORD, "--draft", "first:1", "--width", "3", "--out", out) == 0
    assert tsviz("verify", out) == 0
    bundle = open_bundle(out)
    assert bundle.meta["device"]["draft"] == "first:1"
    layers = bundle.part("F", 0).table("device_ops")["layer"].to_pylist()
    assert {n for n in layers if n is not None} == {0, 1, 2, 3}


STORING = (*RECORD, "--model", "tiny", "--storage", "--store")


def test_pages_of_another_model_are_not_taken(tmp_path) -> None:
    """Two seeds and one seed in the other mode, in one store, put their pages apart; each trace tells what it ran."""
    runs = {"one": (), "two": ("--seed", "5"), "fast": ("--mode", "fast")}
    told = {}
    for name, words in runs.items():
        assert tsviz(*STORING, tmp_path / "store", *words, "--out", tmp_path / name) == 0
        bundle = open_bundle(tmp_path / name)
        assert not any(bundle.part("F", 0).table("transfers")["from_storage"].to_pylist())
        told[name] = bundle.meta["device"]
    assert len(list((tmp_path / "store").iterdir())) == 3
    assert told["one"]["weights"] == told["fast"]["weights"] != told["two"]["weights"]
    assert len({device["page_namespace"] for device in told.values()}) == 3


def test_a_store_that_takes_no_pages_ends_a_recording(tmp_path, monkeypatch, capfd) -> None:
    """One line names the page's file and why; what was recorded until then opens and says so too."""
    monkeypatch.setattr(backups, "PUT_PAUSES_S", ())
    monkeypatch.setattr(PageStore, "put", lambda *_, **__: os.open(tmp_path / "none" / "x", os.O_RDONLY))
    assert tsviz(*STORING, tmp_path / "store", "--out", tmp_path / "run") == 3
    told = capfd.readouterr().err
    assert told.startswith(f"error: {tmp_path}/store/")
    assert "a page could not be put into storage in 1 attempts: No such file or directory; the trace holds" in told
    bundle = open_bundle(tmp_path / "run")
    assert bundle.end["error"] in told
    assert bundle.part("F", 0).last_round > 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--model", "none-such"), "error: --model: expected one of tiny, "),
        (("--model", "tiny", "--groups", "full:8"), "--groups does not go with --model"),
        (("--model", "tiny-replay", "--chunk", "8"), "error: --chunk: expected at least 20 tokens a round, found 8"),
        (("--model", "tiny", "--memory", "1", "--prefix-page", "262144"), "error: --memory: expected at least"),
        (
            ("--model", "tiny", "--draft", "first:2", "--width", "3"),
            "error: --draft: expected first:1, of the model's 2 layers, found first:2",
        ),
        (
            ("--model", "tiny", "--draft", "first:x", "--width", "3"),
            "error: --draft: expected first:N with a number of",
        ),
        (
            ("--model", "tiny", "--draft", "none-such", "--width", "3"),
            "error: --draft: expected first:N, one of tiny, ",
        ),
        (("--model", "tiny", "--draft", "tiny-state", "--width", "3"), "error: --draft: expected layers of full"),
        (("--model", "tiny", "--draft", "tiny"), "--draft needs --width 2 or more: it says what a wide decode step"),
        (("--model", "tiny", "--prompt", "hi"), "--model needs either --workload or --prompt, found both"),
        (
            ("--model", "tiny", "--storage", "--store", "pages"),
            "error: --storage needs --host-pages 2 or more, since it lies behind the host tier; found 0",
        ),
        (
            ("--model", "tiny", "--pages", "3"),
            "pool: 2 LCM blocks hold requests of up to 32 tokens, and the",
        ),
        (("--model", "tiny", "--pages", "3000000000"), "--pages"),
        # 8,192,000,000,000 bytes of pages, the rest what slots remember of requests of so many tokens
        (("--model", "tiny", "--pages", "2000000000"), "cpu memory: pools and slots need 9,"),
        (("--model", "tiny", "--host-pages", "900000000"), "cpu memory: pools and slots need 3,"),
        (("--model", "tiny", "--batch", "1048576"), "cpu memory: pools and slots need 13"),
        (("--model", "tiny", "--layerwise"), "--layerwise needs --node P: it is the prefill node that sends"),
        (("--mode", "exact"), "--mode needs --model"),
        (("--model", "tiny", "--store", "pages"), "--store and --storage go together: a model's storage tier is"),
        (("--model", "tiny", "--storage", "--host-pages", "9"), "--store and --storage go together: a model's"),
        (
            ("--model", "tiny", "--storage", "--host-pages", "9", "--store", "/dev/null/x"),
            "--store /dev/null/x: expected a folder that files can be written to and linked in: Not a directory",
        ),
    ],
)
def test_what_cannot_run_is_told_before_anything_is_written(words, told, tmp_path, capfd) -> None:
    """A model that is not there, a pool too small and options that do not go together: one sentence, no file."""
    out = tmp_path / "x"
    assert tsviz("record", "--scheduler", "twin", "--workload", "poisson:requests=2,rate=9", "--out", out, *words) == 2
    assert told in capfd.readouterr().err
    assert not out.exists()


def test_a_gpu_that_is_not_there_is_told_before_anything_is_written(monkeypatch, tmp_path, capfd) -> None:
    """`--streams cuda` on a machine without a GPU is one sentence."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert tsviz(*RECORD, "--streams", "cuda", "--out", tmp_path / "x") == 2
    assert "error: --streams: there is no CUDA device here" in capfd.readouterr().err
    assert not (tmp_path / "x").exists()


def test_without_torch_one_sentence_says_what_to_install(monkeypatch, tmp_path, capfd) -> None:
    """A machine without torch is told what to install."""
    monkeypatch.setitem(sys.modules, "tsviz.executor.models", None)
    assert tsviz(*RECORD, "--out", tmp_path / "x") == 2
    assert "pip install 'tsviz[executor]'" in capfd.readouterr().err
