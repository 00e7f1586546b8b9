"""Recorded state at any round: requests by state as the scheduler counts them, tables as the plans had them."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.trace.lives import ROLES, record
from tsviz.adapters.tokenspeed import engine_of, recording_module
from tsviz.replay.recorded.snapshot import BlockTable, Snapshot
from tsviz.replay.view import open_view
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.reader import open_bundle
from tsviz.trace.writer import BundleWriter


def counted(snapshot: Snapshot) -> dict[str, int]:
    """Count the states of a snapshot as the scheduler's own counters do (scheduler-rules.md, section 1.7)."""
    states, role = Counter(line.state for line in snapshot.requests), snapshot.head.role
    return {
        "bootstrapping": states["bootstrapping"],
        "waiting": states["waiting"] + states["retracted"],
        "prefilling": states["prefilling"] + states["prefill_done"] + (states["remote"] if role == "D" else 0),
        "decoding": states["decoding"] + (states["remote"] if role == "P" else 0),
    }


@pytest.mark.parametrize("role", ROLES)
def test_states_agree_with_the_counters_of_the_scheduler(real: ModuleType, tmp_path: Path, role: str) -> None:
    """In every round of random lifetimes, retractions and all, the states add up to what the scheduler counted."""
    retracted = 0
    for seed in range(100, 110):
        life = record(real, tmp_path / str(seed), seed, role=role)
        view = open_view(open_bundle(tmp_path / str(seed)))
        for told in life.told:
            snapshot = view.snapshot(told.round)
            counters = {name: snapshot.counts[name] for name in ("bootstrapping", "waiting", "prefilling", "decoding")}
            assert counted(snapshot) == counters, f"seed {seed}, round {told.round}"
            retracted += snapshot.retracted
    assert retracted > 10 or role == "P"


def test_a_snapshot_is_a_function_of_the_round(real: ModuleType, tmp_path: Path) -> None:
    """Forwards, backwards, at random and in a fresh view a round shows the same; beyond the ends it is clamped."""
    record(real, tmp_path / "b", 104)
    bundle = open_bundle(tmp_path / "b")
    view = open_view(bundle)
    last = view.head.rounds
    wanted = [(r, s) for r in range(1, last + 1) for s in (None, 0, 5)]
    forwards = {key: view.snapshot(*key) for key in wanted}
    for key in reversed(wanted):
        assert view.snapshot(*key) == forwards[key]
    fresh = open_view(bundle)
    for key in random.Random(3).sample(wanted, len(wanted)):
        assert fresh.snapshot(*key) == forwards[key]
    assert view.snapshot(0) == view.snapshot(-7) == forwards[1, None]
    assert view.snapshot(last + 1) == view.snapshot(1 << 40) == forwards[last, None]


def test_rows_and_tables_are_those_of_the_plan(real: ModuleType, tmp_path: Path) -> None:
    """Rows, tables of every scheduled request, zeroed pages and transfers are what the plan said while it was made."""
    for seed, role in itertools.product((105, 106), ROLES):
        life = record(real, tmp_path / f"{role}{seed}", seed, role=role)
        view = open_view(open_bundle(tmp_path / f"{role}{seed}"))
        for told in life.told:
            snapshot = view.snapshot(told.round)
            rows = [
                (r.kind, r.request, r.slot, r.begin_tokens, r.input_tokens, r.replay_tokens, r.prefill_tokens)
                for r in snapshot.rows
            ]
            assert rows == told.rows
            assert snapshot.pool.zeroed_pages == len(set(told.zeroed))
            assert sum(t.pages for t in snapshot.transfers) == len(told.transfers)
            for row in snapshot.rows:
                tables = {t.group: list(t.pages) for t in view.snapshot(told.round, row.submission).tables}
                assert tables == told.tables[row.request, row.slot]


