"""Digest `plan/1`: every field of a plan counts, in the digest that it belongs to, and in no other."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tsviz.trace.rounds import Counters, PlanBook, RoundRecord

COUNTERS = Counters(bootstrapping=1, waiting=2, prefilling=3, decoding=4, pd_transfer=5, empty_pages=6)


def batch(**fields: Any) -> SimpleNamespace:
    """Return a batch of the public API with its arrays as a method."""
    tables = fields.pop("tables")
    made = SimpleNamespace(**fields, tables=tables)
    made.block_tables_arrays = lambda: {name: np.array(rows, np.int32) for name, rows in made.tables.items()}
    return made


def base_plan() -> SimpleNamespace:
    """Return a plan that has everything: two prefill rows, a decode row, remote rows, stores, loads and zero lists."""
    forward = batch(
        request_ids=["a", "b", "c"], request_pool_indices=[1, 2, 3], input_lengths=[4, 6, 1],
        prefill_lengths=[4, 9, 5], extend_prefix_lens=[0, 4], extend_replay_lens=[0, 2], decode_input_ids=[-1],
        input_ids=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], shifted_input_ids=[2, 3, 4, -1, 6, 7, 8, 9, 10, 11],
        spec_candidate_ids=[[7, 8]], tables={"full": [[1, 2, -1], [3, 4, 5], [0, 6, -1]], "state": [[7], [8], [9]]},
    )  # fmt: skip
    remote = batch(
        request_ids=["d"], request_pool_indices=[4], input_lengths=[8], prefill_lengths=[8], extend_prefix_lens=[0],
        extend_replay_lens=[0], decode_input_ids=[], input_ids=[1], shifted_input_ids=[2], spec_candidate_ids=[],
        tables={"full": [[10, 11]]},
    )  # fmt: skip
    sent = batch(
        request_ids=["e"], request_pool_indices=[5], input_lengths=[1], prefill_lengths=[8], extend_prefix_lens=[],
        extend_replay_lens=[], decode_input_ids=[44], input_ids=[], shifted_input_ids=[], spec_candidate_ids=[[1]],
        tables={"full": [[12, 13]]},
    )  # fmt: skip
    store = SimpleNamespace(
        op_ids=[3, 4], group_ids=[[0, 1], [0]], src_pages=[[1, 7], [3]], dst_pages=[[21, 22], [23]],
        content_hashes=[["aa", "bb"], ["cc"]], page_offsets=[[0, 0], [1]], source_pinned=[True, False],
    )  # fmt: skip
    load = SimpleNamespace(
        op_ids=[5], group_ids=[[0]], src_pages=[[24]], dst_pages=[[25]], content_hashes=[["dd"]], page_offsets=[[0]],
        prefetch_from_storage=[[1]],
    )  # fmt: skip
    zero = {"full": [1, 2], "state": [7]}
    plan = SimpleNamespace(forward=[forward], remote_prefill=remote, remote_decode=sent, cache=[store, load], zero=zero)
    plan.pages_to_zero_arrays = lambda: {name: np.array(pages, np.int32) for name, pages in plan.zero.items()}
    return plan


def digests(
    change: Callable[[SimpleNamespace], Any] | None = None, counters: Counters = COUNTERS, *, content: bool = True
) -> tuple[int, int | None]:
    """Return the digests of the plan behind `change`, in a book that knows all requests."""
    plan = base_plan()
    if change is not None:
        change(plan)
    book = PlanBook(content=content)
    for number, name in enumerate("abcdefg"):
        book.submit(name, number)
    record: RoundRecord = book.record(plan, 2, counters)
    return record.structural, record.content


def assign(path: str, value: Any) -> Callable[[SimpleNamespace], None]:
    """Return a change that sets what a dotted path names; numbers are list positions."""

    def change(plan: SimpleNamespace) -> None:
        *way, last = path.split(".")
        thing: Any = plan
        for step in way:
            thing = (
                thing[int(step)] if step.isdigit() else thing[step] if isinstance(thing, dict) else getattr(thing, step)
            )
        if last.isdigit():
            thing[int(last)] = value
        elif isinstance(thing, dict):
            thing[last] = value
        else:
            setattr(thing, last, value)

    return change


STRUCTURAL = [
    ("forward.0.request_pool_indices.0", 6), ("forward.0.request_pool_indices", [2, 1, 3]),
    ("forward.0.input_lengths.0", 5), ("forward.0.input_lengths.2", 2), ("forward.0.prefill_lengths.1", 10),
    ("forward.0.extend_prefix_lens.1", 3), ("forward.0.extend_replay_lens.1", 1), ("forward.0.decode_input_ids.0", 5),
    ("forward.0.decode_input_ids.0", -2),
    ("forward.0.tables.full.0.1", 3), ("forward.0.tables.full.0.2", 9), ("forward.0.tables.full.1.2", -1),
    ("forward.0.tables.full.2.0", 1), ("forward.0.tables.state.2.0", 10),
    ("forward.0.tables.full", [[2, 1, -1], [3, 4, 5], [0, 6, -1]]),
    ("forward.0.tables", {"state": [[7], [8], [9]]}), ("forward.0.tables", {"full": [[7], [8], [9]]}),
    ("remote_prefill", None), ("remote_decode", None), ("forward", []),
    ("remote_prefill.input_lengths.0", 4), ("remote_prefill.tables.full.0.1", 12),
    ("remote_decode.request_pool_indices.0", 6), ("remote_decode.decode_input_ids.0", -1),
    ("zero.full", [2, 1]), ("zero.full", [1]), ("zero.full", [1, 2, 3]), ("zero.state.0", 8), ("zero", {}),
    ("zero", {"full": [1, 2, 7]}), ("zero", {"full": [1], "state": [2, 7]}),
    ("cache", []), ("cache.0.op_ids.0", 6), ("cache.0.op_ids", [4, 3]), ("cache.0.group_ids.0.1", 0),
    ("cache.0.src_pages.0.0", 2), ("cache.0.dst_pages.1.0", 24), ("cache.0.page_offsets.1.0", 0),
    ("cache.0.source_pinned.0", False), ("cache.0.source_pinned.1", True), ("cache.1.src_pages.0.0", 25),
    ("cache.1.prefetch_from_storage.0.0", 0), ("cache.1.op_ids.0", 6),
]  # fmt: skip

CONTENT = [
    ("forward.0.input_ids.3", 9), ("forward.0.shifted_input_ids.3", 5), ("forward.0.spec_candidate_ids.0.1", 9),
    ("forward.0.spec_candidate_ids", [[7]]), ("forward.0.spec_candidate_ids", [[]]),
    ("remote_prefill.input_ids.0", 5), ("remote_decode.decode_input_ids.0", 45),
    ("remote_decode.spec_candidate_ids", [[1, 1]]),
    ("cache.0.content_hashes.0.1", "bc"), ("cache.0.content_hashes.0", ["b", "bab"]),
    ("cache.1.content_hashes.0.0", "de"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), STRUCTURAL, ids=[f"{p}={v}" for p, v in STRUCTURAL])
def test_a_structural_field_changes_the_structural_digest(path: str, value: Any) -> None:
    """A changed row, slot, length, page, list, operation or flag gives another structural digest, in both modes."""
    assert digests(assign(path, value))[0] != digests()[0]
    assert digests(assign(path, value), content=False)[0] != digests(content=False)[0]


@pytest.mark.parametrize(("path", "value"), CONTENT, ids=[f"{p}={v}" for p, v in CONTENT])
def test_a_content_field_changes_the_content_digest_alone(path: str, value: Any) -> None:
    """A changed token, candidate or hash gives another content digest and the same structural one."""
    structural, content = digests(assign(path, value))
    assert structural == digests()[0]
    assert content != digests()[1]


@pytest.mark.parametrize("name", Counters._fields)
def test_a_counter_changes_the_structural_digest(name: str) -> None:
    """Each of the scheduler's own counters is part of the structural digest."""
    structural, content = digests(counters=COUNTERS._replace(**{name: 9}))
    assert structural != digests()[0]
    assert content == digests()[1]


