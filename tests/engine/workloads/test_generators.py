"""The seeded generators."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest

from tsviz.engine.workloads.errors import WorkloadError
from tsviz.engine.workloads.model import Workload, WorkRequest, expand
from tsviz.engine.workloads.options import WorkloadOptions
from tsviz.engine.workloads.registry import GENERATORS, load

SECOND = 10**9


def make(name: str, **options: Any) -> Workload:
    return load(name, WorkloadOptions(**options))


def arrivals(workload: Workload) -> list[int]:
    return [r.arrival_ns for r in workload.requests if r.arrival_ns is not None]


@pytest.mark.parametrize("name", GENERATORS)
def test_a_seed_repeats_everything_and_another_does_not(name: str) -> None:
    """Equal options give equal workloads; another seed gives other requests."""
    assert make(name, seed=5) == make(name, seed=5)
    assert make(name, seed=5).requests != make(name, seed=6).requests


@pytest.mark.parametrize("name", GENERATORS)
def test_lengths_do_not_move_arrivals(name: str) -> None:
    """Arrivals and lengths are drawn from streams of their own."""
    assert arrivals(make(name, output_tokens=9)) == arrivals(make(name, output_tokens=999, prompt_tokens=3))


@pytest.mark.parametrize("name", GENERATORS)
def test_ids_are_unique_and_arrivals_in_order(name: str) -> None:
    """No id occurs twice, no request waits for a later one, arrivals do not go back, nothing is empty."""
    workload = make(name)
    seen: set[str] = set()
    for request in workload.requests:
        assert request.request_id not in seen
        assert request.after is None or request.after in seen
        assert (request.arrival_ns is None) == (request.after is not None)
        assert request.prompt_tokens > 0 and request.output_tokens > 0
        seen.add(request.request_id)
    assert arrivals(workload) == sorted(arrivals(workload))


@pytest.mark.parametrize("name", GENERATORS)
def test_scale_speed_rows_and_max_new_act_as_on_traces(name: str) -> None:
    """Lengths are divided, times are divided, the first rows are kept, the scheduler is told what was asked."""
    whole = make(name)
    small = make(name, scale=8, speed=2, rows=7, max_new=99)
    assert len(small.requests) == 7
    for a, b in zip(whole.requests, small.requests, strict=False):
        assert b.max_new_tokens == 99
        assert b.output_tokens == max(1, a.output_tokens // 8)
        assert b.think_ns == round(a.think_ns / 2)
        assert (b.arrival_ns, a.arrival_ns) == (None, None) or b.arrival_ns == round((a.arrival_ns or 0) / 2)
    assert small.meta["seed"] == 0 and small.meta["kind"] == name


def test_poisson_has_the_rate_that_is_asked() -> None:
    """10,000 gaps of mean 1/4 s end at 2,500 s, deviation 2,500 / sqrt(10,000) = 25; five are 125."""
    workload = make("poisson", requests=10_000, rate=4)
    assert arrivals(workload)[-1] / SECOND == pytest.approx(2500, abs=125)
    gaps = [b - a for a, b in pairwise(arrivals(workload))]
    mean = fmean(gaps)
    assert fmean((g - mean) ** 2 for g in gaps) ** 0.5 / mean == pytest.approx(1.0, abs=0.06)


def test_lengths_are_uniform_around_their_mean() -> None:
    """Mean 100, spread 0.2: 80 to 120, deviation 11.8; of 4,000 the mean is off by under 5 x 11.8 / 63 = 0.94."""
    prompts = [r.prompt_tokens for r in make("poisson", requests=4000, prompt_tokens=100, spread=0.2).requests]
    assert (min(prompts), max(prompts)) == (80, 120)
    assert fmean(prompts) == pytest.approx(100, abs=0.94)
    assert {r.prompt_tokens for r in make("poisson", prompt_tokens=100, spread=0).requests} == {100}
    assert {r.prompt_tokens for r in make("poisson", prompt_tokens=1, spread=1).requests} == {1}


def test_bursts_come_together_and_keep_the_mean_rate() -> None:
    """16,000 requests by 16 are 1,000 times; 999 gaps of mean 4 s, deviation 4 x sqrt(999) = 126; five are 632."""
    workload = make("bursts", requests=16_000, rate=4, burst=16)
    sizes = Counter(arrivals(workload))
    assert set(sizes.values()) == {16}
    assert len(sizes) == 1000
    assert arrivals(workload)[0] == 0
    assert arrivals(workload)[-1] / SECOND == pytest.approx(999 * 4, abs=632)


def test_the_last_burst_may_be_smaller() -> None:
    """20 requests in bursts of 8 are 8, 8 and 4."""
    assert list(Counter(arrivals(make("bursts", requests=20, burst=8))).values()) == [8, 8, 4]


def test_prefixes_are_shared_as_often_as_their_rank_says() -> None:
    """Of 3 prefixes number k has weight 1/k: 6/11, 3/11, 2/11; of 6,000 the deviation is under 39; five are 193."""
    workload = make("shared_prefixes", requests=6000, prefixes=3, prefix_tokens=64)
    counts = Counter(r.prompt[0] for r in workload.requests)
    expected = [6000 * 6 / 11, 6000 * 3 / 11, 6000 * 2 / 11]
    assert sorted(counts.values(), reverse=True) == pytest.approx(expected, abs=193)
    assert all(span.length == 64 for span in counts)


def test_behind_the_prefix_nothing_is_shared() -> None:
    """Every other part of a prompt and every output has a source of its own; without a prefix nothing is shared."""
    for prefix_tokens, parts in ((64, 2), (0, 1)):
        requests = make("shared_prefixes", prefix_tokens=prefix_tokens).requests
        own = [s.source for r in requests for s in (r.prompt[-1], *r.output)]
        assert {len(r.prompt) for r in requests} == {parts}
        assert len(set(own)) == len(own)


def test_a_turn_of_an_agent_is_the_last_one_its_answer_and_something_new() -> None:
    """The next prompt starts with the tokens of the last prompt and output, and then has tail_tokens of its own."""
    workload = make("agent_sessions", sessions=2, turns=3, prompt_tokens=50, tail_tokens=20, output_tokens=9, spread=0)
    by_id = {r.request_id: r for r in workload.requests}
    assert len(by_id) == 6
    followers = [r for r in workload.requests if r.after is not None]
    assert len(followers) == 4
    for request in followers:
        last = by_id[request.after or ""]
        carried = [*expand(last.prompt), *expand(last.output)]
        assert expand(request.prompt)[: len(carried)].tolist() == carried
        assert request.prompt_tokens == len(carried) + 20


def test_agent_sessions_share_their_leading_part_only() -> None:
    """512 tokens lead all sessions; without them no source is in two sessions."""

    def sources(request: WorkRequest) -> set[int]:
        return {s.source for s in (*request.prompt, *request.output)}

    for prefix_tokens, common in ((512, 1), (0, 0)):
        requests = make("agent_sessions", sessions=2, turns=4, prefix_tokens=prefix_tokens).requests
        assert len(sources(requests[3]) & sources(requests[7])) == common


def test_think_times_have_their_mean() -> None:
    """3,800 exponential think times of mean 2 s: deviation of their mean 2 / sqrt(3,800) = 0.032; five are 0.162."""
    workload = make("agent_sessions", sessions=200, turns=20, think_s=2)
    think = [r.think_ns / SECOND for r in workload.requests if r.after is not None]
    assert len(think) == 3800
    assert fmean(think) == pytest.approx(2, abs=0.162)


def test_a_window_cuts_generated_arrivals_but_sessions_have_none() -> None:
    """Requests before the window are counted; agent sessions say that they have no window."""
    whole = make("poisson")
    cut = make("poisson", start_s=5)
    assert len(cut.requests) + cut.skipped["outside the window asked for"] == len(whole.requests)
    assert arrivals(cut) == [ns - 5 * SECOND for ns in arrivals(whole) if ns >= 5 * SECOND]
    with pytest.raises(WorkloadError, match="agent_sessions has no window"):
        make("agent_sessions", window_s=1)


def test_times_beyond_all_clocks_are_an_error() -> None:
    """At speed 1e-9 a rate of 1e-9 a second leaves the range of nanoseconds."""
    with pytest.raises(WorkloadError, match="time: expected below 2\\^61 ns"):
        make("poisson", rate=1e-9, speed=1e-9)
