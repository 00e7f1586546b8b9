"""What is left of a ring: nothing committed is dropped in silence, and where one may not be made nothing is begun."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.trace.lives import record
from tests.trace.test_ring import STEPS
from tsviz.cli.main import main
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.ring.keeper import keep
from tsviz.replay.ring.keeping import Keeper
from tsviz.replay.ring.triggers import BadTrigger, check
from tsviz.scheduler import compat
from tsviz.trace.reader import Part, open_bundle
from tsviz.trace.ring import OTHER_KEEPER, RingOptions, parse_ring, ring_home, segment_directories
from tsviz.trace.segments import parse_commit

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(real: ModuleType, tmp_path: Path) -> Path:
    """A ring of some 100 rounds, in more than four segments, whose recorder was killed."""
    home = ring_home(tmp_path / "out")
    record(real, home, 505, tokens="identity", steps=STEPS, ring=RingOptions(1.2e-6, None, ("finding:livelock",)))
    (home / "end.json").unlink()
    (home / "recording.lock").touch()
    assert len(segments(home)) > 4
    return home


def segments(home: Path) -> list[Path]:
    """The segments of its only part."""
    return segment_directories(home / "parts" / "N.0")


def repaired(home: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Part, str]:
    """Repair, and return the part and what is said to be lost."""
    with pytest.raises(SystemExit) as ended:
        main(["repair", str(home), str(out), "--format", "json"])
    assert ended.value.code == 0
    (row,) = json.loads(capsys.readouterr().out)
    part = open_bundle(out).parts[0]
    assert verify(part, compat).complete
    assert row["rounds"] == part.last_round
    return part, row["lost"]


@pytest.fixture
def last_round(real: ModuleType, tmp_path: Path) -> int:
    """The last round of that recording, by a recording of the same calls without a ring."""
    record(real, tmp_path / "whole", 505, tokens="identity", steps=STEPS)
    return open_bundle(tmp_path / "whole").parts[0].last_round


def test_everything_that_is_committed_is_written(
    home: Path, tmp_path: Path, last_round: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A keeper that was killed before it dropped anything: from round 1 to the last, and the ring stays as it is."""
    before = sorted((str(path), path.stat().st_size) for path in home.rglob("*"))
    part, lost = repaired(home, tmp_path / "new", capsys)
    assert (part.meta.get("starts_at", 1), part.last_round) == (1, last_round)
    assert "killed" in lost and "behind" not in lost
    assert sorted((str(path), path.stat().st_size) for path in home.rglob("*")) == before