def test_another_request_in_a_row_changes_both_digests() -> None:
    """Who sits in a row counts by submission in the structural digest and by id in the content digest."""
    structural, content = digests(assign("forward.0.request_ids.0", "f"))
    assert structural != digests()[0]
    assert content != digests()[1]


def test_the_order_of_rows_counts() -> None:
    """The same two prefill rows in the other order are another plan."""

    def swap(plan: SimpleNamespace) -> None:
        fields = plan.forward[0]
        for name in ("request_ids", "request_pool_indices", "input_lengths", "prefill_lengths", "extend_prefix_lens",
                     "extend_replay_lens"):  # fmt: skip
            values = getattr(fields, name)
            values[0], values[1] = values[1], values[0]
        for rows in fields.tables.values():
            rows[0], rows[1] = rows[1], rows[0]

    assert digests(swap)[0] != digests()[0]


def test_padding_does_not_count() -> None:
    """A table padded further by another row of the batch is the same table."""
    wider = deepcopy(base_plan().forward[0].tables)
    wider["full"] = [[*row, -1] for row in wider["full"]]
    assert digests(assign("forward.0.tables", wider)) == digests()


def section(tag: int, *values: int, data: bytes | None = None, count: int | None = None) -> bytes:
    """Return one section as the description of plan/1 has it: tag, count (LE32), values (LE32 each)."""
    body = struct.pack(f"<{len(values)}i", *values) if data is None else data
    return struct.pack("<BI", tag, len(values) if count is None else count) + body


