"""A node alone on the real scheduler."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tsviz.engine.configs import Role, SchedulerOptions, parse_groups
from tsviz.engine.cost import DeviceCost
from tsviz.engine.faults import AckFaults, ClientAbort
from tsviz.engine.run import RunOptions, run_workload
from tsviz.engine.simulated import SimulatedOptions
from tsviz.engine.speech import SpeechOptions
from tsviz.engine.summary import EndReason, RefusalCause
from tsviz.engine.workloads.model import Workload, expand

pytestmark = pytest.mark.oracle

SMALL = SchedulerOptions(
    parse_groups("full:4"), prefix_granularity=4, max_scheduled_tokens=32, max_batch_size=8, num_device_pages=129
)


def small(**changes: Any) -> SchedulerOptions:
    return replace(SMALL, **changes)


def said(logged: Any) -> dict[str, list[int]]:
    """Per request the tokens of its results, in order."""
    tokens: dict[str, list[int]] = {}
    for _, request_id, _, new in logged.events("ExtendResult"):
        tokens.setdefault(request_id, []).extend(new)
    return tokens


def reference_run(module: Any, scheduler: SchedulerOptions, workload: Workload) -> list[Any]:
    """The simplest loop there is, written straight on the API: its forwards' end and rows, without overlap."""
    s = module.Scheduler(scheduler.build(module))
    now = arrived = 0
    requests = sorted(workload.requests, key=lambda r: r.arrival_ns or 0)
    want, got, acks, rows = {}, {}, [], []
    outputs = {r.request_id: expand(r.output).tolist() for r in requests}
    while True:
        specs = []
        while arrived < len(requests) and (requests[arrived].arrival_ns or 0) <= now:
            r = requests[arrived]
            arrived += 1
            spec = module.RequestSpec()
            spec.request_id, spec.tokens, spec.max_new_tokens = r.request_id, expand(r.prompt), r.max_new_tokens
            specs.append(spec)
            want[r.request_id], got[r.request_id] = r.output_tokens, 0
        if specs:
            s.submit_requests(specs)
        if acks:
            event = module.ExecutionEvent()
            for ack in acks:
                event.add_event(ack)
            s.advance(event)
            acks = []
        plan = s.next_execution_plan()
        b = plan.forward[0]
        for op in plan.cache:
            for op_id in op.op_ids:
                if isinstance(op, module.Cache.WriteBackOp):
                    done = module.Cache.WriteBackDoneEvent()
                    done.op_id = op_id
                    acks.append(done)
                else:
                    acks.append(module.Cache.LoadBackDoneEvent(op_id, True))
        if not b.request_ids:
            if not want and not acks and arrived == len(requests):
                return rows
            now += 8_000_000
            if not want and not acks:
                now = max(now, requests[arrived].arrival_ns or 0)
            continue
        now += 8_000_000 + 20_000 * sum(b.input_lengths)
        rows.append((now, list(b.request_ids), list(b.input_lengths), list(b.extend_prefix_lens)))
        event = module.ExecutionEvent()
        for k, rid in enumerate(b.request_ids):
            result = module.ForwardEvent.ExtendResult()
            result.request_id = rid
            if k < b.num_extends() and b.extend_prefix_lens[k] + b.input_lengths[k] < b.prefill_lengths[k]:
                event.add_event(result)
                continue
            result.tokens = [outputs[rid][got[rid]]]
            got[rid] += 1
            event.add_event(result)
            if got[rid] == want[rid]:
                finish = module.ForwardEvent.Finish()
                finish.request_id = rid
                event.add_event(finish)
                del want[rid]
        s.advance(event)


@pytest.mark.parametrize("mixed", [False, True])
def test_same_rounds_as_the_simplest_loop(logged: Any, real: Any, ask: Any, together: Any, mixed: bool) -> None:
    """Batches and their virtual time are those of a loop written straight on the API, host tier and all."""
    requests = [ask(f"r{i}", 9 + 7 * (i % 5), 5 + 9 * (i % 3), source=i % 4, at=i * 21_000_000) for i in range(24)]
    workload = together(*requests)
    options = small(num_device_pages=33, num_host_pages=65, mixed=mixed)
    ends: list[int] = []

    class Observer:
        def arrivals(self, arrivals: Any) -> None: ...

        def forward(self, start_ns: int, end_ns: int) -> None:
            ends.append(end_ns)

    summary = run_workload(logged, options, workload, RunOptions(), observer=Observer())
    assert summary.reason is EndReason.DRAINED
    assert summary.finished == 24
    batches = [p.forward[0] for p in logged.plans() if p.forward[0].request_ids]
    columns = [(list(b.request_ids), list(b.input_lengths), list(b.extend_prefix_lens)) for b in batches]
    assert [(end, *row) for end, row in zip(ends, columns, strict=True)] == reference_run(real, options, workload)


