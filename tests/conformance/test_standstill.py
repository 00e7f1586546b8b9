"""A queue that stands still as a whole: the twin stops looking at its requests, and its plans stay the real ones.

The twin remembers what was true when a newcomer was refused, and passes a queue by while all of it still holds. Each
scene changes one of those truths under a standing queue; without the guard that sees it the plans would part.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.conformance.calls import Call, attempt, build_config
from tsviz.scheduler.planning.standstill import Standstill

_WAITING = 12
_GROUPS: dict[str, dict[str, Any]] = {
    "full": {"retention": "FullHistory"},
    "sliding": {"retention": "SlidingWindow", "sliding_window_tokens": 4},
    "state": {"retention": "FullHistory", "family": "State"},
}


@dataclass(frozen=True)
class Scene:
    """What a lifetime leans towards. `budgets`: tokens of a round; `echo`: prompts go on as others are generated."""

    name: str
    budgets: tuple[int, ...] = (64,)
    pages: tuple[int, int] = (60, 90)
    groups: tuple[str, ...] = ("full",)
    page_tokens: int = 4
    slots: int = 32
    running: int = 6
    lengths: tuple[int, ...] = (8, 30, 41)
    declared: tuple[int, ...] = (0, 20, 90)
    echo: bool = False
    finish: float = 0.0
    late: float = 0.0
    """How often a result comes a round later."""
    options: dict[str, Any] = field(default_factory=dict)
    seeds: int = 16
    still: int = 20
    """Rounds that must have found the queue standing still, all lifetimes together."""


SCENES = (
    Scene("a queue that comes and goes"),
    Scene(
        "budgets that decodes change", budgets=(9, 13, 18, 26), lengths=(20, 30, 41), pages=(20, 30),
        finish=0.03, late=0.3,
    ),
    Scene("pages that others generate", echo=True, page_tokens=8, lengths=(1, 9, 18, 25), declared=(0, 90, 200),
        pages=(10, 16), finish=0.02),
    Scene(
        "pages that others generate, a window beside", echo=True, page_tokens=8, lengths=(1, 9, 18, 25),
        groups=("full", "sliding"), declared=(0, 90, 200), finish=0.02, pages=(14, 24),
    ),
    Scene("slots that run out", slots=5, running=3, pages=(30, 50), finish=0.05, options={"num_host_pages": 60}),
    Scene(
        "pages that come back from the host", groups=("full", "sliding"), echo=True, page_tokens=8, finish=0.05,
        lengths=(1, 9, 18, 25), declared=(0, 90), pages=(14, 24), options={"num_host_pages": 60}, budgets=(12, 64),
    ),
    Scene("events told of pages", options={"enable_kv_cache_events": True}, finish=0.03, still=0),
    Scene(
        "keys that storage has", finish=0.03, still=0, declared=(0,),
        options={"num_host_pages": 60, "enable_l3_storage": True},
    ),
)  # fmt: skip


class Pair:
    """The real scheduler and the twin, told the same; every answer compared."""

    def __init__(self, real: Any, twin: Any, config: dict[str, Any], place: str) -> None:
        """Build both from one config; `place` says where a difference was met."""
        self.modules, self.place = (real, twin), place
        self.both = [module.Scheduler(build_config(module, config)) for module in self.modules]

    def __call__(self, *call: Any) -> Any:
        """Make a call on both and return what both answer."""
        made: Call = call
        real, twin = (attempt(m, s, made) for m, s in zip(self.modules, self.both, strict=True))
        assert real == twin, f"{self.place}: {made}"
        return real[1]


class Life:
    """One lifetime of a scene."""

    def __init__(self, real: Any, twin: Any, scene: Scene, seed: int) -> None:
        """Draw the config."""
        self.draw, self.scene = random.Random(seed), scene
        pages = self.draw.randint(*scene.pages)
        config = {
            "prefix_granularity": scene.page_tokens, "max_scheduled_tokens": self.draw.choice(scene.budgets),
            "max_batch_size": scene.slots, "num_device_pages": pages, "enable_mixed_prefill_decode": seed % 2 == 0,
            "cache_groups": [
                {"group_id": kind, "block_granularity": scene.page_tokens, "total_pages": pages, **_GROUPS[kind]}
                for kind in scene.groups
            ],
        } | scene.options  # fmt: skip
        self.config = config
        self.pair = Pair(real, twin, config, f"{scene.name}, seed {seed}")
        self.live: list[str] = []
        self.prompts: dict[str, list[int]] = {}
        self.late: list[tuple[Any, ...]] = []
        self.number = 0

    def run(self) -> None:
        """Compare 120 rounds."""
        for round_ in range(120):
            self._submit(round_)
            plan = self.pair("plan")
            for name in ("waiting_size", "empty_lcm_blocks", "available_lcm_blocks"):
                self.pair(name)
            self._land(plan)

    def _submit(self, round_: int) -> None:
        draw, scene = self.draw, self.scene
        while len(self.live) < scene.running + _WAITING and (round_ % 10 == 0 or draw.random() < 0.1):
            self.number += 1
            name, length = f"r{self.number}", draw.choice(scene.lengths)
            if scene.echo:
                tokens = [draw.randrange(2, 12), *[1] * (length - 1)]
            else:
                tokens = [draw.randrange(3) for _ in range(length)]
            self.pair("submit", [(name, tokens, draw.choice(scene.declared))])
            self.live.append(name)
            self.prompts[name] = tokens

    def _land(self, plan: dict[str, Any]) -> None:
        draw, batch, events = self.draw, plan["forward"][0], self.late
        self.late = []
        for row, name in enumerate(batch["request_ids"]):
            extends = row < batch["num_extends"]
            more = extends and (
                batch["extend_prefix_lens"][row] + batch["input_lengths"][row] < batch["prefill_lengths"][row]
            )
            event = ("ExtendResult", name, [] if more else [1])
            (self.late if draw.random() < self.scene.late else events).append(event)
        for op in plan["cache"]:
            for op_id in op["op_ids"]:
                done = (
                    ("WriteBackDoneEvent", op_id) if op["kind"] == "WriteBackOp" else ("LoadBackDoneEvent", op_id, True)
                )
                if done not in events:
                    events.append(done)
        for event in events:
            self.pair("advance", [event])
        for name in list(self.live):
            ends = draw.random() < self.scene.finish and self.pair("request_token_size", name) > len(self.prompts[name])
            if ends and not any(name == event[1] for event in self.late):
                self.pair("advance", [("Finish", name)])
                self.live.remove(name)
        if self.live and draw.random() < 0.08:
            name = self.live.pop(draw.randrange(len(self.live)))
            self.pair("advance", [("Abort", name)])
            self.late = [event for event in self.late if event[1] != name]
        if self.config.get("enable_kv_cache_events") and draw.random() < 0.5:
            self.pair("drain_kv_events")
        if self.config.get("enable_l3_storage") and self.live and draw.random() < 0.3:
            hashes = self.pair("prefix_hashes_for_tokens", self.prompts[draw.choice(self.live)])
            self.pair("register_storage_keys", *self.pair("expand_prefix_keys", hashes))


@pytest.mark.oracle
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name.replace(" ", "-"))
def test_a_queue_that_stands_still_plans_like_the_real_one(
    real: Any, twin: Any, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts that come, go and are blocked for rounds on end give the real package's plans, page for page."""
    passed_by: Counter[bool] = Counter()
    holds = Standstill.holds

    def counted(self: Standstill, *now: Any) -> bool:
        answer = holds(self, *now)
        passed_by[answer] += 1
        return answer

    monkeypatch.setattr(Standstill, "holds", counted)
    for seed in range(scene.seeds):
        Life(real, twin, scene, seed).run()
    assert passed_by[True] >= scene.still


