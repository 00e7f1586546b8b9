"""Every edge of the ordering table is left out once: the checker names it, and tokens feel it (section 2)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import Life, live, with_device
from tests.executor.test_equality import PRESSED
from tests.trace.test_order import operation
from tsviz.executor.options import Edge
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.streams import InlineStreams
from tsviz.executor.threads import Delays, ThreadStreams
from tsviz.executor.virtual import Policy, VirtualStreams
from tsviz.trace.order.ops import Kind, Stream

torch.set_num_threads(1)


def pressed(model: str, parents: int, policy: Policy | None, *omitted: Edge) -> Life:
    """Five requests that retract one another, on streams that run things as late or as mixed as they may."""
    streams = InlineStreams if policy is None else lambda now_ns: VirtualStreams(now_ns, 1, policy)
    pool = PoolOptions(mixed=True, overlap_schedule_depth=1)
    return with_device(
        Life(PRESSED, model, pool, parents, host_parents=60, streams=streams), omitted=frozenset(omitted)
    )


MISSING = [
    ((Edge.EXEC_STORE,), "layer -> store_pinned", "tiny-sliding", 12, Policy.ROUND_ROBIN),
    ((Edge.STORE_ZERO,), "store_ordered -> zero", "tiny", 10, Policy.LATEST),
    ((Edge.STORE_LOAD, Edge.ZERO_LOAD), "store_ordered -> load", "tiny", 10, Policy.LATEST),
    ((Edge.EXEC_LOAD, Edge.ZERO_LOAD), "layer -> load", "tiny-sliding", 12, Policy.ROUND_ROBIN),
    ((Edge.ZERO_FORWARD,), "zero -> layer", "tiny", 10, Policy.LATEST),
    ((Edge.LOAD_FORWARD,), "load -> layer", "tiny", 10, Policy.LATEST),
]
"""What is left out, what the checker calls it, and a run in which it costs tokens."""


@pytest.mark.parametrize(("omitted", "edge", "model", "parents", "policy"), MISSING)
def test_a_missing_edge_is_named_and_costs_tokens(omitted, edge, model, parents, policy) -> None:
    """Without the edge the checker names the pair, and under some order of the streams a logit differs."""
    lived = live(pressed(model, parents, policy, *omitted), twin)
    assert edge in {race.edge for race in lived.races}
    assert not lived.equality.is_exact


def test_zeroing_that_overtakes_the_forward_that_lingers_costs_only_what_nobody_gets() -> None:
    """The checker names the pair; rows of lingering forwards read poison, and every token that a request gets is right.

    What a lingering forward writes into a page that was cleared too early lies beyond what its new owner sees.
    """
    clean, early = (
        live(pressed("tiny-sliding", 12, Policy.ROUND_ROBIN, *edges), twin) for edges in ((), (Edge.EXEC_ZERO,))
    )
    assert "layer -> zero" in {race.edge for race in early.races}
    assert (clean.counts["broken row"], early.counts["broken row"] > 0) == (0, True)
    assert early.equality.is_exact


@pytest.mark.parametrize(
    ("omitted", "edge", "model", "parents", "policy"),
    [((Edge.EXEC_ZERO,), "layer -> zero", "tiny-sliding", 12, Policy.ROUND_ROBIN), MISSING[3]],
)
def test_the_checker_needs_no_luck(omitted, edge, model, parents, policy) -> None:
    """Run inline, in the table's order, every token is right, and the checker names the missing edge all the same."""
    lived = live(pressed(model, parents, None, *omitted), twin)
    assert edge in {race.edge for race in lived.races}
    assert lived.equality.is_exact


def test_an_uncommitted_result_is_named() -> None:
    """A commit that does not wait for the result's copy reads bytes that the copy writes."""
    lived = live(pressed("tiny", 12, None, Edge.RESULT_COMMIT), twin)
    assert {race.edge for race in lived.races} == {"result -> commit"}


@pytest.mark.parametrize("policy", [None, *Policy])
def test_with_all_edges_any_order_of_the_streams_is_right(policy) -> None:
    """Inline, as late as possible, in turn and at random: all logits equal, no race."""
    lived = live(pressed("tiny-sliding", 12, policy), twin)
    assert lived.equality.is_exact
    assert lived.races == []


def test_threads_with_slow_stores_are_right() -> None:
    """With a worker a stream and stores that take 2 ms each, all logits are equal."""
    slow = Delays({Kind.STORE_ORDERED: 0.002, Kind.STORE_PINNED: 0.002})
    life = Life(
        PRESSED, "tiny", PoolOptions(mixed=True, overlap_schedule_depth=1), 12, host_parents=60,
        streams=lambda now_ns: ThreadStreams(now_ns, slow),
    )  # fmt: skip
    lived = live(life, twin)
    assert lived.equality.is_exact
    assert lived.races == []


def test_workers_run_in_the_order_of_their_events_and_forget_them() -> None:
    """A hundred operations of two workers, each waiting for the one before, run in order, and no event is kept."""
    streams, ran = ThreadStreams(lambda: 0), []
    ops = [operation(n, (Stream.EXEC, Stream.WRITE)[n % 2], *range(max(0, n - 1), n)) for n in range(100)]
    for op in ops:
        streams.submit(op, lambda op=op: ran.append(op.number))
    streams.wait(ops[-1])
    streams.close()
    assert ran == list(range(100))
    assert streams._events == {}


def test_what_comes_behind_a_failure_does_not_hide_it() -> None:
    """Virtual streams run nothing after an operation that raised, so closing them raises nothing of its own."""
    streams, ran = VirtualStreams(lambda: 0, 1, Policy.LATEST), []
    first, second = operation(0, Stream.EXEC), operation(1, Stream.EXEC, 0)
    streams.submit(first, lambda: 1 // 0)
    streams.submit(second, lambda: ran.append(1))
    with pytest.raises(ZeroDivisionError):
        streams.wait(second)
    streams.close()
    assert ran == []
