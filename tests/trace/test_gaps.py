"""Plans that were dropped while recording: calls are complete, the gap is told, and what lies behind it is proven."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow.compute as pc
import pytest

from tests.cli.conftest import Tsviz, tsviz
from tests.trace import lives
from tests.trace.lives import record
from tsviz.cli.level import not_recorded
from tsviz.replay.keyframes.book import Keyframe
from tsviz.replay.keyframes.keyframe import state_digest
from tsviz.replay.overview import overview
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.reexecution.keyframe_files import KeyframeFiles
from tsviz.replay.reexecution.reach import reach
from tsviz.replay.reexecution.run import Reexecution
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.slice import write_slice
from tsviz.replay.survey.ask import Extent, lost_time
from tsviz.replay.view import open_view
from tsviz.report.library import Library
from tsviz.report.page import page
from tsviz.report.subject import Subject
from tsviz.scheduler import compat
from tsviz.trace.apart import ApartWriter
from tsviz.trace.backlog import Backlog
from tsviz.trace.catalogue import PLAN_TABLES
from tsviz.trace.errors import FellBehind
from tsviz.trace.gaps import LostRounds
from tsviz.trace.privacy import BEHIND
from tsviz.trace.reader import Part, open_bundle
from tsviz.trace.recorder import Recorder
from tsviz.trace.ring import RingOptions
from tsviz.trace.writer import BundleWriter
from tsviz.tui.panes.known import title
from tsviz.tui.study import Known

__all__ = ["tsviz"]


def dropping(kind: type) -> type:
    """Return a writer of which every recorder drops plans in twenty calls of sixty."""

    class Dropping(kind):  # type: ignore[misc]
        def recorder(self, **options: Any) -> Recorder:
            made: Recorder = super().recorder(**options)
            calls, inner = itertools.count(), made.now_ns

            def now_ns() -> int:
                call = next(calls) % 60
                if call in (20, 40):
                    (made.drop_plans if call == 20 else made.keep_plans)()
                return inner()

            made.now_ns = now_ns
            return made

    return Dropping


def part_with_gaps(
    monkeypatch: pytest.MonkeyPatch, module: Any, path: Path, *, kind: type = BundleWriter, **options: Any
) -> Part:
    """Record a lifetime with gaps."""
    monkeypatch.setattr(lives, "BundleWriter", dropping(kind))
    record(module, path, 601, **options)
    return open_bundle(path).parts[0]


@pytest.fixture(scope="module")
def trace(real: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace with gaps; nobody changes it."""
    path = tmp_path_factory.mktemp("gaps") / "b"
    with pytest.MonkeyPatch.context() as patch:
        part_with_gaps(patch, real, path)
    return path


@pytest.mark.parametrize(("kind", "role", "tokens"), [
    (BundleWriter, "Fused", "full"), (BundleWriter, "D", "identity"), (ApartWriter, "Fused", "identity"),
])  # fmt: skip
def test_what_lies_behind_a_gap_is_proven(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, role: str, tokens: str
) -> None:
    """Every round whose plan was kept is equal in both schedulers, the first behind a gap with all of its tables."""
    part = part_with_gaps(monkeypatch, real, tmp_path / "b", kind=kind, role=role, tokens=tokens)
    lost = LostRounds(part.table("gaps"))
    calls = part.table("calls").to_pylist()
    plans = [row["round"] for row in calls if row["kind"] == "plan" and row["outcome"] == "ok"]
    kept = part.table("rounds")["round"].to_pylist()
    assert [row["seq"] for row in calls] == list(range(len(calls)))
    assert len(lost) > 10 and len(lost.spans) > 2
    assert kept == [number for number in plans if number not in lost]
    for module in (real, compat):
        found = verify(part, module)
        assert found.complete and found.verified_rounds == len(kept)
    rows = part.table("gaps").to_pylist()
    assert {row["table"] for row in rows} == {"rounds", *PLAN_TABLES}
    assert {row["reason"] for row in rows} == {BEHIND}


