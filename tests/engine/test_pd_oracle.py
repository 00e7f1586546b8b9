"""Two nodes of the real scheduler, joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tsviz.engine.clock import VirtualClock
from tsviz.engine.configs import SchedulerOptions, parse_groups
from tsviz.engine.faults import ClientAbort
from tsviz.engine.link import LinkOptions
from tsviz.engine.pd import PairNode, PairSummary, run_pair
from tsviz.engine.run import RunOptions
from tsviz.engine.simulated import SimulatedOptions
from tsviz.engine.speech import SpeechOptions
from tsviz.engine.summary import EndReason
from tsviz.engine.workloads.model import Workload, expand

pytestmark = pytest.mark.oracle

NODE = SchedulerOptions(
    parse_groups("full:4"), prefix_granularity=4, max_scheduled_tokens=32, max_batch_size=8, num_device_pages=129
)


class Pair:
    """A pair behind logs."""

    def __init__(self, logged_again: Callable[[], Any]) -> None:
        self.p, self.d = logged_again(), logged_again()

    def run(
        self, workload: Workload, options: SchedulerOptions = NODE, run: RunOptions | None = None, **link: Any
    ) -> PairSummary:
        return run_pair(
            PairNode(self.p, options),
            PairNode(self.d, options),
            workload,
            run or RunOptions(),
            LinkOptions(**link),
            clock=VirtualClock(),
        )

    def idle_pages(self) -> list[int]:
        """Per node, the LCM blocks that live requests still hold, after the plan that reaps the last ones."""
        held = []
        for node in (self.p, self.d):
            node.schedulers[-1].next_execution_plan()
            held.append(node.schedulers[-1].active_lcm_blocks())
        return held


@pytest.fixture
def pair(logged_again: Callable[[], Any]) -> Pair:
    return Pair(logged_again)


@pytest.mark.parametrize(("depth", "width"), [(0, 1), (1, 1), (0, 3), (1, 3)])
def test_a_pair_says_every_token(pair: Pair, ask: Any, together: Any, depth: int, width: int) -> None:
    """P says the first token of each request, D all others; P never decodes, D never prefills, nothing is kept."""
    requests = [ask(f"r{i}", 5 + 9 * (i % 5), 1 + 5 * (i % 4), source=i % 3, at=i * 9_000_000) for i in range(14)]
    options = replace(NODE, overlap_schedule_depth=depth, decode_input_tokens=width)
    summary = pair.run(together(*requests), options)
    assert (summary.decode.reason, summary.decode.finished, summary.prefill.finished) == (EndReason.DRAINED, 14, 14)
    said: dict[str, list[int]] = {}
    for _, request_id, _, tokens in pair.p.events("ExtendResult"):
        said.setdefault(request_id, []).extend(tokens)
    assert said == {r.request_id: expand(r.output)[:1].tolist() for r in requests}
    assert {e[2]: [e[1]] for e in pair.d.events("RemotePrefillDoneEvent")} == said
    for _, request_id, _, tokens in pair.d.events("ExtendResult"):
        said[request_id].extend(tokens)
    assert said == {r.request_id: expand(r.output).tolist() for r in requests}
    assert all(prefix >= 0 for rows in pair.p.rows() for _, _, prefix in rows)
    assert all(prefix < 0 for rows in pair.d.rows() for _, _, prefix in rows)
    assert pair.p.events("Finish") == []
    assert pair.idle_pages() == [0, 0]


def test_the_order_of_a_hand_over(pair: Pair, ask: Any, together: Any) -> None:
    """D bootstraps at once, P only when D's manifest arrives; P's success and D's landing carry the same time."""
    clock = VirtualClock()
    happened: list[tuple[int, str, str]] = []

    def watch(node: Any, name: str) -> None:
        class Log(list):  # type: ignore[type-arg]
            def append(self, call: Any) -> None:
                super().append(call)
                if call[0] == "advance":
                    happened.extend((clock.now_ns(), name, e[0]) for e in call[1])
                elif call[0] == "plan":
                    streams = [s for s in ("remote_prefill", "remote_decode") if getattr(call[1], s) is not None]
                    happened.extend((clock.now_ns(), name, s) for s in streams)

        node.log = Log()

    watch(pair.p, "P")
    watch(pair.d, "D")
    run_pair(
        PairNode(pair.p, NODE),
        PairNode(pair.d, NODE),
        together(ask("a", 9, 2)),
        RunOptions(),
        LinkOptions(manifest_ns=1_000, transfer_ns=50_000_000, transfer_token_ns=1_000_000),
        clock=clock,
    )
    assert [(node, what) for _, node, what in happened] == [
        ("D", "BootstrappedEvent"),
        ("D", "remote_prefill"),
        ("P", "BootstrappedEvent"),
        ("P", "ExtendResult"),
        ("P", "remote_decode"),
        ("D", "RemotePrefillDoneEvent"),
        ("P", "SucceededEvent"),
        ("D", "ExtendResult"),
        ("D", "Finish"),
    ]
    at = {what: ns for ns, _, what in happened}
    # 50 ms and 9 tokens of 1 ms.
    assert at["RemotePrefillDoneEvent"] == at["SucceededEvent"] == at["remote_decode"] + 59_000_000