class Example:
    """A worked example of scheduler-rules.md, section 12, recorded and looked at through the view."""

    def __init__(self, real: ModuleType, path: Path, **fields: Any) -> None:
        self.path = path
        self.writer = BundleWriter(path, meta={})
        clock = itertools.count()
        self.module = recording_module(
            real,
            lambda c: self.writer.recorder(
                node="N", rank=0, config=describe_config(c), engine=engine_of(real), event_reader=event_reader(real),
                now_ns=lambda: next(clock), clock="virtual", rule_set="0.1.24",
            ),
        )  # fmt: skip
        config = real.SchedulerConfig()
        page = fields.pop("page")
        config.prefix_granularity, config.max_batch_size, config.max_scheduled_tokens = page, 8, 64
        for name, value in fields.items():
            setattr(config, name, value)
        config.cache_groups = [real.CacheGroupConfig("full", page, 64)]
        self.scheduler = self.module.Scheduler(config)

    def submit(self, **prompts: int) -> None:
        """Submit prompts of these lengths; all tokens differ."""
        specs = []
        for number, (name, length) in enumerate(prompts.items()):
            spec = self.module.RequestSpec()
            spec.request_id, spec.tokens = name, [1000 * number + i for i in range(length)]
            specs.append(spec)
        self.scheduler.submit_requests(specs)

    def result(self, name: str, *tokens: int) -> Any:
        """Return a result."""
        event = self.module.ForwardEvent.ExtendResult()
        event.request_id, event.tokens = name, list(tokens)
        return event

    def stored(self, op_id: int) -> Any:
        """Return the acknowledgement of a store."""
        event = self.module.Cache.WriteBackDoneEvent()
        event.op_id = op_id
        return event

    def finish(self, name: str) -> Any:
        """Return a Finish."""
        event = self.module.ForwardEvent.Finish()
        event.request_id = name
        return event

    def advance(self, *events: Any) -> None:
        """Advance."""
        execution = self.module.ExecutionEvent()
        for event in events:
            execution.add_event(event)
        self.scheduler.advance(execution)

    def plan(self) -> None:
        """Ask for a plan."""
        self.scheduler.next_execution_plan()

    def view(self) -> Any:
        """Close the recording and return its view."""
        self.writer.close()
        return open_view(open_bundle(self.path))


def table(snapshot: Snapshot) -> BlockTable:
    """Return the only table of the selected request."""
    (found,) = snapshot.tables
    return found


def test_example_1_plain_chunking(real: ModuleType, tmp_path: Path) -> None:
    """Tables {1,2}, {1,2,3}, {1,2,3,4}; pages 1, 2, then 3, then 4, then 5 are new, and are what was zeroed."""
    run = Example(real, tmp_path / "b", page=4, num_device_pages=17, max_scheduled_tokens=6)
    run.submit(a=15)
    for tokens in ((), (), (100,), (101,), (102,), (103,)):
        run.plan()
        run.advance(run.result("a", *tokens))
    run.advance(run.finish("a"))
    run.plan()
    view = run.view()
    seen = [view.snapshot(r, 0) for r in range(1, 8)]
    assert [(s.rows[0].begin_tokens, s.rows[0].input_tokens, s.rows[0].completes) for s in seen[:3]] == [
        (0, 6, False), (6, 6, False), (12, 3, True),
    ]  # fmt: skip
    pages = [table(s).pages for s in seen[:5]]
    assert pages == [(1, 2), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4, 5)]
    assert [sorted(table(s).changed) for s in seen[:6]] == [[0, 1], [2], [3], [], [4], []]
    assert [sorted(table(s).zeroed) for s in seen[:6]] == [[0, 1], [2], [3], [], [4], []]
    assert [table(s).before for s in seen[:6]] == [{}] * 6
    assert [s.requests[0].state for s in seen] == [
        "prefilling", "prefilling", "prefill_done", "decoding", "decoding", "decoding", "finished",
    ]  # fmt: skip
    assert [s.requests[0].computed_tokens for s in seen[:6]] == [6, 12, 15, 15, 16, 17]
    assert [s.requests[0].generated_tokens for s in seen] == [0, 0, 0, 1, 2, 3, 4]
    assert [s.requests[0].held_pages for s in seen] == [2, 3, 4, 4, 5, 5, 0]
    # 16 usable pages, of which four stay cached: the full pages of the first 18 tokens.
    assert (seen[6].pool.usable_pages, seen[6].pool.empty_pages, seen[6].tables) == (16, 12, ())
    assert seen[3].events == ("a: 1 token of round 3",)
    assert seen[1].events == ("a: chunk computed of round 1",)