@pytest.mark.parametrize("width", [1, 3])
def test_overlap_changes_no_token(logged_again: Any, ask: Any, together: Any, width: int) -> None:
    """With one result in flight every request says the same tokens and finishes as without."""
    requests = [ask(f"r{i}", 5 + 11 * (i % 4), 3 + 4 * (i % 5), at=i * 9_000_000) for i in range(16)]
    outcomes = []
    for depth in (0, 1):
        logged = logged_again()
        options = small(overlap_schedule_depth=depth, decode_input_tokens=width, mixed=True)
        summary = run_workload(logged, options, together(*requests), RunOptions())
        assert (summary.reason, summary.finished) == (EndReason.DRAINED, 16)
        outcomes.append(said(logged))
    assert outcomes[0] == outcomes[1] == {r.request_id: expand(r.output).tolist() for r in requests}


def test_overlap_keeps_the_device_busy(logged: Any, ask: Any, together: Any) -> None:
    """With one result in flight forward N + 1 starts when forward N ends, and the plan between them does not wait."""
    spans: list[tuple[int, int]] = []

    class Observer:
        def arrivals(self, arrivals: Any) -> None: ...

        def forward(self, start_ns: int, end_ns: int) -> None:
            spans.append((start_ns, end_ns))

    run_workload(logged, small(overlap_schedule_depth=1), together(ask("a", 8, 6)), RunOptions(), observer=Observer())
    # 8 prompt tokens, then decodes of one: 8 ms and 20 us a token. The seventh forward lingers behind the finish.
    assert spans[0] == (0, 8_160_000)
    assert [end for _, end in spans] == [8_160_000 + 8_020_000 * i for i in range(7)]
    assert all(start == end for (_, end), (start, _) in pairwise(spans))


def test_accepted_counts_are_reserved(logged: Any, ask: Any, together: Any) -> None:
    """Width 3: UpdateReserve follows each result of a decode that goes on, with the number of tokens it landed."""
    options = small(decode_input_tokens=3)
    run = RunOptions(device=SimulatedOptions(speech=SpeechOptions(acceptance_rate=0.5)))
    summary = run_workload(logged, options, together(ask("a", 8, 40)), run)
    assert summary.finished == 1
    events = [e for call in logged.log if call[0] == "advance" for e in call[1]]
    results = [len(e[3]) for e in events if e[0] == "ExtendResult"]
    assert sum(results) == 40
    assert {1, 2, 3} == set(results[1:-1])
    # The first result completes the prompt and the last is followed by Finish: neither reserves.
    assert [e[2] for e in events if e[0] == "UpdateReserveNumTokens"] == results[1:-1]
    assert [e[0] for e in events][-2:] == ["ExtendResult", "Finish"]


def test_without_speculation_nothing_is_reserved(logged: Any, ask: Any, together: Any) -> None:
    """Width 1 sends no UpdateReserve."""
    run_workload(logged, SMALL, together(ask("a", 8, 10)), RunOptions())
    assert logged.events("UpdateReserveNumTokens") == []


def test_beyond_the_bound_is_refused(logged: Any, real: Any, ask: Any, together: Any) -> None:
    """A request beyond the bound is refused with its numbers, is never submitted, and its successor still arrives."""
    bound = real.Scheduler(SMALL.build(real)).max_single_request_tokens()
    workload = together(
        ask("fits", bound - 10, 10),
        ask("not", bound - 10, 11),
        ask("next", 8, 2, after="not", think=5_000_000),
        ask("none", 0, 1),
        ask("mute", 4, 0),
    )
    summary = run_workload(logged, SMALL, workload, RunOptions())
    assert [(r.request_id, r.cause, r.need_tokens, r.bound_tokens) for r in summary.refusals] == [
        ("not", RefusalCause.BEYOND_BOUND, bound + 1, bound),
        ("none", RefusalCause.EMPTY_PROMPT, 1, bound),
        ("mute", RefusalCause.EMPTY_OUTPUT, 5, bound),
    ]
    assert (summary.reason, summary.finished, summary.submitted) == (EndReason.DRAINED, 2, 2)


