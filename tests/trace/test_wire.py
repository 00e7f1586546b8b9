"""The wire between the recorded process and the one that writes: what comes out is what the scheduler said."""

from __future__ import annotations

import itertools
import random
from array import array
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.trace.lives import Life, random_config
from tsviz.adapters.tokenspeed import recording_module
from tsviz.trace import entries as e
from tsviz.trace.api_events import event_reader
from tsviz.trace.plan_fields import BatchFields, PlanFields, read_plan
from tsviz.trace.recorder import Recorder
from tsviz.trace.wire import Encoder
from tsviz.trace.wire_reader import Decoder

_LISTS = ("ids", "slots", "input_tokens", "prefill_tokens", "begins", "replays", "decode_inputs", "input_ids",
          "shifted_input_ids", "candidates")  # fmt: skip


def lived(real: ModuleType, seed: int, role: str) -> list[e.Entry]:
    """Return the entries of a random lifetime."""
    recorder, rng = Recorder(itertools.count().__next__), random.Random(seed)
    module = recording_module(real, lambda _: recorder)
    config = random_config(module, rng, role)
    Life(module, module.Scheduler(config), config, rng, lambda index: index, role).run(150)
    return recorder.take(1 << 30)  # type: ignore[return-value]  # no decisions here


def encoder(real: ModuleType, *, content: bool = True) -> Encoder:
    """Return an encoder of the real package's entries."""
    return Encoder(event_reader(real), real.ForwardEvent.ExtendResult, content=content)


