"""Bisection over versions that are made up; one test asks the package index and is not run by default."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tsviz.replay.bisect.runner import job_of, runner_text
from tsviz.replay.bisect.search import BadVersions, CannotBegin, CannotRun, Compared, Outcome, Ran, bisect, chosen
from tsviz.replay.bisect.versions import NoIndex, Versions, available_versions, read_result
from tsviz.replay.repro.data import closed_loop
from tsviz.scheduler import compat as twin

from .apart_runs import locked, record

KNOWN = [f"0.1.{n}" for n in range(20, 30)]


def ran(version: str, *digests: str, problem: str = "lock") -> Ran:
    """What a version made."""
    return Ran(version, digests, tuple(f"line {d}" for d in digests), (), problem)


def versions(changed_from: int, broken: tuple[int, ...] = ()) -> dict[str, Outcome]:
    """Plans differ in round 2 from a version on; some versions cannot run."""
    made: dict[str, Outcome] = {}
    for n in range(20, 30):
        version = f"0.1.{n}"
        late = n >= changed_from
        made[version] = ran(version, "p", "q2" if late else "q", problem="" if late else "lock")
        if n in broken:
            made[version] = CannotRun(version, "no such field")
    return made


def test_the_first_version_that_plans_otherwise_is_named() -> None:
    """Changed from 0.1.27 on: that version, its first different round and both lines are in the result."""
    told: list[Compared] = []
    result = bisect(KNOWN, "0.1.24", versions(27).__getitem__, told.append)
    assert (result.first_changed, result.first_without) == ("0.1.27", "0.1.27")
    changed = result.versions[7]
    assert (changed.outcome, changed.round, changed.expected, changed.got) == ("changed", 2, "line q", "line q2")
    assert [c.version for c in result.versions] == KNOWN
    assert sorted(c.version for c in told) == KNOWN, "every version is run once"


def test_halving_finds_the_change_before_the_rest_is_run() -> None:
    """Behind the base 0.1.24 the halves are 27 and 26 or 28: the change is known before 0.1.25 is run."""
    order: list[str] = []
    bisect(KNOWN, "0.1.24", lambda v: (order.append(v), versions(27)[v])[1], lambda _: None)
    assert order.index("0.1.27") < order.index("0.1.25")


def test_a_version_that_cannot_run_is_no_divergence() -> None:
    """0.1.25 and 0.1.26 lack a field: they are named with the reason, and the change is still 0.1.27's."""
    result = bisect(KNOWN, "0.1.24", versions(27, (25, 26)).__getitem__, lambda _: None)
    assert [(c.outcome, c.note) for c in result.versions[5:7]] == [("cannot run", "no such field")] * 2
    assert result.first_changed == "0.1.27"


def test_a_base_that_cannot_run_ends_it() -> None:
    """Without the run of the recorded version there is nothing to compare with."""
    with pytest.raises(CannotBegin, match=r"0\.1\.24, with which the trace was recorded"):
        bisect(KNOWN, "0.1.24", versions(27, (24,)).__getitem__, lambda _: None)


def test_a_range_of_versions_is_read() -> None:
    """Both ends count, in order of numbers, not of letters; the base is always there."""
    assert chosen(["0.1.9", "0.1.24", "0.1.10", "0.1.25"], "0.1.9..0.1.10", "0.1.24") == ["0.1.9", "0.1.10", "0.1.24"]
    assert chosen(KNOWN, None, "0.1.27") == ["0.1.27", "0.1.28", "0.1.29"]
    with pytest.raises(BadVersions, match="no version of the index is in it"):
        chosen(KNOWN, "0.2.0..0.3.0", "0.1.24")
    with pytest.raises(BadVersions, match="expected a version"):
        chosen(KNOWN, "new..old", "0.1.24")


def test_a_process_that_died_is_named_by_its_signal(tmp_path: Path) -> None:
    """A package that aborts the process cannot run; what it said last is the reason."""
    outcome = read_result("0.1.3", tmp_path / "none", -6, "first\nCheck failed: pages\n")
    assert outcome == CannotRun("0.1.3", "died of SIGABRT: Check failed: pages")


def test_no_network_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that does not answer is not the same as no versions."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    with pytest.raises(NoIndex, match="no versions of tokenspeed-scheduler"):
        available_versions()


def test_a_version_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    """A stand-in for an installed version makes the run, says which setting it does not know, and shows the finding."""
    part = record(locked(), tmp_path / "t").parts[0]
    job = job_of(closed_loop(part, twin, 140), "livelock", 2)
    job["settings"]["a_field_of_tomorrow"] = 1
    folder = tmp_path / "versions"
    package = folder / "version-0.0.1" / "tokenspeed_scheduler"
    package.mkdir(parents=True)
    here = Path(__file__).parents[2]
    (package / "__init__.py").write_text(
        f"import sys\nsys.path.append({str(here)!r})\nfrom tsviz.scheduler.compat import *\n"
    )
    outcome = Versions(folder, job).run("0.0.1")
    assert isinstance(outcome, Ran), outcome
    assert outcome.unknown == ("a_field_of_tomorrow",)
    assert "LIVE-LOCK" in outcome.problem
    assert len(outcome.digests) == 140


def test_the_process_needs_nothing_of_the_project() -> None:
    """The text that is run names no module of ours."""
    assert "tsviz" not in runner_text()


@pytest.mark.skipif("TSVIZ_TEST_INDEX" not in os.environ, reason="asks the package index: set TSVIZ_TEST_INDEX=1")
def test_real_versions(tmp_path: Path) -> None:
    """0.1.24 and 0.1.25 make the live-lock's plans alike."""
    part = record(locked(), tmp_path / "t").parts[0]
    run = Versions(tmp_path, job_of(closed_loop(part, twin, 140), "livelock", 2)).run
    result = bisect(["0.1.24", "0.1.25"], "0.1.24", run, lambda _: None)
    assert [c.outcome for c in result.versions] == ["equal", "equal"]
    assert [c.finding for c in result.versions] == [True, True]
