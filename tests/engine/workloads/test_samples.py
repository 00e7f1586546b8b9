"""The samples beside the repository: what their READMEs state, counted from the requests that come out."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tsviz.engine.workloads.model import Span, Workload, expand
from tsviz.engine.workloads.options import WorkloadOptions
from tsviz.engine.workloads.registry import load

FOLDERS = {
    "mooncake-conversation": ("mooncake", 3658),
    "mooncake-synthetic": ("mooncake", 2254),
    "azure-2023-conv": ("azure", 12_000),
    "azure-2023-code": ("azure", 5500),
    "burstgpt": ("burstgpt", 59),
    "weka-agentic": ("weka", 397),
}


def leading_hits(workload: Workload, block_tokens: int, *, partial: bool) -> tuple[int, int]:
    """Return how many leading blocks an unbounded cache had, and how many there were, over all prompts in order.

    A block of the trace is a span from position 0 of its source; `partial` counts those that are not whole, too.
    """
    seen: set[int] = set()
    hits = blocks = 0
    for request in workload.requests:
        mine = [s.source for s in request.prompt if s.start == 0 and (partial or s.length == block_tokens)]
        depth = next((i for i, block in enumerate(mine) if block not in seen), len(mine))
        hits, blocks = hits + depth, blocks + len(mine)
        seen.update(mine)
    return hits, blocks


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_row_of_a_sample_is_a_request_or_counted(samples: Path, folder: str) -> None:
    """Row counts are those of the READMEs; only BurstGPT has rows to skip: two failed calls."""
    kind, rows = FOLDERS[folder]
    workload = load(f"{kind}:{samples / folder}")
    assert workload.meta["input_rows"] == rows == len(workload.requests) + sum(workload.skipped.values())
    assert workload.skipped == ({"empty prompt and empty output": 2} if kind == "burstgpt" else {})
    assert len({r.request_id for r in workload.requests}) == len(workload.requests)


@pytest.mark.parametrize(("folder", "percent"), [("mooncake-conversation", 31.8), ("mooncake-synthetic", 36.2)])
@pytest.mark.parametrize("scale", [1, 8, 3])
def test_mooncake_blocks_are_hit_as_often_as_the_readme_says(
    samples: Path, folder: str, percent: float, scale: int
) -> None:
    """The unbounded block hit rate is the README's; at scale 1 and 8 (up to emptied last blocks), and at 3."""
    hits, blocks = leading_hits(load(f"mooncake:{samples / folder}", WorkloadOptions(scale=scale)), 512, partial=True)
    assert 100 * hits / blocks == pytest.approx(percent, abs=0.05 if scale == 1 else 0.2)


@pytest.mark.parametrize(("scale", "block_tokens"), [(1, 64), (8, 8), (64, 1)])
def test_weka_blocks_are_hit_as_often_as_the_readme_says(samples: Path, scale: int, block_tokens: int) -> None:
    """Within sessions 92.6 % of full blocks are hit; sessions share none, so one cache for all gives the same."""
    workload = load(f"weka:{samples / 'weka-agentic'}", WorkloadOptions(scale=scale, session_gap_s=1e5))
    hits, blocks = leading_hits(workload, block_tokens, partial=False)
    if scale == 1:
        assert 100 * hits / blocks == pytest.approx(92.6, abs=0.05)
    assert 92 < 100 * hits / blocks < 93.5


def carried_on(path: Path) -> int:
    """Count, in the file, the turns whose ids the agent's next turn starts with."""
    entries = json.loads(path.read_text())["requests"]
    agents = [[e for e in entries if e["type"] != "subagent"]]
    agents += [e["requests"] for e in entries if e["type"] == "subagent"]
    ids = [[turn["hash_ids"] for turn in turns] for turns in agents]
    return sum(after[: len(before)] == before for turns in ids for before, after in pairwise(turns))


@pytest.mark.parametrize(("name", "agents"), [("trace_0016", 1), ("trace_0019", 1), ("trace_0291", 3)])
def test_weka_turns_carry_the_prompt_and_answer_of_the_turn_before(samples: Path, name: str, agents: int) -> None:
    """A turn that keeps all full blocks of the turn before starts with that turn's prompt and answer."""
    path = samples / "weka-agentic" / f"{name}.json"
    requests = load(f"weka:{path}", WorkloadOptions(scale=8)).requests
    by_id = {r.request_id: r for r in requests}
    pairs = followed = answered = 0
    for request in requests:
        agent, _, turn = request.request_id.rpartition("/")
        last = by_id.get(f"{agent}/{int(turn) - 1:05d}")
        if last is None:
            continue
        pairs += 1
        tokens, before = expand(request.prompt), expand(last.prompt)
        if len(tokens) >= len(before) and (tokens[: len(before)] == before).all():
            followed += 1
            answer = expand(last.output)[: len(tokens) - len(before)]
            answered += bool((tokens[len(before) : len(before) + len(answer)] == answer).all())
    assert pairs == len(requests) - agents
    assert 0 < followed == answered == carried_on(path) < pairs


