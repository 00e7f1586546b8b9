"""A bundle that is open while it is written, compacted, or cut short in the middle of either."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.trace.lives import record
from tests.trace.reading_process import everything
from tests.trace.recording_process import recorded
from tsviz.trace import compact, layout, writer
from tsviz.trace.errors import CannotRecord
from tsviz.trace.reader import Part, open_bundle
from tsviz.trace.tables import RECORDED
from tsviz.trace.writer import BundleWriter

PART = Path("parts") / "N.0"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A writer that commits whenever it looks."""
    monkeypatch.setattr(writer, "TAKE_SECONDS", 0.01)
    monkeypatch.setattr(writer, "FLUSH_SECONDS", 0.0)
    yield


def rows(part: Part) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables."""
    return {name: part.table(name).to_pylist() for name in RECORDED}


def assert_whole(part: Part) -> None:
    """Assert that the tables of a part agree with one another: no row refers to one that is not there."""
    calls = part.table("calls")["seq"].to_pylist()
    assert calls == list(range(len(calls)))
    rounds = part.table("rounds")["round"].to_pylist()
    assert rounds == list(range(1, part.last_round + 1))
    per_round = dict(zip(rounds, part.table("rounds")["decode_rows"].to_pylist(), strict=True))
    for row in part.table("operations").to_pylist():
        if row["kind"] == "decode":
            per_round[row["round"]] -= 1
    assert set(per_round.values()) <= {0}
    submissions = part.table("submissions")["submission"].to_pylist()
    assert submissions == list(range(len(submissions)))
    for name in ("operations", "events", "table_changes"):
        assert max(part.table(name)["submission"].to_pylist(), default=-1) < len(submissions)
    items = sum(c["items"] for c in part.table("calls").to_pylist() if c["kind"] == "advance")
    assert part.rows("events") == items


@pytest.mark.usefixtures("quick")
def test_a_follower_sees_committed_rows_that_agree(real: ModuleType, tmp_path: Path) -> None:
    """A bundle opened again and again while it is written is always whole, and only ever grows."""
    target = BundleWriter(tmp_path / "b", meta={})
    module, scheduler = recorded(real, target)
    seen: list[int] = []
    early: Part | None = None
    patience = time.monotonic() + 30
    # On a busy machine the writer may take a while to get its turn.
    while len(seen) < 25 or (seen[-1] == 0 and time.monotonic() < patience):
        step(module, scheduler)
        part = open_bundle(tmp_path / "b").parts[0]
        assert_whole(part)
        assert part.live
        seen.append(part.rows("calls"))
        if early is None and part.rows("rounds"):
            early = open_bundle(tmp_path / "b").parts[0]
            early_calls = early.rows("calls")
    target.close()
    assert seen == sorted(seen)
    assert seen[-1] > 0
    # What was opened early still shows what was committed then, though its files were compacted away meanwhile.
    assert early is not None
    assert early.rows("calls") == early_calls
    assert_whole(early)
    assert not (tmp_path / "b" / PART / "hot").exists()


_numbers = itertools.count()


def step(module: Any, scheduler: Any) -> None:
    """Serve a little, with requests that are new each time."""
    for _ in range(6):
        spec, number = module.RequestSpec(), next(_numbers)
        spec.request_id, spec.tokens = f"s{number}", [1, 2, 3, number % 5]
        scheduler.submit_requests([spec])
        plan = scheduler.next_execution_plan()
        execution = module.ExecutionEvent()
        for name in plan.forward[0].request_ids:
            event = module.ForwardEvent.ExtendResult()
            event.request_id, event.tokens = name, [4]
            execution.add_event(event)
            finish = module.ForwardEvent.Finish()
            finish.request_id = name
            execution.add_event(finish)
        scheduler.advance(execution)


def test_compaction_changes_no_row(real: ModuleType, tmp_path: Path) -> None:
    """Hot and compacted tables of the same lifetime hold the same rows in the same order."""
    for seed in (100, 101):
        path = tmp_path / str(seed)
        record(real, path, seed, role="D" if seed % 2 else "Fused", compacted=False)
        before = rows(open_bundle(path).parts[0])
        compact.compact_part(path / PART)
        part = open_bundle(path).parts[0]
        assert rows(part) == before
        assert not part.live
        assert part.torn is None


@pytest.mark.usefixtures("quick")
def test_compaction_cuts_row_groups_and_loses_none(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small commits become row groups of the limit, with the rest in the last one."""
    monkeypatch.setattr(compact, "ROW_GROUP_ROWS", 7)
    monkeypatch.setattr(compact, "_LIST_GROUP_ROWS", 5)
    record(real, tmp_path / "b", 100, compacted=False)
    before = rows(open_bundle(tmp_path / "b").parts[0])
    compact.compact_part(tmp_path / "b" / PART)
    part = open_bundle(tmp_path / "b").parts[0]
    assert rows(part) == before
    metadata = pq.ParquetFile(tmp_path / "b" / PART / "cold" / "calls.parquet").metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sizes[:-1] == [7] * (len(sizes) - 1)
    assert 1 <= sizes[-1] <= 7


