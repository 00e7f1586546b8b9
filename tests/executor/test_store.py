"""The storage tier: files, misses, errors, the worker that puts, and whose pages are whose (section 6)."""

from __future__ import annotations

import errno
import threading
from collections import Counter
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import Life, live, request
from tests.executor.test_equality import SHARED
from tsviz.engine.clock import VirtualClock
from tsviz.engine.port import StorageKey
from tsviz.engine.summary import EndReason
from tsviz.executor import backups
from tsviz.executor.arena import HostPool
from tsviz.executor.backups import Backups
from tsviz.executor.fast import fast_model
from tsviz.executor.identity import page_namespace, weights_digest
from tsviz.executor.layout import plan_layout
from tsviz.executor.model import Model
from tsviz.executor.opqueue import OpQueue
from tsviz.executor.shape import ModelShape
from tsviz.executor.sizing import PoolOptions, size_pool
from tsviz.executor.store import PageStore, StorageFailed, StoredPage, StoreFaults
from tsviz.executor.streams import InlineStreams
from tsviz.executor.threads import ThreadStreams
from tsviz.executor.virtual import Policy, VirtualStreams
from tsviz.executor.weights import seeded_weights

torch.set_num_threads(1)
SHAPE = ModelShape("FS", kv_heads=2, head_dim=8)
KEY = StorageKey(0, "ab" * 32, 0)
STORED = Life(SHARED, "tiny", PoolOptions(storage=True), 20, host_parents=40)
"""Six requests of two prompt families, whose pages go into storage."""
SECONDS = 30
"""How long a test waits before it says that something hangs."""


def files(root) -> list:
    """The files of a store's pages."""
    return sorted(path for path in root.rglob("*") if path.is_file())


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch) -> None:
    """A put that failed is tried again at once."""
    monkeypatch.setattr(backups, "PUT_PAUSES_S", (0.0, 0.0))


class Tier:
    """A store behind a host pool of two parents, and what queues its operations."""

    def __init__(self, store, streams=None) -> None:
        layout = plan_layout(SHAPE, {"full": 8, "sliding": 4}, 4)
        clock, self.counts = VirtualClock(), Counter()
        self.host, self.group = HostPool(layout, 2), layout.groups[0]
        self.queue = OpQueue(streams or InlineStreams(clock.now_ns), clock, None)
        self.backups = Backups(self.host, self.queue, store, self.counts)
        self.pages = (StoredPage(KEY, self.group, 1),)

    def put(self, value: int) -> None:
        """Fill the host page, put it and see that end."""
        self.host.block(self.group, 1).fill_(value)
        self.queue.wait(self.backups.put(1, self.pages))
        self.backups.were_put(self.pages)


def test_a_page_is_written_once_and_read_whole(tmp_path) -> None:
    """The first put stays; another layout, another model, a cut file and an absent key are misses."""
    store = PageStore(tmp_path, "model", "layout")
    store.put(KEY, b"first")
    store.put(KEY, b"second")
    assert store.batch_get([KEY]) == [b"first"]
    assert PageStore(tmp_path, "model", "other layout").batch_get([KEY]) == [None]
    assert PageStore(tmp_path, "other model", "layout").batch_exists([KEY]) == [False]
    (file,) = files(tmp_path)
    file.write_bytes(file.read_bytes()[:-1])
    assert store.batch_exists([KEY]) == [True]
    assert store.batch_get([KEY]) == [None]
    store.put(KEY, b"anew", anew=True)
    assert store.batch_get([KEY]) == [b"anew"]


def test_a_page_that_cannot_be_reached_is_a_miss(tmp_path) -> None:
    """A file where its folder should be, and a folder where it should be, are misses and raise nothing."""
    store = PageStore(tmp_path, "model", "layout")
    path = store.path(KEY)
    path.parent.parent.mkdir()
    path.parent.write_text("in the way")
    assert (store.batch_exists([KEY]), store.batch_get([KEY])) == ([False], [None])
    path.parent.unlink()
    path.mkdir(parents=True)
    assert store.batch_get([KEY]) == [None]