def test_the_digest_is_the_one_that_is_described() -> None:
    """BLAKE2b-64 over the sections of one prefill row, written out by hand, gives the recorded digests."""
    row = batch(
        request_ids=["a"], request_pool_indices=[1], input_lengths=[4], prefill_lengths=[4], extend_prefix_lens=[0],
        extend_replay_lens=[0], decode_input_ids=[], input_ids=[5, 6, 7, 8], shifted_input_ids=[6, 7, 8, -1],
        spec_candidate_ids=[], tables={"full": [[1, 2]]},
    )  # fmt: skip
    plan = SimpleNamespace(forward=[row], remote_prefill=None, remote_decode=None, cache=[])
    plan.pages_to_zero_arrays = lambda: {"full": np.array([1, 2], np.int32), "empty": np.array([], np.int32)}
    book = PlanBook(content=True)
    book.submit("a", 0)
    record = book.record(plan, 1, Counters(0, 0, 1, 0, 0, 9))
    structural = (
        section(1, 1, 0, 0) + section(10, 0) + section(11, 1) + section(12, 4) + section(13, 4) + section(14, 0)
        + section(15, 0) + section(16) + section(20, data=b"\xfffull", count=1)
        + section(21, data=struct.pack("<iii", 0, 0, 2), count=1) + section(22, data=b"\x01", count=1)
        + section(23, data=struct.pack("<iiii", 0, 2, 1, 2), count=2) + section(30, data=b"\xfffull", count=1)
        + section(31, 1, 2) + section(50, 0, 0, 1, 0, 0, 9)
    )  # fmt: skip
    content = (
        section(60, data=b"\xffa", count=1) + section(61, 5, 6, 7, 8) + section(62, 6, 7, 8, -1) + section(63)
        + section(64) + section(65)
    )  # fmt: skip
    expected = [
        int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") for data in (structural, content)
    ]
    assert [record.structural, record.content] == expected
    assert record.retracted == 0