class Stop(BaseException):
    """A crash at a chosen place."""


def crash_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: int) -> None:
    """Let the `when`-th call of a function stop everything before it does anything."""
    original, calls = getattr(owner, name), iter(range(1, 1 << 30))

    def stopping(*arguments: Any, **options: Any) -> Any:
        if next(calls) == when:
            raise Stop
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, stopping)


@pytest.mark.parametrize("place", ["write 1", "write 5", "manifest", "swap", "remove"])
def test_a_crash_while_compacting_loses_nothing(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Wherever compaction stops, the bundle reads as before, and compacting again completes it."""
    path = tmp_path / "b"
    record(real, path, 100, compacted=False)
    before = everything(path)
    with monkeypatch.context() as patched:
        name, _, count = place.partition(" ")
        owner, function = {
            "write": (compact, "_write"), "manifest": (layout, "write_json"), "swap": (Path, "replace"),
            "remove": (shutil, "rmtree"),
        }[name]  # fmt: skip
        if name in ("write", "manifest", "swap"):  # a killed process does not tidy up either
            patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        crash_at(patched, owner, function, int(count) if count else 2 if name == "swap" else 1)
        with pytest.raises(Stop):
            compact.compact_part(path / PART)
    assert everything(path) == before
    compact.compact_part(path / PART)
    assert everything(path) == before
    assert not (path / PART / "hot").exists()
    assert not (path / PART / "cold.draft").exists()


def test_a_closed_hot_bundle_is_not_live(real: ModuleType, tmp_path: Path) -> None:
    """A bundle that was closed without compaction says so; one that lost its closing commit is damaged."""
    record(real, tmp_path / "b", 100, compacted=False)
    assert not open_bundle(tmp_path / "b").parts[0].live
    (tmp_path / "b" / "end.json").unlink()
    commits = tmp_path / "b" / PART / "hot" / "commits.jsonl"
    commits.write_bytes(b"".join(commits.read_bytes().splitlines(keepends=True)[:-1]))
    assert open_bundle(tmp_path / "b").parts[0].live


def test_a_bundle_is_not_written_over_another(tmp_path: Path) -> None:
    """A path with content is refused, an empty directory is taken, an unknown token mode is a ValueError."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("taken", "file", "file/below"):
        with pytest.raises(CannotRecord, match=name):
            BundleWriter(tmp_path / name, meta={})
    (tmp_path / "empty").mkdir()
    BundleWriter(tmp_path / "empty", meta={}).close()
    with pytest.raises(ValueError, match="tokens"):
        BundleWriter(tmp_path / "other", meta={}, tokens="half")
    assert (tmp_path / "taken" / "x").read_text() == "mine"


def test_closing_twice_is_closing_once(real: ModuleType, tmp_path: Path) -> None:
    """A second close changes nothing."""
    target = BundleWriter(tmp_path / "b", meta={"argument": "not UTF-8: \udcff"})
    module, scheduler = recorded(real, target)
    step(module, scheduler)
    target.close({"why": "first"})
    target.close({"why": "second"})
    opened = open_bundle(tmp_path / "b")
    assert opened.end == {"why": "first"}
    assert opened.meta == {"argument": "not UTF-8: ?"}