class Tables:
    """The last table of every slot, followed through the forward batches of one end."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], list[int]] = {}

    def follow(self, batch: BatchFields) -> list[list[int]]:
        """Take what a batch says of its tables, and return those of all of its rows, group by group."""
        rows = range(len(batch.ids)) if batch.moved is None else batch.moved.tolist()
        tables = batch.tables(batch.moved)
        for group, table in tables.items():
            assert len(table) == len(rows)
            for row, pages in zip(rows, table.tolist(), strict=True):
                self._known[group, batch.slots[row]] = [page for page in pages if page != -1]
        return [self._known[group, slot] for group in tables for slot in batch.slots]


def same_batch(one: BatchFields | None, other: BatchFields | None) -> None:
    """Assert that all but the tables is equal."""
    assert (one is None) == (other is None)
    for name in _LISTS:
        assert getattr(one, name, None) == getattr(other, name, None), name


@pytest.mark.parametrize("role", ["Fused", "P", "D"])
@pytest.mark.parametrize("seed", range(601, 607))
def test_a_lifetime_comes_out_as_it_went_in(real: ModuleType, seed: int, role: str) -> None:
    """All calls, each plan with the table of each row; plans that wait are not changed by those that come behind."""
    before = lived(real, seed, role)
    ours, theirs = encoder(real), Decoder()
    after = [theirs.decode(ours.encode(entry)) for entry in before]
    reader, here, there = event_reader(real), Tables(), Tables()
    for one, other in zip(before, after, strict=True):
        assert type(one) is type(other)
        if isinstance(one, e.AdvanceEntry) and isinstance(other, e.AdvanceEntry):
            told = [v if type(v) is e.Event else reader[type(v)](v) for v in one.events]
            came = list(other.events)
            assert len(other.events) == len(told)
            plain = [[(*v[:2], list(v[2]), list(v[3]), *v[4:]) for v in events] for events in (told, came)]
            assert plain[0] == plain[1]
            assert one._replace(events=()) == other._replace(events=())
        elif isinstance(one, e.PlanEntry) and isinstance(other, e.PlanEntry):
            assert one._replace(plan=None) == other._replace(plan=None)
            if one.plan is not None:
                same_plan(read_plan(one.plan, content=True), other.plan, here, there)
        elif isinstance(one, e.DrainEntry) and isinstance(other, e.DrainEntry):
            assert len(one.events) == len(other.events)
        else:
            assert one == other


def same_plan(one: PlanFields, other: PlanFields, here: Tables, there: Tables) -> None:
    """Assert that a decoded plan says what the plan does."""
    for name in ("batch", "remote_prefill", "remote_decode"):
        same_batch(getattr(one, name), getattr(other, name))
    if one.batch is not None and other.batch is not None:
        assert here.follow(one.batch) == there.follow(other.batch)
    for first, second in ((one.remote_prefill, other.remote_prefill), (one.remote_decode, other.remote_decode)):
        if first is not None and second is not None:
            assert Tables().follow(first) == Tables().follow(second)
    assert {k: v.tolist() for k, v in one.zeroed.items()} == {k: v.tolist() for k, v in other.zeroed.items()}
    assert one.transfers == other.transfers


def plan(ids: list[str], table: list[list[int]], **fields: Any) -> e.PlanEntry:
    """Return a plan that decodes a token of each of these rows."""
    count = len(ids)
    values: dict[str, Any] = {
        "request_ids": ids, "request_pool_indices": list(range(count)), "input_lengths": [1] * count,
        "prefill_lengths": [4] * count, "extend_prefix_lens": [], "extend_replay_lens": [],
        "decode_input_ids": [-1] * count, "block_tables_arrays": lambda: {"full": np.array(table, np.int32)},
    }  # fmt: skip
    made = SimpleNamespace(
        forward=[SimpleNamespace(**values | fields)], remote_prefill=None, remote_decode=None, cache=[],
        pages_to_zero_arrays=dict,
    )  # fmt: skip
    return e.PlanEntry(0, 0, made, 0, None, None)


def test_only_what_changed_is_sent_and_said_to_have_moved(real: ModuleType) -> None:
    """The same rows with one new page of 5 in the third of three: row 2 moved, and no id goes over again."""
    ours, theirs = encoder(real, content=False), Decoder()
    ids = ["first", "second", "third"]
    table = [[1, 2, 3, 4, -1], [5, 6, 7, 8, -1], [9, 10, 11, 12, -1]]
    sent = [ours.encode(plan(ids, table))]
    table[2][4] = 13
    sent += [ours.encode(plan(ids, table)), ours.encode(plan(ids, table))]
    first, second, third = (theirs.decode(data).plan.batch for data in sent)  # type: ignore[union-attr]
    assert b"third" in sent[0] and b"third" not in sent[1] and len(sent[2]) < len(sent[1])
    assert first.moved is None and first.tables(None)["full"][2].tolist() == [9, 10, 11, 12, -1]
    assert second.moved.tolist() == [2] and second.tables(second.moved)["full"].tolist() == [[9, 10, 11, 12, 13]]
    assert third.moved.tolist() == [] and third.ids == ids


def test_tables_are_whole_behind_a_submission_of_an_id_that_is_in_the_batch(real: ModuleType) -> None:
    """The same id in the same slot may be another request: nothing is known to be as before."""
    ours, theirs = encoder(real, content=False), Decoder()
    theirs.decode(ours.encode(plan(["a", "b"], [[1], [2]])))
    theirs.decode(ours.encode(e.SubmitEntry(0, 0, [e.Spec("b", array("i", [1]), 0)], None, None)))
    batch = theirs.decode(ours.encode(plan(["a", "b"], [[1], [2]]))).plan.batch  # type: ignore[union-attr]
    assert batch.moved is None and batch.tables(None)["full"].tolist() == [[1], [2]]


def test_everything_is_sent_again_behind_a_plan_that_was_dropped(real: ModuleType) -> None:
    """Ids and tables of the plan behind it are whole, though they are those of the plan in front of it."""
    ours, theirs = encoder(real, content=False), Decoder()
    theirs.decode(ours.encode(plan(["a"], [[1]])))
    assert theirs.decode(ours.encode(e.PlanEntry(0, 0, e.DROPPED, 0, None, None))).plan is e.DROPPED  # type: ignore[union-attr]
    data = ours.encode(plan(["a"], [[1]]))
    batch = theirs.decode(data).plan.batch  # type: ignore[union-attr]
    assert batch.ids == ["a"] and batch.moved is None and batch.tables(None)["full"].tolist() == [[1]]


def test_fields_that_change_are_sent_and_the_others_kept(real: ModuleType) -> None:
    """Of a batch whose input lengths alone change the slots are the same object, and the lengths are the new ones."""
    ours, theirs = encoder(real, content=False), Decoder()
    first = theirs.decode(ours.encode(plan(["a"], [[1]]))).plan.batch  # type: ignore[union-attr]
    second = theirs.decode(ours.encode(plan(["a"], [[1]], input_lengths=[3]))).plan.batch  # type: ignore[union-attr]
    assert (first.input_tokens.tolist(), second.input_tokens.tolist()) == ([1], [3])
    assert second.slots is first.slots and second.digested is not first.digested
