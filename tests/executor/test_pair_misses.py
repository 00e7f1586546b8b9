"""A decode node with a storage tier whose pages vanish: what the scheduler makes of it (A5), and catalogue entry 26."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.catalogue import QUERIES, anomaly, found, reveals
from tests.executor.pairs import Pair, run_pair
from tests.executor.rig import Life, live, request
from tsviz.engine.configs import Role
from tsviz.engine.storage import StorageKeeper
from tsviz.engine.summary import EndReason
from tsviz.executor.peer import UNASKED
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.store import PageStore

torch.set_num_threads(1)
REQUESTS = (request("p0", (401, 31), says=25), request("p1", (402, 14), says=29))
POOL = PoolOptions(overlap_schedule_depth=1, max_scheduled_tokens=24, storage=True)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder with all pages of both requests; nothing changes it, since a page that is there is not put again."""
    folder = tmp_path_factory.mktemp("store")
    live(Life(REQUESTS, "tiny", PoolOptions(storage=True), 60, host_parents=60, seed=3), twin, folder)
    return folder


@pytest.fixture(params=["twin", "real"])
def pair(request, real_scheduler, stored):
    """Both requests on a decode node where they retract each other, and the host holds less than what that stores."""
    scheduler = real_scheduler if request.param == "real" else twin
    return Pair("tiny", REQUESTS, POOL, parents=8, host_parents=3, stores={Role.D: stored}, scheduler=scheduler)


def pages_vanish(monkeypatch: pytest.MonkeyPatch, fetches: int) -> None:
    """Let the last page of each of a store's first fetches be gone, although it was there when it was asked for."""
    get, done = PageStore.batch_get, {}

    def gone(self, keys):
        done[self] = done.get(self, 0) + 1
        return [*get(self, keys)[:-1], None] if done[self] <= fetches else get(self, keys)

    monkeypatch.setattr(PageStore, "batch_get", gone)


def test_a_request_that_nobody_is_to_compute_again_fails(pair, tmp_path, monkeypatch) -> None:
    """A5: what a vanished page retracts comes back as a remote row without a transfer, and would be decoded at once."""
    clean = run_pair(pair, tmp_path / "clean")
    assert (clean.equality.is_exact, clean.counts["storage restore"], clean.on_d.finished) == (True, 1, 2)
    pages_vanish(monkeypatch, fetches=1)
    paired = run_pair(pair, tmp_path / "run")
    assert (paired.on_d.reason, paired.on_d.finished, paired.failures) == (EndReason.DRAINED, 1, {UNASKED: 1})
    assert paired.equality.is_exact
    assert paired.is_freed
    assert reveals(anomaly("A5"), tmp_path / "run", tmp_path / "clean")


def test_a_remote_row_that_is_kept_after_a_miss_is_found(pair, tmp_path, monkeypatch) -> None:
    """The row comes back, a page of its own vanishes too: a loop that keeps it has the request fail and retracted."""
    prefetch = StorageKeeper.prefetch

    def keeps(self, planned):
        fetched = prefetch(self, planned)
        return replace(fetched, planned=replace(fetched.planned, remote_prefill=planned.remote_prefill))

    for name in ("clean", "spoilt"):
        if name == "spoilt":
            monkeypatch.setattr(StorageKeeper, "prefetch", keeps)
        with monkeypatch.context() as patch:
            pages_vanish(patch, fetches=2)
            paired = run_pair(pair, tmp_path / name)
        assert (paired.counts["storage miss"], paired.failures) == (2, {UNASKED: 1})
    assert reveals(QUERIES[26], tmp_path / "spoilt", tmp_path / "clean")
    assert found(QUERIES[26], tmp_path / "spoilt" / "P") == {}