def test_weka_sessions_and_subagents_start_as_stated(samples: Path) -> None:
    """13 sessions have an arrival; the 6 sub-agents wait for their parent, which waits for 3 of them."""
    requests = load(f"weka:{samples / 'weka-agentic'}").requests
    arrivals = [r.arrival_ns for r in requests if r.arrival_ns is not None]
    assert arrivals == [n * 10 * 10**9 for n in range(13)]
    starts = [r for r in requests if "/sub-" in r.request_id and r.request_id.endswith("/00001")]
    assert len(starts) == 6
    assert all("/parent/" in (r.after or "") and 0.6e9 < r.think_ns < 1.1e9 for r in starts)
    assert sum("/parent/" in r.request_id and "/sub-" in (r.after or "") for r in requests) == 3


def test_mooncake_spans_say_what_the_rows_say(samples: Path) -> None:
    """Lengths, times and ids of every row are found again in its request."""
    [path] = (samples / "mooncake-conversation").glob("*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row, request in zip(rows, load(f"mooncake:{path}").requests, strict=True):
        assert request.arrival_ns == row["timestamp"] * 1_000_000
        assert (request.prompt_tokens, request.output_tokens) == (row["input_length"], row["output_length"])
        assert [s.source for s in request.prompt] == row["hash_ids"]
        assert all(s.start == 0 and s.length == 512 for s in request.prompt[:-1])


def test_all_mooncake_prompts_start_with_the_common_system_prompt(samples: Path) -> None:
    """Block 0 is in all rows."""
    requests = load(f"mooncake:{samples / 'mooncake-conversation'}").requests
    assert {r.prompt[0] for r in requests if r.prompt_tokens >= 512} == {Span(0, 0, 512)}
    assert {r.prompt[0].source for r in requests} == {0}


@pytest.mark.parametrize(
    ("folder", "prompt_p50", "prompt_p99", "output_p50", "output_p99"),
    [
        ("mooncake-conversation", 7888, 94_991, 358, 1166),
        ("mooncake-synthetic", 4535, 56_635, 149, 776),
        ("azure-2023-conv", 1025, 4123, 116, 603),
        ("azure-2023-code", 1463, 7436, 13, 239),
        ("weka-agentic", 54_699, 134_550, 240, 3187),
    ],
)
def test_lengths_have_the_percentiles_of_the_readme(
    samples: Path, folder: str, prompt_p50: int, prompt_p99: int, output_p50: int, output_p99: int
) -> None:
    """p50 and p99 of prompts and outputs are those of the table (within its way of interpolating)."""
    requests = load(f"{FOLDERS[folder][0]}:{samples / folder}").requests
    for lengths, p50, p99 in (
        (sorted(r.prompt_tokens for r in requests), prompt_p50, prompt_p99),
        (sorted(r.output_tokens for r in requests), output_p50, output_p99),
    ):
        for share, stated in ((0.5, p50), (0.99, p99)):
            at = round(share * len(lengths))
            assert lengths[max(0, at - 2)] <= stated <= lengths[min(len(lengths) - 1, at + 1)]


def test_servegen_draws_the_peak_and_the_burst_of_its_clients(samples: Path) -> None:
    """Client 13 at 80,400 s: 16.77/s for 600 s are 10,061; CV 1.41 makes the deviation 141: five are 707."""
    folder = samples / "servegen-deepseek-r1"
    peak = load(f"servegen:{folder / 'chunk-13-trace.csv'}", WorkloadOptions(start_s=80_400))
    assert len(peak.requests) == pytest.approx(16.768333 * 600, abs=707)
    assert max(r.output_tokens for r in peak.requests) <= 32_768
    burst = load(f"servegen:{folder}", WorkloadOptions(start_s=55_800, rows=50))
    assert burst.meta["clients"] == "chunk-1, chunk-10, chunk-13"
    assert len(burst.requests) == 50