def test_example_12_readmission_waits_and_seals(real: ModuleType, tmp_path: Path) -> None:
    """r1 is retracted in R4, waits in R5 to R7 with `new` behind it, and comes back in R8 as P[6+1/7] in slot 3."""
    run = Example(real, tmp_path / "b", page=2, num_device_pages=7, num_host_pages=16, max_batch_size=4)
    run.submit(r1=4, r2=4)
    run.plan()
    run.advance(run.result("r1", 51), run.result("r2", 61))
    run.plan()  # R2: D D, store op 0
    run.advance(run.result("r1", 52), run.result("r2", 62), run.stored(0))
    run.plan()  # R3: D D
    run.advance(run.result("r1", 53), run.result("r2", 63))
    run.plan()  # R4: r1 retracted, op 1
    run.advance(run.stored(1))
    run.submit(new=2)
    for token in (64, 65, 66):
        run.plan()  # R5 to R7: r2 alone
        run.advance(run.result("r2", token))
    run.advance(run.finish("r2"))
    run.plan()  # R8: r1 back
    view = run.view()
    seen = {r: view.snapshot(r, 0) for r in range(1, 9)}
    assert [s.retracted for s in seen.values()] == [0, 0, 0, 1, 0, 0, 0, 0]
    lines = {r: {q.request: q for q in s.requests} for r, s in seen.items()}
    assert [lines[r]["r1"].state for r in seen] == [
        "prefill_done", "decoding", "decoding", "retracted", "retracted", "retracted", "retracted", "prefill_done",
    ]  # fmt: skip
    assert [lines[r]["new"].state for r in (5, 6, 7, 8)] == ["waiting"] * 4
    assert lines[8]["r2"].state == "finished"
    assert [[(q.kind, q.request) for q in seen[r].rows] for r in (4, 5, 8)] == [
        [], [("decode", "r2")], [("prefill", "r1")],
    ]  # fmt: skip
    back = seen[8].rows[0]
    assert (back.begin_tokens, back.input_tokens, back.prefill_tokens, back.slot) == (6, 1, 7, 3)
    assert [(t.kind, t.op_id, t.pages, t.source_pinned) for t in seen[2].transfers] == [("write_back", 0, 4, True)]
    assert [(t.kind, t.op_id, t.pages, t.source_pinned) for t in seen[4].transfers] == [("write_back", 1, 1, False)]
    assert [(t.kind, t.op_id) for t in seen[8].transfers] == [("write_back", 2), ("load_back", 3)]
    assert seen[8].transfers[1].pages == 2
    assert (seen[2].transfers[0].acknowledged_round, seen[4].transfers[0].acknowledged_round) == (3, 5)
    # While it is gone it has no table; when it is back every slot is new, and what was there before is not shown.
    assert [len(seen[r].tables) for r in seen] == [1, 1, 1, 0, 0, 0, 0, 1]
    assert table(seen[8]).before == {}
    assert table(seen[8]).changed == frozenset(range(len(table(seen[8]).pages)))
    assert lines[8]["r1"].retractions == 1
    assert view.next_mark(1, None, 1) == 4
    assert view.next_mark(4, 0, 1) == 8
    assert view.next_mark(8, 0, -1) == 4


def test_an_operation_is_out_until_its_first_acknowledgement(real: ModuleType, tmp_path: Path) -> None:
    """A store of round 2 that is acknowledged in front of round 3, and again in front of 4, is out in round 2 alone."""
    run = Example(real, tmp_path / "b", page=2, num_device_pages=17, num_host_pages=9)
    run.submit(r1=8)
    run.plan()
    run.advance(run.result("r1", 7))
    run.plan()
    run.advance(run.stored(0))
    run.plan()
    run.advance(run.stored(0))
    run.plan()
    view = run.view()
    assert [[out.transfer.op_id for out in view.outstanding(r)] for r in (2, 3, 4)] == [[0], [], []]
    assert view.outstanding(2)[0].transfer.acknowledged_round == 3


def test_an_empty_recording_can_be_looked_at(real: ModuleType, tmp_path: Path) -> None:
    """A bundle without a plan shows an empty pool and no request."""
    run = Example(real, tmp_path / "b", page=2, num_device_pages=7)
    view = run.view()
    snapshot = view.snapshot(1)
    assert (snapshot.round, snapshot.rows, snapshot.requests, snapshot.pool.empty_pages) == (0, (), (), 6)
    assert view.next_mark(0, None, 1) is None
