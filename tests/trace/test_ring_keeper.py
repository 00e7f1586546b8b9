"""The keeper of a flight recorder: what makes it write, what it leaves, and what it does when something dies."""

from __future__ import annotations

import http.client
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.trace.lives import record
from tests.trace.test_ring import STEPS
from tsviz.cli.main import main
from tsviz.cli.ringing import Keepers
from tsviz.replay.overview import overview
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.ring.fired import LAST, fired_round
from tsviz.replay.ring.http import HEADER, HTTP_FILE, serve
from tsviz.replay.ring.keeper import Told, keep
from tsviz.replay.ring.keeping import Keeper
from tsviz.replay.ring.triggers import BadTrigger, Rested, watching
from tsviz.scheduler import compat
from tsviz.trace import layout
from tsviz.trace.catalogue import CALLS, DECISIONS, PLANS
from tsviz.trace.endings import say_stopped
from tsviz.trace.errors import FellBehind
from tsviz.trace.reader import Bundle, open_bundle
from tsviz.trace.ring import NOTHING_KEPT, TRIGGER_FILE, RingOptions, ring_home

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "traces"


@pytest.fixture
def ringed(real: ModuleType, tmp_path: Path) -> Callable[..., Path]:
    """Record a lifetime of some 100 rounds into a ring with these triggers; return its home."""

    def made(*triggers: str, keep: int = 8, seconds: float = 1.2e-6, level: str = PLANS) -> Path:
        home = ring_home(tmp_path / "out")
        ring = RingOptions(seconds, None, triggers, keep)
        module = compat if level == DECISIONS else real
        record(module, home, 505, tokens="identity", steps=STEPS, ring=ring, level=level)
        return home

    return made


def test_a_recording_that_ended_is_written_out_and_the_ring_is_gone(
    ringed: Callable[..., Path], tmp_path: Path
) -> None:
    """What is older than the last quarters is dropped, as a warning says; the rest verifies, and opens at its end."""
    assert keep(ringed()) == 0
    bundle = open_bundle(tmp_path / "out")
    (part,) = bundle.parts
    first = part.meta["starts_at"]
    assert verify(part, compat).complete
    told = overview(bundle)
    assert told["parts"][0]["ended"] == "ring: the recording ended"
    assert fired_round(bundle.path) == LAST
    held = [told["parts"][0][key] for key in ("rounds", "first_round", "last_round")]
    assert held == [part.last_round - first + 1, first, part.last_round]
    (warning,) = told["warnings"]
    assert warning.startswith(f"N/0: rounds 1 to {first - 1} were dropped, ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_condition_in_sql_writes_what_is_kept_once_for_what_happened(
    ringed: Callable[..., Path], tmp_path: Path
) -> None:
    """It fires at the first look, with the position, where it is opened; without `end` the end writes nothing more."""
    assert keep(ringed("sql:rounds.round = 30", seconds=1.0)) == 0
    ended = overview(open_bundle(tmp_path / "out"))["parts"][0]["ended"]
    assert ended == "ring: sql at N/0:30: rounds.round = 30"
    assert [fired_round(tmp_path / "out", *part) for part in ((), ("N", 0), ("X", 0))] == [30, 30, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.parametrize(
    ("level", "predicate"), [(CALLS, "operations.round > 30"), (DECISIONS, "admissions.round > 30")]
)
def test_a_condition_may_ask_for_what_its_level_has(
    ringed: Callable[..., Path], tmp_path: Path, level: str, predicate: str
) -> None:
    """Rows of plans in a ring of calls, which are made again for it; decisions where they are recorded."""
    assert keep(ringed(f"sql:{predicate}", level=level, seconds=1.0)) == 0
    bundle = open_bundle(tmp_path / "out")
    assert overview(bundle)["parts"][0]["ended"].startswith("ring: sql at N/0:3")
    assert (bundle.parts[0].level, bundle.parts[0].rows("operations") == 0) == (level, level == CALLS)


def test_a_condition_that_never_holds_writes_nothing(ringed: Callable[..., Path], tmp_path: Path) -> None:
    """Nor is anything of the ring left."""
    assert keep(ringed("sql:rounds.round < 0", seconds=1.0)) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_recorder_that_died_is_a_crash_that_is_written_out(ringed: Callable[..., Path], tmp_path: Path) -> None:
    """A ring without its end and with a lock that nobody holds."""
    home = ringed("finding:livelock")
    (home / "end.json").unlink()
    (home / "recording.lock").touch()
    assert keep(home) == 0
    assert overview(open_bundle(tmp_path / "out"))["parts"][0]["ended"].startswith("ring: crash: ")


def test_a_recording_that_had_to_stop_says_why_in_what_is_written_out(
    ringed: Callable[..., Path], tmp_path: Path
) -> None:
    """It was not closed, and its program goes on: the reason that the recorder left is that of the trace."""
    home = ringed("finding:livelock")
    (home / "end.json").unlink()
    (home / "recording.lock").touch()
    say_stopped(home, FellBehind("101 entries waited to be written, more than 100"))
    assert keep(home) == 0
    ended = overview(open_bundle(tmp_path / "out"))["parts"][0]["ended"]
    assert ended.startswith("ring: crash: recording had to stop, 20")
    assert ended.endswith("FellBehind: 101 entries waited to be written, more than 100")


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [({"crash": "uncaught KeyError"}, b"1", "uncaught KeyError"), ({}, b"3", "the program ended with 3"),
     ({}, b"0", ""), ({}, b"", "")],
)  # fmt: skip
def test_a_crash_that_closes_the_recording_is_one(
    ringed: Callable[..., Path], tmp_path: Path, end: dict[str, str], status: bytes, reason: str
) -> None:
    """An exception that nobody caught, or an exit code that is not 0; a normal end leaves nothing without `end`."""
    home = ringed("signal:USR2")
    layout.write_json(home / "end.json", {"parts": {}, "error": None} | end)
    assert keep(home, Told(io.BytesIO(status))) == 0
    assert [path.name for path in tmp_path.iterdir()] == (["out"] if reason else [])
    if reason:
        assert overview(open_bundle(tmp_path / "out"))["parts"][0]["ended"] == f"ring: crash: {reason}"