def test_a_failed_transfer_fails_both_sides(pair: Pair, ask: Any, together: Any) -> None:
    """A transfer that fails is reported once on either side, frees both, and lets the successor arrive."""
    workload = together(ask("a", 9, 4), ask("b", 9, 4), ask("c", 9, 4, after="a"))
    summary = pair.run(workload, failed_transfers=frozenset({"a"}))
    assert (summary.decode.reason, summary.decode.finished, summary.decode.failed) == (EndReason.DRAINED, 2, 1)
    assert (summary.prefill.finished, summary.prefill.failed) == (2, 1)
    assert pair.p.events("FailedEvent") == pair.d.events("FailedEvent") == [("FailedEvent", "a")]
    assert pair.idle_pages() == [0, 0]


def test_a_lost_manifest_times_out(pair: Pair, ask: Any, together: Any) -> None:
    """P gives up a request whose manifest never came after its bootstrap timeout, and D hears of it."""
    summary = pair.run(together(ask("a", 9, 4)), lost_manifests=frozenset({"a"}))
    assert (summary.decode.failed, summary.prefill.failed) == (1, 1)
    assert 120 * 10**9 <= summary.decode.end_ns < 121 * 10**9
    assert pair.idle_pages() == [0, 0]


@pytest.mark.parametrize("after_ms", [0, 4, 9, 17, 30, 60, 200])
def test_a_client_gives_up_at_any_stage(pair: Pair, ask: Any, together: Any, after_ms: int) -> None:
    """Whenever a client leaves, both nodes let go of its request, and the others finish."""
    run = RunOptions(aborts=(ClientAbort("a", after_ms * 1_000_000),))
    summary = pair.run(together(ask("a", 40, 30), ask("b", 9, 4)), run=run, transfer_ns=40_000_000)
    assert (summary.decode.reason, summary.decode.finished, summary.decode.aborted) == (EndReason.DRAINED, 1, 1)
    assert summary.prefill.live == 0
    assert len(pair.d.events("Abort")) + len(pair.d.events("FailedEvent")) == 1
    assert pair.p.events("Abort") == []
    assert pair.idle_pages() == [0, 0]


def test_an_abort_waits_for_the_transfer_to_stop(pair: Pair, ask: Any, together: Any) -> None:
    """While pages are on their way an abort is a failure on both sides, after the time it takes to cancel."""
    run = RunOptions(aborts=(ClientAbort("a", 200_000_000),))
    summary = pair.run(together(ask("a", 9, 4)), run=run, transfer_ns=10**9, cancel_ns=300_000_000)
    assert (summary.decode.aborted, summary.decode.failed, summary.prefill.failed) == (1, 0, 1)
    assert pair.d.events("FailedEvent") == pair.p.events("FailedEvent") == [("FailedEvent", "a")]
    assert 500_000_000 <= summary.decode.end_ns < 10**9


def test_broken_numbers_on_p_fail_d(pair: Pair, ask: Any, together: Any) -> None:
    """A corrupt prompt aborts on P and fails on D; nothing is handed over."""
    run = RunOptions(device=SimulatedOptions(speech=SpeechOptions(corrupt_rate=1.0)))
    summary = pair.run(together(ask("a", 9, 4)), run=run)
    assert (summary.prefill.aborted, summary.decode.failed) == (1, 1)
    assert [e[1] for e in pair.p.events("Abort")] == [e[1] for e in pair.d.events("FailedEvent")] == ["a"]
    assert pair.idle_pages() == [0, 0]


def test_both_refuse(pair: Pair, ask: Any, together: Any) -> None:
    """A request that only P could hold is submitted to neither, and its successor arrives at both."""
    summary = pair.run(together(ask("a", 490, 100), ask("b", 9, 1, after="a")))
    assert summary.decode.refused == summary.prefill.refused == 1
    assert (summary.decode.finished, summary.prefill.finished) == (1, 1)


def test_ids_are_rooms(pair: Pair, ask: Any, together: Any) -> None:
    """A pair refuses a workload in which an id occurs twice."""
    with pytest.raises(ValueError, match="'a' occurs twice"):
        pair.run(together(ask("a", 9, 1), ask("a", 9, 1)))
