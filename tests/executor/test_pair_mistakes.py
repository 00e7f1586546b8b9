"""Mistakes of a pair in the failure catalogue: each is made once, and the query of its entry finds it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

from tests.executor.catalogue import QUERIES, reveals
from tests.executor.pairs import REQUESTS, Pair, a_page_of_a_comes_broken, run_pair
from tests.executor.rig import request
from tsviz.engine.configs import Role
from tsviz.engine.events import Extended, Finished
from tsviz.engine.summary import EndReason
from tsviz.executor.options import DeviceOptions, Edge, Fault
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.virtual import Policy, VirtualStreams

torch.set_num_threads(1)
WIDE = PoolOptions(decode_input_tokens=3, max_scheduled_tokens=24)


def with_fault(fault: Fault | None) -> DeviceOptions:
    """The decode node's device, with or without a mistake."""
    return DeviceOptions(faults=frozenset() if fault is None else frozenset({fault}))


def test_a_manifest_before_zeroing_is_found(tmp_path) -> None:
    """A decode node that does not wait for its zeroing before it asks for pages has a race between the two."""
    for name, edges, races in (("clean", set(), set()), ("spoilt", {Edge.ZERO_REMOTE}, {"zero -> receive"})):
        device = DeviceOptions(omitted=frozenset(edges))
        assert run_pair(Pair(on_d=device), tmp_path / name).races == races
    assert reveals(QUERIES[27], tmp_path / "spoilt", tmp_path / "clean")


def test_a_decode_before_its_candidates_is_found(tmp_path) -> None:
    """With a draft that is always right every first window gives 3 tokens; without its candidates 1, the same ones."""
    for name, fault in (("clean", None), ("spoilt", Fault.LATE_CANDIDATES)):
        paired = run_pair(Pair(pool=WIDE, draft_layers=2, on_d=with_fault(fault)), tmp_path / name)
        assert paired.equality.is_exact
    assert reveals(QUERIES[28], tmp_path / "spoilt", tmp_path / "clean")


def test_pages_given_up_while_the_peer_writes_are_found(tmp_path, monkeypatch) -> None:
    """A page that arrives broken fails its transfer; told at once, its pages are zeroed under the ones that came.

    Six blocks of 8 hold one of two prompts of 27 tokens at a time: the second is given what the first one had.
    """
    requests = (request("a", (1, 27), says=4), request("b", (2, 27), says=4))
    a_page_of_a_comes_broken(monkeypatch)
    for name, fault, races in (("clean", None, set()), ("spoilt", Fault.EARLY_FAILURE, {"receive -> zero"})):
        streams = lambda now_ns: VirtualStreams(now_ns, 1, Policy.LATEST)  # noqa: E731
        paired = run_pair(Pair("tiny", requests, parents=6, on_d=with_fault(fault), streams=streams), tmp_path / name)
        assert (paired.on_d.failed, paired.on_d.finished) == (1, 1)
        assert paired.races >= races
        assert bool(paired.races) is bool(races)
    assert reveals(QUERIES[29], tmp_path / "spoilt", tmp_path / "clean")


def test_a_prefill_node_that_finishes_a_request_is_found(tmp_path) -> None:
    """The scheduler raises for a request whose pages the transfer owns; the event stands in the trace."""

    def finishes(events):
        return [e for event in events for e in _and_finish(event)]

    run_pair(Pair(requests=REQUESTS[:2]), tmp_path / "clean")
    paired = run_pair(Pair(requests=REQUESTS[:2], meddle={Role.P: finishes}), tmp_path / "spoilt")
    assert paired.on_p.reason is EndReason.SCHEDULER_RAISED
    assert reveals(QUERIES[31], tmp_path / "spoilt", tmp_path / "clean")


def _and_finish(event):
    """The first token of a prompt taken for the end of its request."""
    return (event, Finished(event.request_id)) if isinstance(event, Extended) and event.tokens else (event,)
