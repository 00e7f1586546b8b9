"""The evict-each-other cycle that the seed calls impossible, and what ends it (`docs/conformance.md` 4)."""

from __future__ import annotations

from collections import defaultdict

from tsviz.scheduler import decisions as d
from tsviz.scheduler import events as ev
from tsviz.scheduler.config import Config, GroupConfig
from tsviz.scheduler.scheduler import Scheduler, Submission

CONFIG = Config(
    prefix_granularity=2,
    max_scheduled_tokens=4,
    max_batch_size=4,
    num_device_pages=14,
    cache_groups=(GroupConfig("full", 2, 14),),
)


def _run(budget: int, rounds: int) -> tuple[list[list[tuple[str, int, int]]], dict[str, list[str]], int]:
    """Rows (request, first token or -1, length) by round, causes by request, and how many finished."""
    causes: dict[str, list[str]] = defaultdict(list)
    scheduler = Scheduler(CONFIG, observer=lambda *_: None)
    scheduler.submit([Submission(name, [k * 100 + i for i in range(20)], budget) for k, name in enumerate("ab")])
    rows, generated, finished = [], dict.fromkeys("ab", 0), 0
    for _ in range(rounds):
        batch = scheduler.next_plan().batch
        rows.append(
            [(r.request_id, r.prefix_tokens if r.tokens is not None else -1, r.input_length) for r in batch.rows]
        )
        for request in scheduler.roster.live():
            assert request.verdict is not None
            causes[request.request_id].append(request.verdict.cause)
        for row in batch.rows:
            name = row.request_id
            whole = row.tokens is None or row.prefix_tokens + row.input_length == row.prefill_length
            generated[name] += whole
            scheduler.advance([ev.ExtendResult(name, (7,) if whole else ())])
            if generated[name] == 4:
                scheduler.advance([ev.Finish(name)])
                finished += 1
    return rows, causes, finished


def test_undeclared_prompts_starve_each_other_for_ever() -> None:
    """From round 11 on, b's first chunk and an empty batch alternate, as on the real package."""
    rows, causes, finished = _run(budget=0, rounds=200)
    # Read from the real package: rounds 1 to 10.
    assert rows[:10] == [
        [("a", 0, 4)],
        [("a", 4, 4)],
        [("a", 8, 4)],
        [("a", 12, 4)],
        [("a", 16, 4)],
        [("b", 0, 4)],
        [("a", -1, 1)],
        [("b", 0, 4)],
        [("a", -1, 1)],
        [("b", 0, 4)],
    ]
    assert rows[10:] == [[], [("b", 0, 4)]] * 95
    assert finished == 0
    assert set(causes["b"][12:]) == {d.SCHEDULED, d.RETRACTED}
    assert set(causes["a"][12:]) == {d.CAPACITY, d.PREFILL_ONLY}


def test_a_declared_budget_ends_it() -> None:
    """With 4 new tokens declared, the first chunk prepays prompt and generation, and both requests finish."""
    _, causes, finished = _run(budget=4, rounds=40)
    assert finished == 2
    assert d.RETRACTED not in causes["a"] + causes["b"]
