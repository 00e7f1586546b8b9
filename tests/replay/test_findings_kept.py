"""Findings that were made before are read back, and only where nothing that they follow from has changed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tsviz.replay.findings import scan as findings
from tsviz.replay.findings.model import Checked
from tsviz.replay.findings.scan import CHECKS, check_kept, check_part
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.why.answer import facts_of
from tsviz.replay.why.facts import Facts
from tsviz.trace.errors import Damaged
from tsviz.trace.reader import open_bundle

TRACES = Path(__file__).resolve().parents[2] / "traces"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Asked:
    """Reads facts, and counts how often it was asked."""

    def __init__(self, facts: Facts | None) -> None:
        self.facts, self.times = facts, 0

    def __call__(self) -> Facts | None:
        self.times += 1
        return self.facts


def kept(path: Path, decided: str, read: Asked) -> list[Checked]:
    """Check the first part of a trace."""
    bundle = open_bundle(path)
    return list(check_kept(bundle, bundle.parts[0], decided, read))


def test_what_was_made_is_read_back_equal(cache: Path) -> None:
    """The second time every check ends as the first time, and as it does without a cache; facts are not read again."""
    path = TRACES / "retract-and-grant"
    bundle = open_bundle(path)
    index = build_index(bundle.parts[0])
    read = Asked(facts_of(bundle.parts[0], index))
    first = kept(path, "derived 310", read)
    assert read.times == 1
    assert kept(path, "derived 310", read) == first == check_part(bundle, bundle.parts[0], read.facts)
    assert read.times == 1
    assert any(one.outcome == "found" for one in first)


def test_decisions_that_reach_farther_make_them_anew(cache: Path) -> None:
    """What was not checkable without decisions is not read back when there are some."""
    path = TRACES / "retract-and-grant"
    without = Asked(None)
    assert sum(one.outcome == "not_checkable" for one in kept(path, "none 0", without)) > 5
    read = Asked(None)
    kept(path, "derived 310", read)
    assert read.times == 1


def test_another_threshold_is_another_check(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check whose threshold has changed is made anew: with 0 rounds any head of line is one."""
    path = TRACES / "head-of-line"
    (before,) = (one for one in kept(path, "none 0", Asked(None)) if one.check.name == "head_of_line")
    changed = tuple(replace(check, threshold=0) for check in CHECKS)
    monkeypatch.setattr(findings, "CHECKS", changed)
    (behind,) = (one for one in kept(path, "none 0", Asked(None)) if one.check.name == "head_of_line")
    assert (before.outcome, behind.outcome) == ("not_found", "found")


def test_a_damaged_file_is_made_anew(cache: Path) -> None:
    """A file of kept findings with a changed byte, or with other JSON, is not believed."""
    path = TRACES / "retract-and-grant"
    first = kept(path, "none 0", Asked(None))
    (file,) = (cache / "findings").glob("*.json")
    sound = file.read_text()
    for damaged in (sound.replace("retraction", "resurrection", 1), sound[: len(sound) // 2], "[]", "{}", ""):
        file.write_text(damaged)
        assert kept(path, "none 0", Asked(None)) == first
        assert file.read_text() == sound


def test_a_trace_that_changed_is_checked_anew(cache: Path, tmp_path: Path) -> None:
    """Nothing is read back for another recording at the same place."""
    path = tmp_path / "trace"
    shutil.copytree(TRACES / "retract-and-grant", path)
    first = kept(path, "none 0", Asked(None))
    shutil.rmtree(path)
    shutil.copytree(TRACES / "head-of-line", path)
    assert kept(path, "none 0", Asked(None)) != first


def test_damaged_tables_are_not_answered_for(cache: Path, tmp_path: Path) -> None:
    """A flipped byte in a table is told although everything was kept; of a large part only one in the footer."""
    path = tmp_path / "trace"
    shutil.copytree(TRACES / "retract-and-grant", path)
    kept(path, "none 0", Asked(None))
    (file,) = path.glob("parts/*/cold/operations.parquet")
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)
    with pytest.raises(Damaged, match=r"operations\.parquet"):
        kept(path, "none 0", Asked(None))
    part = open_bundle(path).parts[0]
    part.check_bytes(whole_bytes=0)
    data[-12] ^= 1
    file.write_bytes(data)
    with pytest.raises(Damaged, match="footer"):
        part.check_bytes(whole_bytes=0)


def test_a_cache_that_cannot_be_written_is_done_without(cache: Path) -> None:
    """Where the folder of the cache is a file, checks are made and nothing is kept."""
    cache.write_text("no folder")
    assert {"plan_breach", "head_of_line", "stall"} <= {
        one.check.name for one in kept(TRACES / "head-of-line", "none 0", Asked(None))
    }