@pytest.mark.parametrize(
    "faults", [{"vanish_rate": 1.0}, {"truncate_rate": 1.0}, {"raise_rate": 1.0}], ids=lambda f: next(iter(f))
)
def test_a_page_that_was_a_miss_stays_absent_until_it_is_put_anew(tmp_path, faults) -> None:
    """Lost, cut short or unreadable at its first read: it is not found again before a put has made it anew."""
    PageStore(tmp_path, "model", "layout").put(KEY, bytes(1024))
    tier = Tier(PageStore(tmp_path, "model", "layout", StoreFaults(**faults)))
    assert tier.backups.probe([KEY]) == [True]
    assert tier.backups.prefetch([KEY]).missing == {KEY}
    assert tier.backups.probe([KEY]) == [False]
    tier.put(7)
    assert tier.backups.probe([KEY]) == [True]
    assert tier.backups.prefetch([KEY]).missing == frozenset()
    tier.backups.fill_host(KEY, tier.group, 2)
    assert tier.host.block(tier.group, 2).tolist() == [7] * 1024


@pytest.mark.parametrize(
    ("call", "error"),
    [("batch_exists", OSError(errno.EIO, "Input/output error")), ("batch_get", RuntimeError("closed"))],
    ids=["probing", "reading"],
)
def test_a_store_that_raises_when_it_is_asked_misses(tmp_path, monkeypatch, call, error) -> None:
    """Whatever probing or reading raises, the run goes on without the pages, and says what it would have said."""

    def raises(*_) -> None:
        raise error

    first = live(STORED, twin, tmp_path)
    monkeypatch.setattr(PageStore, call, raises)
    second = live(STORED, twin, tmp_path)
    assert second.counts["storage error"] > 0
    assert second.summary.reason is EndReason.DRAINED
    assert second.said == first.said
    assert second.equality.is_exact, second.equality


def test_a_put_that_fails_is_tried_again(tmp_path) -> None:
    """A disk without room at the first attempt of each page costs nothing: all are stored in the end."""
    whole, hindered = tmp_path / "whole", tmp_path / "hindered"
    live(STORED, twin, whole)
    lived = live(replace(STORED, faults=StoreFaults(failed_put_rate=1.0)), twin, hindered)
    assert lived.equality.is_exact
    assert [f.relative_to(hindered) for f in files(hindered)] == [f.relative_to(whole) for f in files(whole)] != []


def test_a_put_that_never_succeeds_ends_the_engine(tmp_path, monkeypatch) -> None:
    """After three attempts the error names the file and why; no write-back is acknowledged before its put."""
    attempts, told = [], []

    def full(self, key, data, *, anew) -> None:
        attempts.append(key)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(PageStore, "put", full)
    with pytest.raises(StorageFailed, match=rf"{tmp_path}/.*: a page .* in 3 attempts: No space left on device"):
        live(STORED, twin, tmp_path, meddle=lambda events: told.extend(events) or events)
    assert len(attempts) == 3
    assert not any(type(event).__name__ == "Stored" for event in told)


def test_the_control_thread_does_not_wait_for_the_disk(tmp_path, monkeypatch) -> None:
    """While a put hangs on its worker the control thread asks, is told no, and goes on."""
    gate, by, put = threading.Event(), [], PageStore.put

    def hangs(self, key, data, *, anew) -> None:
        by.append(threading.current_thread().name)
        gate.wait(SECONDS)
        put(self, key, data, anew=anew)

    monkeypatch.setattr(PageStore, "put", hangs)
    store = PageStore(tmp_path, "model", "layout")
    tier = Tier(store, streams := ThreadStreams(lambda: 0))
    op = tier.backups.put(1, tier.pages)
    assert not tier.queue.ended(op)
    assert store.batch_exists([KEY]) == [False]
    gate.set()
    tier.queue.wait(op)
    assert tier.queue.ended(op)
    assert store.batch_exists([KEY]) == [True]
    assert by == ["tsviz-backup"]
    streams.close()