def _config(pages: int, page_tokens: int, budget_tokens: int, **options: Any) -> dict[str, Any]:
    group = {"group_id": "full", "block_granularity": page_tokens, "total_pages": pages, **_GROUPS["full"]}
    return {
        "prefix_granularity": page_tokens,
        "max_scheduled_tokens": budget_tokens,
        "max_batch_size": 32,
        "num_device_pages": pages,
        "cache_groups": [group],
    } | options


def _rounds(pair: Pair, number: int, silent: tuple[str, ...] = ()) -> list[dict[str, int]]:
    """Plan so many rounds; whoever is not silent answers with token 1. Return who got how many tokens, by round."""
    shown = []
    for _ in range(number):
        batch = pair("plan")["forward"][0]
        shown.append(dict(zip(batch["request_ids"], batch["input_lengths"], strict=True)))
        for name in batch["request_ids"]:
            if name not in silent:
                pair("advance", [("ExtendResult", name, [1])])
    return shown


@pytest.mark.oracle
@pytest.mark.parametrize("queue", [("short", "long"), ("long", "short")])
def test_a_smaller_budget_lets_a_shorter_chunk_in(real: Any, twin: Any, queue: tuple[str, ...]) -> None:
    """A chunk of 17 tokens needs 3 pages of 8, one of 16 needs 2: a decode more takes a token and lets it in.

    Mixed, 18 tokens a round, 5 pages: c has 3, b and a 1 each. From plan 5 on c (23 tokens of prompt) and b (7) are
    refused their next page and a (1) decodes; nobody is retracted, for all results are out. So newcomers have 17
    tokens. When c is aborted b takes one of its pages and a token of the budget: 2 pages are left, and 16 tokens.
    """
    config = _config(6, 8, 18, enable_mixed_prefill_decode=True)
    pair, everybody = Pair(real, twin, config, f"smaller budget, {queue}"), ("a", "b", "c", "short", "long")
    pair("submit", [("c", [3] * 23, 0)])
    assert _rounds(pair, 2, everybody) == [{"c": 18}, {"c": 5}]
    pair("submit", [("b", [2] * 7, 0), ("a", [1], 0)])
    assert _rounds(pair, 3, everybody) == [{"b": 7, "a": 1, "c": 1}, {"b": 1, "a": 1}, {"a": 1}]
    lengths = {"short": 16, "long": 30}
    pair("submit", [(name, [ord(name[0])] * lengths[name], 0) for name in queue])
    assert _rounds(pair, 4, everybody) == [{"a": 1}] * 4
    pair("advance", [("Abort", "c")])
    assert _rounds(pair, 1, everybody) == [{"long": 16, "b": 1, "a": 1}]