def test_a_ring_without_locks_ends_with_its_program(
    ringed: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither closed nor locked: once the program has ended, what is there is written out as a crash."""
    monkeypatch.setattr("tsviz.replay.ring.keeper._CLOSE_SECONDS", 0.0)
    home = ringed("signal:USR2")
    (home / "end.json").unlink()
    assert keep(home, Told(io.BytesIO(b"0"))) == 0
    assert overview(open_bundle(tmp_path / "out"))["parts"][0]["ended"].startswith("ring: crash: ")


def test_a_crash_of_which_nothing_was_committed_is_told(ringed: Callable[..., Path], tmp_path: Path) -> None:
    """The keeper ends with a code of its own, and nothing is left."""
    home = ringed("signal:USR2")
    (home / "end.json").unlink()
    (home / "recording.lock").touch()
    shutil.rmtree(home / "parts" / "N.0")
    assert keep(home) == NOTHING_KEPT
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [("sql:nonsense.foo < 4", "there is no table nonsense"), ("sql:pool.available_blocks < 4", "it reads decisions"),
     ("sql:SELECT round FROM verdicts", "it reads decisions"), ("signal:KILL", "no process gets to see it"),
     ("signal:SIGSTOP", "no process gets to see it"), ("signal:TERM", "it is the program's, or its end"),
     ("signal:INT", "it is the program's, or its end"), ("sql:rounds.foo = 1", "no column foo"),
     ("finding:never_fits", "it needs decisions, which a ring of plans does not hold")],
)  # fmt: skip
def test_a_trigger_that_can_never_fire_is_refused_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    """With 2, the trigger and the reason; the program is not begun."""
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "run",
                "--ring",
                "20s",
                "--trigger",
                text,
                "--out",
                str(tmp_path / "out"),
                "--",
                "touch",
                str(tmp_path / "x"),
            ]
        )
    said = capsys.readouterr().err
    assert (ended.value.code, text in said, why in said, list(tmp_path.iterdir())) == (2, True, True, [])


def test_a_run_on_virtual_time_says_that_no_trigger_fired(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Three requests in a pool for all of them retract nobody: nothing is written, and nothing of the ring is left."""
    run = ["record", "--workload", "poisson:requests=3,rate=9,prompt_tokens=8,output_tokens=2", "--pages", "99"]
    ring = ["--ring", "20s", "--trigger", "sql:rounds.retracted_requests > 0", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main([*run, "--scheduler", "twin", "--level", "plans", *ring])
    assert ended.value.code in (0, None)
    assert "out: no trigger fired; nothing was kept" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("mode", "code"), [("raise", 1), ("done", 0), ("exit", 7)])
def test_a_program_under_a_ring_that_ends_badly_leaves_its_last_part(
    real: ModuleType, tmp_path: Path, mode: str, code: int
) -> None:
    """An uncaught exception (by its name alone) and an exit code are crashes; where none was, no trigger fired."""
    program = ROOT / "tests" / "adapters" / "plain_program.py"
    run = subprocess.run(
        [sys.executable, "-c", "from tsviz.cli.main import main; main()", "run", "--out", str(tmp_path / "out"),
         "--ring", "60s", "--trigger", "signal:USR2", "--", sys.executable, str(program), "20", mode],
        input="", capture_output=True, text=True, cwd=ROOT, timeout=100, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert run.returncode == code
    assert ("no trigger fired; nothing was kept" in run.stderr) == (mode == "done")
    assert [path.name for path in tmp_path.iterdir()] == ([] if mode == "done" else ["out"])
    if mode != "done":
        ended = overview(open_bundle(tmp_path / "out"))["parts"][0]["ended"]
        words = {"raise": "uncaught KeyError", "exit": "the program ended with 7"}
        assert ended == f"ring: crash: {words[mode]}"


def test_a_long_run_with_one_live_lock_leaves_the_rounds_around_it(real: ModuleType, tmp_path: Path) -> None:
    """Three minutes on virtual time with 20 s kept: the finding fires, and what is kept re-executes from its keyframe.

    The four requests at its end evict one another for ever: two prompts of seven pages cannot stand on eight pages next
    to the one of a third. Three hours of it were run by hand (docs/recording.md).
    """
    calm = [(f"calm{number}", 12_000 * number, 4, 2) for number in range(10)]
    lock = [("c", 125_000, 2, 8), ("b", 125_000, 14, 1), ("a", 125_000, 14, 1), ("d", 125_000, 3, 1)]
    names = ("id", "arrival_ms", "prompt_tokens", "output_tokens")
    rows = [json.dumps(dict(zip(names, values, strict=True))) for values in calm + lock]
    (tmp_path / "lock.jsonl").write_text("\n".join(rows))
    with pytest.raises(SystemExit) as ended:
        main([
            "record", "--workload", f"plain:{tmp_path / 'lock.jsonl'}", "--groups", "full:2", "--prefix-page", "2",
            "--chunk", "2", "--batch", "4", "--pages", "9", "--host-pages", "2", "--mixed", "--round-ms", "100",
            "--token-us", "0", "--max-new", "undeclared", "--tokens", "identity", "--ring", "20s",
            "--trigger", "finding:livelock>40", "--max-rounds", "150", "--out", str(tmp_path / "out"),
        ])  # fmt: skip
    assert ended.value.code in (0, None)
    bundle = open_bundle(tmp_path / "out")
    part = bundle.parts[0]
    assert overview(bundle)["parts"][0]["ended"].startswith("ring: finding livelock at F/0:")
    found = verify(part, compat)
    assert found.complete and found.verified_rounds > 40 and part.meta["starts_at"] > 20
    assert not ring_home(tmp_path / "out").exists()


def test_a_word_from_outside_writes_what_is_kept(ringed: Callable[..., Path], tmp_path: Path) -> None:
    """A file `trigger` is taken, with its reason; the newest two of three are left where two are to be kept."""
    home = ringed("signal:USR2", keep=2)
    keeper = Keeper(home)
    for reason in ("one", "two", "three"):
        (home / TRIGGER_FILE).write_text(reason)
        while (home / TRIGGER_FILE).exists():
            assert keeper.step()
    ended = {
        path.name: overview(open_bundle(path))["parts"][0]["ended"] for path in tmp_path.glob("out*") if path != home
    }
    assert ended == {"out": "ring: three", "out.2": "ring: two"}


def test_a_trigger_over_http_needs_the_token_and_loopback(tmp_path: Path) -> None:
    """403 without the token, with a wrong one or under another host's name; 202 with it; the file is the owner's."""
    server = serve(tmp_path, 0)
    try:
        told = json.loads((tmp_path / HTTP_FILE).read_text())
        assert (tmp_path / HTTP_FILE).stat().st_mode & 0o777 == 0o600
        assert server.server_address[0] == "127.0.0.1"

        def post(path: str, headers: dict[str, str]) -> int:
            asked = http.client.HTTPConnection("127.0.0.1", told["port"], timeout=20)
            asked.request("POST", path, headers=headers)
            return asked.getresponse().status

        good = {HEADER: told["token"]}
        assert post("/trigger", {}) == post("/trigger", {HEADER: "x"}) == 403
        assert post("/trigger", {**good, "Host": "example.com"}) == 403
        assert not (tmp_path / TRIGGER_FILE).exists()
        assert (post("/other", good), post("/trigger", good)) == (404, 202)
        assert (tmp_path / TRIGGER_FILE).read_text() == "http"
    finally:
        server.shutdown()
        server.server_close()


def test_a_finding_fires_once_while_it_lasts() -> None:
    """The live-lock that ships is found at its first round, and not again at the same rounds."""
    (trigger,) = watching(["finding:livelock"])
    bundle = open_bundle(TRACES / "mixed-undeclared-livelock")
    assert [trigger.fired(bundle), trigger.fired(bundle)] == ["finding livelock at F/0:2522", ""]


def test_a_condition_that_lasts_fires_again_once_the_ring_holds_only_newer_rounds() -> None:
    """It holds in every round of a ring of 100: fired at 100, it is quiet while round 100 is kept, and fires at 200."""

    class Lasting:
        def fired(self, bundle: Bundle) -> str:
            return f"at {bundle.parts[0].last_round}"

    def ring(last: int) -> Any:
        moving = SimpleNamespace(node="N", rank=0, meta={"starts_at": max(1, last - 99)}, last_round=last)
        still = SimpleNamespace(node="N", rank=1, meta={}, last_round=7)
        return SimpleNamespace(parts=[moving, still])

    trigger = Rested(Lasting())
    assert [trigger.fired(ring(last)) for last in (100, 101, 199, 200, 201)] == ["at 100", "", "", "at 101", ""]


def test_who_waits_for_a_keeper_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, however long it takes."""

    class Slow:
        stdin, returncode, waits = None, 0, 0

        def poll(self) -> int | None:
            return 0 if self.waits == 3 else None

        def wait(self, timeout: float) -> None:
            self.waits += 1
            raise subprocess.TimeoutExpired("keeper", timeout)

    monkeypatch.setattr("tsviz.cli.ringing._SAY_SECONDS", 0.0)
    keepers = Keepers()
    keepers._processes[tmp_path / "out.ring"] = Slow()  # type: ignore[assignment]
    assert keepers.wait() == []
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f"tsviz: waiting for the keeper of {tmp_path / 'out.ring'} ")


@pytest.mark.parametrize(
    "text", ["finding:rank_divergence", "finding:nothing", "signal:NONE", "http:x", "sql:", "later"]
)
def test_what_is_no_trigger_is_refused(text: str) -> None:
    """A finding that compares ranks too."""
    with pytest.raises(BadTrigger, match="expected"):
        watching([text])


def test_a_program_under_a_ring_leaves_its_last_part_when_it_is_killed(real: ModuleType, tmp_path: Path) -> None:
    """`tsviz run --ring` of a program that kills itself: its keeper writes a crash, which verifies."""
    program = ROOT / "tests" / "adapters" / "plain_program.py"
    run = subprocess.run(
        [sys.executable, "-c", "from tsviz.cli.main import main; main()", "run", "--out", str(tmp_path / "out"),
         "--ring", "60s", "--", sys.executable, str(program), "20", "kill", str(tmp_path / "out.ring"), "000001"],
        input="", capture_output=True, text=True, cwd=ROOT, timeout=100, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert run.returncode == -signal.SIGKILL
    bundle = open_bundle(tmp_path / "out")
    assert overview(bundle)["parts"][0]["ended"].startswith("ring: crash")
    assert verify(bundle.parts[0], compat).complete
    assert not (tmp_path / "out.ring").exists()


def test_a_keeper_that_was_killed_can_be_started_again(ringed: Callable[..., Path], tmp_path: Path) -> None:
    """Killed before it began, or after it sealed a segment: the next one ends with the same trace."""
    home = ringed()
    shutil.copytree(home, tmp_path / "copy.ring")
    Keeper(home).step()
    assert keep(home) == keep(tmp_path / "copy.ring") == 0
    one, two = (open_bundle(tmp_path / name).parts[0] for name in ("out", "copy"))
    assert one.table("rounds").to_pylist() == two.table("rounds").to_pylist()
    assert one.table("gaps").to_pylist() == two.table("gaps").to_pylist()