def test_arrivals_after_an_end(logged: Any, ask: Any, together: Any) -> None:
    """A turn arrives its think time after the turn before has finished, and the observer hears both reasons."""
    heard: dict[str, Any] = {}
    ends: list[int] = []

    class Observer:
        def arrivals(self, arrivals: Any) -> None:
            heard.update(arrivals)

        def forward(self, start_ns: int, end_ns: int) -> None:
            ends.append(end_ns)

    workload = together(ask("one", 8, 2, at=3_000_000), ask("two", 8, 1, after="one", think=50_000_000))
    summary = run_workload(logged, SMALL, workload, RunOptions(), observer=Observer())
    assert summary.finished == 2
    assert heard["one"] == (3_000_000, None, 0)
    assert heard["two"] == (ends[1] + 50_000_000, "one", 50_000_000)


def test_an_id_is_used_again_after_it_was_reaped(logged: Any, ask: Any, together: Any) -> None:
    """A second request of the same id waits until the first has ended and a plan has reaped it."""
    summary = run_workload(logged, SMALL, together(ask("a", 8, 3), ask("a", 12, 2)), RunOptions())
    assert (summary.reason, summary.finished) == (EndReason.DRAINED, 2)
    calls = [c[0] if c[0] != "advance" else "finish" for c in logged.log if c[0] != "advance" or len(c[1]) == 2]
    second = len(calls) - 1 - calls[::-1].index("submit")
    assert "finish" in calls[:second]
    assert calls[second - 1] == "plan"


def test_a_client_gives_up(logged: Any, ask: Any, together: Any) -> None:
    """An abort reaches the scheduler in the tail of the round in which it falls due, and its successor arrives."""
    workload = together(ask("a", 8, 50), ask("b", 8, 20), ask("c", 8, 1, after="a"))
    for depth in (0, 1):
        logged.log.clear()
        run = RunOptions(aborts=(ClientAbort("a", 60_000_000),))
        summary = run_workload(logged, small(overlap_schedule_depth=depth), workload, run)
        assert (summary.reason, summary.finished, summary.aborted) == (EndReason.DRAINED, 2, 1)
        assert [e[1] for e in logged.events("Abort")] == ["a"]


def test_broken_numbers_abort(logged: Any, ask: Any, together: Any) -> None:
    """A corrupt row is reported as a result and an abort of its request, in this order."""
    run = RunOptions(device=SimulatedOptions(speech=SpeechOptions(corrupt_rate=1.0)))
    summary = run_workload(logged, SMALL, together(ask("a", 8, 5)), run)
    assert (summary.finished, summary.aborted) == (0, 1)
    assert [e[0] for c in logged.log if c[0] == "advance" for e in c[1]] == ["ExtendResult", "Abort"]


def test_late_acknowledgements_change_no_token(logged_again: Any, ask: Any, together: Any) -> None:
    """Slow copies and late acknowledgements cost time, never tokens."""
    requests = [ask(f"r{i}", 21, 12, declared=False, source=i % 3) for i in range(12)]
    options = small(num_device_pages=25, num_host_pages=65, mixed=False)
    outcomes = []
    for cost in (DeviceCost(), DeviceCost(store_page_ns=3_000_000, load_page_ns=2_000_000, ack_delay_ns=40_000_000)):
        logged = logged_again()
        run = RunOptions(device=SimulatedOptions(cost=cost))
        summary = run_workload(logged, options, together(*requests), run)
        assert (summary.reason, summary.finished) == (EndReason.DRAINED, 12)
        outcomes.append((said(logged), summary.end_ns))
    assert outcomes[0][0] == outcomes[1][0]
    assert outcomes[0][1] < outcomes[1][1]