def test_the_first_plan_of_the_twin_behind_a_gap_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are shared with a plan that nobody read; a call that raised in the middle of a gap dropped no plan."""
    monkeypatch.setattr(lives, "BundleWriter", dropping(BundleWriter))
    record(compat, tmp_path / "b", 600)
    part = open_bundle(tmp_path / "b").parts[0]
    raised = {
        row["round"] for row in part.table("calls").to_pylist() if row["kind"] == "plan" and row["outcome"] != "ok"
    }
    lost = LostRounds(part.table("gaps"))
    assert raised & {first - 1 for first, _ in lost.spans} and not any(number in lost for number in raised)
    assert verify(part, compat).complete


def test_a_trace_with_gaps_opens_and_says_so(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round can be shown, the header counts the gaps, `info` tells them, and nothing is derived inside them."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path))
    bundle = open_bundle(trace)
    part = bundle.parts[0]
    lost = LostRounds(part.table("gaps"))
    view = open_view(bundle)
    kept = [view.snapshot(number).round for number in range(1, view.head.rounds + 1)]
    assert not any(number in lost for number in kept)
    assert view.head.gaps == len(lost.spans)
    first, last = lost.spans[0]
    assert any(f"rounds {first:,} to {last:,} were dropped" in words for words in overview(bundle)["warnings"])
    index = build_index(part)
    assert index.divergence is None
    assert not any(number in lost for number in index.table("phases")["round"].to_pylist())
    assert {last + 1 for _, last in lost.spans} <= set(KeyframeFiles(index.directory, part).rounds)


def test_figures_over_rounds_say_what_they_are_without(
    trace: Path, tsviz: Tsviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`info`, `blame`, `findings`, `sql`, the report and the screens say it in the same words, with both numbers."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    part = open_bundle(trace).parts[0]
    lost = LostRounds(part.table("gaps"))
    dropped = part.table("calls").filter(pc.field("kind") == "plan").num_rows - part.rows("rounds")
    raised = part.table("calls").filter((pc.field("kind") == "plan") & (pc.field("outcome") != "ok")).num_rows
    words = f"without {dropped - raised} rounds in {len(lost.spans)} gaps: their plans were dropped while recording"
    assert words in tsviz("info", trace).out
    assert words in tsviz("blame", trace).err
    assert words in tsviz("findings", trace, "--recorded-only").err
    assert words in not_recorded([str(trace)])[0]
    about = overview(open_bundle(trace))
    assert words in page(Subject("b", about, lambda _: [], [], "1"), Library("0", "", "sha256-none"))
    (extent,) = [one for one in lost_time(part, derive=False, tell=lambda _: None) if isinstance(one, Extent)]
    assert words in extent.lacks
    assert words in "".join(span.text for span in title("Lost time", "b", Known(extents=(extent,)), (), 300)[1].spans)


def test_slices_of_a_trace_with_gaps_are_re_executed(trace: Path, tmp_path: Path) -> None:
    """From the last round in front of a gap, from within it, and from the first behind it to the end."""
    part = open_bundle(trace).parts[0]
    first, last = LostRounds(part.table("gaps")).spans[1]
    for begin in (first - 1, first + 1, last + 1):
        write_slice(open_bundle(trace), part, begin, part.last_round, tmp_path / f"s{begin}")
        sliced = open_bundle(tmp_path / f"s{begin}").parts[0]
        found = verify(sliced, compat)
        assert found.complete and found.verified_rounds > 10


def test_a_ring_is_cut_where_plans_are_missing(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments whose plans were dropped are sealed and dropped like others, and what is kept verifies."""
    from tsviz.replay.ring.keeper import keep

    monkeypatch.setattr(lives, "BundleWriter", dropping(BundleWriter))
    record(real, tmp_path / "b.ring", 601, tokens="identity", ring=RingOptions(700e-9, None))
    assert keep(tmp_path / "b.ring") == 0
    part = open_bundle(tmp_path / "b").parts[0]
    first, lost = part.meta["starts_at"], LostRounds(part.table("gaps"))
    assert first > 1 and len(lost) > 0
    assert verify(part, compat).complete
    behind = [last + 1 for _, last in lost.spans if last < part.last_round]
    assert part.table("keyframes")["round"].to_pylist() == [first, *behind]
    made = reach(part, behind[-1] + 1)  # from the keyframe behind the last gap, through one plan
    monkeypatch.setattr("tsviz.replay.reexecution.reach.compare", None)  # to begin behind a gap nothing is made again
    kept = reach(part, behind[-1])
    assert isinstance(kept, Keyframe) and isinstance(made, Keyframe)
    assert (kept.round, made.round) == (behind[-1], behind[-1] + 1)
    whole = Reexecution(part, compat)
    next(each for each in whole if each.call.kind == "plan" and each.call.round == behind[-1] - 1)
    assert state_digest(kept.snapshot) == state_digest(whole.keyframe().snapshot)


def test_plans_are_dropped_above_a_limit_until_half_of_it_waits_and_calls_end_at_five_times_as_many() -> None:
    """With a limit of 10: 11 entries begin a gap, 6 go on with it, 5 end it, and at 51 recording ends."""
    recorder = Recorder(lambda: 0)
    backlog = Backlog(recorder)
    seen = []
    for waiting in (10, 11, 6, 5, 11, 50):
        recorder.take(1 << 20)
        for _ in range(waiting):
            recorder._entries.append(None)  # type: ignore[arg-type]
        backlog.look(10)
        seen.append(recorder.append != recorder._entries.append)
    assert seen == [False, True, True, False, True, True]
    recorder.append(None)  # type: ignore[arg-type]
    with pytest.raises(FellBehind, match="51 entries waited to be written, more than 50"):
        backlog.look(10)


def test_where_entries_wait_as_bytes_recording_ends_at_many_of_these() -> None:
    """With a limit of 10, 128,000 bytes: plans go above 32,000 or 10 entries, until half of it is left."""
    recorder, pipe, seen = Recorder(lambda: 0), SimpleNamespace(waiting=0, waiting_bytes=0), []
    backlog = Backlog(recorder, pipe)  # type: ignore[arg-type]
    for waiting, size in ((10, 32_000), (1, 32_004), (1, 16_004), (1, 16_000), (11, 0), (90_000, 128_000), (5, 16_000)):
        pipe.waiting, pipe.waiting_bytes = waiting, size
        backlog.look(10)
        seen.append(recorder.append != recorder._entries.append)
    assert seen == [False, True, True, False, True, True, False]
    pipe.waiting_bytes = 128_001
    with pytest.raises(FellBehind, match="128,001 bytes of calls waited to be written, more than 128,000"):
        backlog.look(10)