@pytest.mark.parametrize("policy", [Policy.LATEST, Policy.RANDOM])
def test_on_virtual_streams_puts_come_in_the_same_order_every_time(tmp_path, policy) -> None:
    """Twice with one seed: the same operations in the same rounds, equal bits, no race."""
    life = replace(STORED, streams=lambda now_ns: VirtualStreams(now_ns, 3, policy))
    one, two = (live(life, twin, tmp_path / name) for name in "ab")
    assert one.counts["storage put"] > 0
    assert one.equality.is_exact
    assert one.races == []
    assert [(o.round, o.number, o.kind, o.start_ns) for o in one.ops] == [
        (o.round, o.number, o.kind, o.start_ns) for o in two.ops
    ]


def test_pages_are_found_in_storage_as_often_as_they_are_asked_for(tmp_path) -> None:
    """Three prompts in turn, three times, where neither device nor host holds them till their turn: six restores.

    The scheduler remembers as many stored keys as the host has pages: those of a prompt are registered each time.
    """
    requests = tuple(request(f"r{i}", (100 + i % 3, 16), (200 + i, 3), says=3, at_ms=40 * i) for i in range(9))
    lived = live(Life(requests, "tiny", PoolOptions(8, 40, 2, mixed=True, storage=True), 5, 2), twin, tmp_path)
    assert (lived.equality.is_exact, lived.counts["storage restore"]) == (True, 6)


OTHERS = {
    "nothing": (lambda namespace: namespace(), True),
    "weights": (lambda namespace: namespace(seed=6), False),
    "shape": (lambda namespace: namespace(shape=replace(SHAPE, rope_theta=5e5)), False),
    "window": (lambda namespace: namespace(shape=replace(SHAPE, window=11)), False),
    "dtype": (lambda namespace: namespace(dtype=torch.float64), False),
    "mode": (lambda namespace: namespace(fast=True), False),
    "prefix page": (lambda namespace: namespace(pool=PoolOptions(prefix_granularity=16)), False),
    "blocks": (lambda namespace: namespace(pool=PoolOptions(granularity={"sliding": 8})), False),
    "draft": (lambda namespace: namespace(drafts=7), False),
    "batch": (lambda namespace: namespace(pool=PoolOptions(max_batch_size=2, mixed=True)), True),
}
"""What is otherwise, and whether pages may be shared all the same."""


def named(shape=SHAPE, seed=5, dtype=torch.float32, fast=False, pool=None, drafts=0) -> str:
    """The namespace of an engine's pages; `drafts` is a draft model's seed."""
    model = Model(shape, seeded_weights(shape, seed, dtype))
    draft = Model(ModelShape("F"), seeded_weights(ModelShape("F"), drafts, dtype)) if drafts else None
    sized = size_pool(
        shape, pool or PoolOptions(), parents=9, host_parents=9, element_bytes=dtype.itemsize,
        draft=None if draft is None else draft.shape,
    )  # fmt: skip
    return page_namespace(
        fast_model(model) if fast else model, weights_digest(model.weights), sized, draft=draft,
        draft_weights="" if draft is None else weights_digest(draft.weights),
    )  # fmt: skip


@pytest.mark.parametrize("what", list(OTHERS))
def test_pages_are_shared_by_engines_that_compute_the_same_bytes(what) -> None:
    """Weights, shape, number format, mode, layout and draft tell engines apart; how they batch does not."""
    other, shares = OTHERS[what]
    assert (other(named) == named()) is shares


def test_two_drafts_of_one_shape_are_told_apart() -> None:
    """Their keys and values are in the pages too."""
    assert named(drafts=7) != named(drafts=8)


def test_weights_are_known_by_what_they_hold() -> None:
    """The digest is the same however they were made, and another when one number of one layer is another."""
    weights, again = (seeded_weights(SHAPE, 5) for _ in range(2))
    assert weights_digest(weights) == weights_digest(again)
    again.layers[1]["down"][3, 4] += 1e-6
    assert weights_digest(weights) != weights_digest(again)
    assert weights_digest(seeded_weights(SHAPE, 5, torch.bfloat16)) != weights_digest(weights)