def test_a_failed_load_is_acknowledged_as_failed(logged: Any, ask: Any, together: Any) -> None:
    """A load that fails is acknowledged with success false, and the run goes on."""
    requests = [ask(f"r{i}", 25, 12, source=i % 5, at=i * 60_000_000) for i in range(15)]
    options = small(num_device_pages=17, num_host_pages=129)
    run = RunOptions(device=SimulatedOptions(acks=AckFaults(failed_load_rate=1.0)))
    summary = run_workload(logged, options, together(*requests), run)
    assert (summary.reason, summary.finished) == (EndReason.DRAINED, 15)
    loads = logged.events("LoadBackDoneEvent")
    assert loads
    assert not any(success for _, _, success in loads)


def test_a_lost_acknowledgement_of_a_pinned_store_holds_the_gate(logged: Any, ask: Any, together: Any) -> None:
    """With its store's acknowledgement lost nobody is retracted, the run stalls and says so (incident I46)."""
    options = small(max_scheduled_tokens=8, max_batch_size=4, num_device_pages=9, num_host_pages=17, mixed=True)
    # 4-token blocks, 8 of them. A leaves 4 pinned; B grows into the other 4 and needs a fifth.
    workload = together(ask("A", 16, 4), ask("B", 8, 20, declared=False, after="A"))
    lost = RunOptions(device=SimulatedOptions(acks=AckFaults(lost_ops=frozenset(range(64)))))
    summary = run_workload(logged, options, workload, lost)
    assert (summary.reason, summary.finished, summary.live, summary.retractions) == (EndReason.STALLED, 1, 1, 0)
    kept = run_workload(logged, options, workload, RunOptions())
    assert (kept.reason, kept.finished) == (EndReason.DRAINED, 2)


def test_retractions_are_counted(logged: Any, ask: Any, together: Any) -> None:
    """Retractions are as many as readmissions of requests that had been admitted before."""
    requests = [ask(f"r{i}", 13, 30, declared=False) for i in range(6)]
    options = small(num_device_pages=25, num_host_pages=129)
    summary = run_workload(logged, options, together(*requests), RunOptions())
    assert (summary.reason, summary.finished) == (EndReason.DRAINED, 6)
    decoding: set[str] = set()
    readmitted = 0
    for rows in logged.rows():
        for request_id, _, prefix in rows:
            if prefix < 0:
                decoding.add(request_id)
            elif request_id in decoding:
                readmitted += 1
                decoding.discard(request_id)
    assert summary.retractions == readmitted > 0


def test_limits(logged: Any, ask: Any, together: Any) -> None:
    """A run ends at its limit of rounds, or when it is asked to, and says which; what lives is counted."""
    workload = together(ask("a", 8, 50), ask("b", 8, 50, at=10**12))
    summary = run_workload(logged, SMALL, workload, RunOptions(max_rounds=7))
    assert (summary.reason, summary.rounds, summary.live, summary.not_arrived) == (EndReason.MAX_ROUNDS, 7, 1, 1)
    asked = iter([False] * 3 + [True])
    summary = run_workload(logged, SMALL, workload, RunOptions(stop=lambda: next(asked)))
    assert (summary.reason, summary.rounds) == (EndReason.STOPPED, 3)


def test_an_idle_run_sleeps(logged: Any, ask: Any, together: Any) -> None:
    """A run with nothing to do jumps to the next arrival instead of planning every 8 ms up to it."""
    hour_ns = 3_600 * 10**9
    summary = run_workload(logged, SMALL, together(ask("a", 8, 2), ask("b", 8, 2, at=hour_ns)), RunOptions())
    assert summary.finished == 2
    assert summary.rounds < 20
    assert summary.end_ns > hour_ns


def test_kv_events_are_drained_once_a_round(logged: Any, ask: Any, together: Any) -> None:
    """With KV events on, every round ends with one drain, and only then."""
    summary = run_workload(logged, small(kv_events=True), together(ask("a", 9, 3)), RunOptions())
    kinds = [c[0] for c in logged.log]
    assert kinds.count("drain") == summary.rounds
    assert summary.kv_events == sum(c[1] for c in logged.log if c[0] == "drain") > 0
    run_workload(logged, SMALL, together(ask("a", 9, 3)), RunOptions())
    assert [c[0] for c in logged.log].count("drain") == summary.rounds


def test_a_node_alone_is_fused(logged: Any, ask: Any, together: Any) -> None:
    """A P or D configuration needs a pair."""
    with pytest.raises(ValueError, match="found role P"):
        run_workload(logged, small(role=Role.P), together(ask("a", 8, 1)), RunOptions())