@pytest.mark.parametrize("cut", [False, True])
def test_the_last_rounds_are_there_when_a_keeper_had_dropped_some(
    home: Path, tmp_path: Path, last_round: int, cut: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A keeper that sealed one segment: from its first round to the last commit that holds, with the keyframe."""
    Keeper(home).step()
    if cut:
        commits = segments(home)[-1] / "commits.jsonl"
        lines = commits.read_bytes()
        commits.write_bytes(lines[: lines.rindex(b"\n", 0, -1) + 9])
    part, _ = repaired(home, tmp_path / "new", capsys)
    assert part.meta["starts_at"] > 1
    assert part.rows("gaps") > 0
    assert part.last_round == last_round or (cut and part.last_round > last_round // 2)


@pytest.mark.parametrize("damage", ["missing", "flipped"])
def test_behind_a_segment_that_is_gone_or_damaged_nothing_is_made_up(
    home: Path, tmp_path: Path, last_round: int, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trace ends in front of it, verifies, and names the segment."""
    third = segments(home)[2]
    if damage == "missing":
        shutil.rmtree(third)
    else:
        file = third / "calls.arrows"
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 4
        file.write_bytes(data)
    part, lost = repaired(home, tmp_path / "new", capsys)
    assert 0 < part.last_round < last_round
    how = "is missing" if damage == "missing" else "is damaged"
    assert f"behind round {part.last_round:,} segment 000003 {how}" in lost


@pytest.mark.parametrize("kept", [True, False])
def test_of_a_damaged_first_segment_the_commits_that_hold_are_kept(
    real: ModuleType, tmp_path: Path, kept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bit of its calls flipped: behind a commit the rounds up to it verify, in the first one nothing is written."""
    home = ring_home(tmp_path / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tsviz.trace.writer.FLUSH_SECONDS", 0.0)
        patch.setattr("tsviz.trace.writer._TAKE_ENTRIES", 8)
        record(real, home, 505, tokens="identity", steps=120, ring=RingOptions(1.2e-6, None))
    (home / "end.json").unlink()
    (home / "recording.lock").touch()
    first = segments(home)[0]
    commits = [parse_commit(line) for line in (first / "commits.jsonl").read_bytes().splitlines()]
    ends = [(each["tables"]["calls"][0], each["last_round"]) for each in commits if each and "calls" in each["tables"]]
    held = next(end for end, last_round in ends if last_round > 2)
    assert held < ends[-1][0], "more than one commit"
    file = first / "calls.arrows"
    data = bytearray(file.read_bytes())
    data[held + 9 if kept else 200] ^= 4
    file.write_bytes(data)
    if kept:
        part, lost = repaired(home, tmp_path / "new", capsys)
        assert part.last_round == max(last_round for end, last_round in ends if end <= held)
        assert f"behind round {part.last_round} segment 000001 is damaged ({file}: bytes 0 to " in lost
        assert lost.endswith("; nothing that came behind it is in this trace")
        return
    with pytest.raises(SystemExit) as ended:
        main(["repair", str(home), str(tmp_path / "new"), "--format", "json"])
    assert (ended.value.code, (tmp_path / "new").exists()) == (3, False)
    said = f"expected a round that can be read, found none: N/0: every round: the oldest segment is damaged ({file}: "
    assert said in capsys.readouterr().err


def test_of_a_sealed_segment_without_its_keyframe_the_rows_are_kept(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The twin's state is a table that a trace opens without: its rounds stay, and that it is lost is said."""
    Keeper(home).step()
    (file,) = (home / "kept").rglob("keyframes.parquet")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    with pytest.raises(SystemExit) as ended:
        main(["repair", str(home), str(tmp_path / "new"), "--format", "json"])
    (row,) = json.loads(capsys.readouterr().out)
    (part,) = open_bundle(tmp_path / "new").parts
    assert (ended.value.code, row["rounds"]) == (0, part.last_round)
    assert "table keyframes of segment 000002 (" in row["lost"]
    assert part.meta["starts_at"] > 1 and part.rows("rounds") > 0 and part.rows("keyframes") == 0


@pytest.mark.parametrize("there", ["file", "link", "folder"])
def test_a_run_does_not_begin_where_something_lies(tmp_path: Path, there: str) -> None:
    """At OUT.ring, a link to nowhere too: 2, what lies there, and the program is not started."""
    ring = tmp_path / "out.ring"
    match there:
        case "file":
            ring.write_text("mine")
        case "link":
            ring.symlink_to("nowhere")
        case _:
            ring.mkdir()
            (ring / "ring.json").write_text("{}")
    run = subprocess.run(
        [sys.executable, "-m", "tsviz", "run", "--ring", "4s", "--out", str(tmp_path / "out"), "--",
         "touch", str(tmp_path / "begun")],
        capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert run.returncode == 2
    assert f"{ring}: expected a path that is free, found something there" in run.stderr
    assert ("tsviz repair" in run.stderr) == (there == "folder")
    assert not (tmp_path / "begun").exists()


def test_a_ring_has_one_keeper(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second one, started while the first has the ring, ends at once; `repair` refuses, and names the first."""
    code = (
        "import sys; from pathlib import Path; from tsviz.replay.ring import keeper; home = Path(sys.argv[1])\n"
        "with keeper._locked(home) as alone:\n    print(alone, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as first:
        assert first.stdout is not None and first.stdout.readline() == "True\n"
        before = len(segments(home))
        assert keep(home) == OTHER_KEEPER
        with pytest.raises(SystemExit) as ended:
            main(["repair", str(home), str(tmp_path / "new")])
        assert (ended.value.code, (tmp_path / "new").exists()) == (2, False)
        said = f"{home}: its keeper (process {first.pid}) is alive and still writes {tmp_path / 'out'}: wait"
        assert said in capsys.readouterr().err
        assert len(segments(home)) == before
        first.communicate("")
    assert keep(home) == 0


@pytest.mark.parametrize(
    ("query", "why"), [("SELECT 1 AS x", "no column round"), ("FROM read_csv('/etc/passwd')", "Permission Error")]
)
def test_a_query_that_no_trace_answers_is_no_trigger(query: str, why: str) -> None:
    """It is asked of a trace without rows before anything is recorded."""
    with pytest.raises(BadTrigger, match=why):
        check([f"sql:{query}"])


def test_a_trigger_that_fails_when_it_is_asked_leaves_what_was_kept(real: ModuleType, tmp_path: Path) -> None:
    """A text that is no number, which only rows show: the trace is written, and says that the trigger failed."""
    trigger = "sql:rounds.retracted_requests > 'abc'"
    check([trigger])
    home = ring_home(tmp_path / "out")
    record(real, home, 505, tokens="identity", steps=STEPS, ring=RingOptions(1.2e-6, None, (trigger,)))
    assert keep(home) == 0
    reason = open_bundle(tmp_path / "out").end["parts"]["N/0"]["reason"]  # type: ignore[index]
    assert reason.startswith("ring: a trigger could not be asked: ") and "abc" in reason


def test_a_ring_may_be_a_day_long() -> None:
    """As retention has it."""
    assert parse_ring("1d") == (86_400.0, None)