@pytest.mark.oracle
@pytest.mark.parametrize("queue", [("same", "other"), ("other", "same")])
def test_a_page_that_another_generates_is_a_hit(real: Any, twin: Any, queue: tuple[str, ...]) -> None:
    """A newcomer that needs 2 pages of 8 and finds 1 gets in when its first page turns up in the cache.

    a has a prompt of 1 token and a budget of 20, so 3 pages, and is exempt; 1 page is left. "same" begins as a goes on:
    7, and seven times 1. Behind it come 2 tokens and a decode: 2 pages, or a's first one and 1.
    """
    pair = Pair(real, twin, _config(5, 8, 64), f"generated page, {queue}")
    pair("submit", [("a", [7], 20)])
    _rounds(pair, 1)
    prompts = {"same": [7, *[1] * 7, 5, 5], "other": [3] * 30}
    for name in queue:
        pair("submit", [(name, prompts[name], 0)])
    shown = _rounds(pair, 12)
    entered = next(number for number, row in enumerate(shown) if "same" in row)
    assert entered >= 4, shown
    assert shown[entered]["same"] == 2, "10 tokens, 8 of them hit"
    assert all(row == {"a": 1} for row in shown[:entered])


@pytest.mark.oracle
def test_without_a_slot_a_remembered_refusal_blocks_nobody(real: Any, twin: Any) -> None:
    """A newcomer that was refused its pages waits for a slot once there is none: retraction then works for others.

    Two slots, 5 pages of 4: "big" (17 tokens and a decode, 5 pages) is refused beside a, b gets the last slot. In plan
    8 a has filled 2 pages and b 3: a is the first that is refused, b goes, and what it held goes to a.
    """
    pair = Pair(real, twin, _config(6, 4, 64, max_batch_size=2), "no slot")
    pair("submit", [("a", [1] * 3, 0)])
    assert _rounds(pair, 1) == [{"a": 3}]
    pair("submit", [("big", [2] * 17, 0), ("b", [3] * 7, 0)])
    assert _rounds(pair, 7) == [{"b": 7}, *[{"a": 1, "b": 1}] * 5, {"a": 1}]
    _rounds(pair, 20)
