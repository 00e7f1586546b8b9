"""One differential lifetime: a seed becomes a configuration and calls, applied to two modules in lockstep.

The reference decides (the driver sees only its answers); the subject must answer every call alike. After
each call everything that can be asked without a change is compared too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from types import ModuleType
from typing import Any

from tests.conformance.calls import Call, Outcome, attempt, build_config
from tests.conformance.compare import Difference, compare_outcomes, first_difference
from tests.conformance.configs import random_config, spoiled
from tests.conformance.described import describe_state
from tests.conformance.driver import Driver
from tests.conformance.exemptions import PROCESS_ABORT, exempt, may_abort
from tests.conformance.messages import fragment_of
from tests.conformance.profiles import PROFILES, Profile


@dataclass(slots=True)
class Lifetime:
    """What one lifetime showed. ``calls`` is everything needed to repeat it on ``config``."""

    seed: int
    profile: str
    config: dict[str, Any]
    calls: list[Call] = field(default_factory=list)
    difference: Difference | None = None
    exemptions: list[tuple[int, str]] = field(default_factory=list)
    ended_early: bool = False
    rounds: int = 0
    rows: int = 0
    features: Counter[str] = field(default_factory=Counter)

    def describe(self) -> str:
        """The first difference as (seed, call number, call, field, expected, got); "" when there is none."""
        if self.difference is None:
            return ""
        number = len(self.calls) - 1
        call = _clip(self.calls[number]) if self.calls else "construction"
        found = self.difference
        return (
            f"seed {self.seed} ({self.profile}), call {number} {call}: {found.field}: "
            f"expected {_clip(found.expected)}, got {_clip(found.got)}"
        )


def _clip(value: Any, limit: int = 300) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


def draw_profile(rng: Random) -> Profile:
    """A profile, by weight."""
    return rng.choices(PROFILES, weights=[profile.weight for profile in PROFILES])[0]


def construct(module: ModuleType, config: dict[str, Any]) -> tuple[Outcome, Any]:
    """Build a scheduler; the outcome, and the scheduler where there is one."""
    try:
        return ("ok", None), module.Scheduler(build_config(module, config))
    except Exception as error:  # every type is part of the comparison
        return ("error", type(error).__name__, fragment_of(str(error)), str(error)), None


def run_lifetime(
    seed: int,
    reference: ModuleType,
    subject: ModuleType,
    *,
    profile: Profile | None = None,
    abort_at: int | None = None,
    on_call: Callable[[int], None] | None = None,
) -> Lifetime:
    """Run the lifetime of ``seed``.

    Args:
        profile: use this one instead of drawing it.
        abort_at: the reference is known to abort its process at this call; it is made on the subject only
            (on nobody, when that is the reference itself), which must not raise.
        on_call: told the number of each call before the reference makes it.
    """
    rng = Random(seed)
    chosen = profile or draw_profile(rng)
    config = random_config(rng, chosen, reference)
    life = Lifetime(seed, chosen.name, config)
    if rng.random() < 0.1:
        bad = spoiled(rng, config)
        life.difference = compare_outcomes("construct", construct(reference, bad)[0], construct(subject, bad)[0])
    life.difference = life.difference or _capacity(rng, config, reference, subject)
    expected, first = construct(reference, config)
    got, second = construct(subject, config)
    life.difference = life.difference or compare_outcomes("construct", expected, got)
    if life.difference or first is None:
        return life
    driver = Driver(rng, chosen, config, first.max_single_request_tokens())
    groups = [group["group_id"] for group in config["cache_groups"]]
    calls = driver.calls()
    outcome: Outcome | None = None
    while True:
        try:
            call = next(calls) if outcome is None else calls.send(outcome)
        except StopIteration:
            break
        number = len(life.calls)
        life.calls.append(call)
        if on_call is not None:
            on_call(number)
        if number == abort_at:
            _abort(life, call, ("ok", None) if subject is reference else attempt(subject, second, call))
            break
        outcome = attempt(reference, first, call)
        fault = exempt(call, outcome, config, driver.tracker)
        names = [*list(driver.tracker.live), *driver.tracker.known[-4:]]
        state = describe_state(first, names, groups)
        answered = attempt(subject, second, call)
        life.difference = compare_outcomes(call[0], outcome, answered)
        if life.difference is None:
            life.difference = first_difference(state, _state_of(second, names, groups), "state")
        if fault is not None:
            life.exemptions.append((number, fault))
            if life.difference is not None:
                life.difference, life.ended_early = None, True
                break
        if life.difference is not None:
            break
    life.rounds, life.rows, life.features = driver.coverage.rounds, driver.coverage.rows, driver.coverage.seen
    return life


def _state_of(scheduler: Any, names: list[str], groups: list[str]) -> Any:
    try:
        return describe_state(scheduler, names, groups)
    except Exception as error:  # a subject whose queries raise differs, and the report says how
        return f"{type(error).__name__}: {error}"


def _abort(life: Lifetime, call: Call, answered: Outcome) -> None:
    """The reference's process ends here; the subject must carry on."""
    life.ended_early = True
    life.exemptions.append((len(life.calls) - 1, PROCESS_ABORT))
    if not may_abort(call, life.config):
        life.difference = Difference("process", "a listed abort of the reference", "an abort that is not listed")
    elif answered[0] == "error":
        life.difference = Difference(f"{call[0]}.outcome", "no error where the reference aborts", answered)


def _capacity(rng: Random, config: dict[str, Any], reference: ModuleType, subject: ModuleType) -> Difference | None:
    """A few questions to both capacity models."""
    groups = len(config["cache_groups"])
    pages = [rng.randint(0, 500) for _ in range(groups)]
    questions: list[Call] = [
        ("capacity", config, "single_request_group_pages", rng.choice((0, 1, rng.randint(0, 9999)))),
        ("capacity", config, "concurrent_group_pages", rng.randint(0, 99999), rng.randint(0, 9999)),
        ("capacity", config, "lcm_blocks_needed_for", pages),
        ("capacity", config, "max_single_request_tokens", rng.randint(0, 300)),
    ]
    if rng.random() < 0.1:
        questions += [
            ("capacity", config, "single_request_group_pages", -1),
            ("capacity", config, "concurrent_group_pages", -1, 4),
            ("capacity", config, "concurrent_group_pages", 4, -1),
            ("capacity", config, "lcm_blocks_needed_for", [*pages, 1]),
            ("capacity", config, "lcm_blocks_needed_for", [-1] * groups),
        ]
    for call in questions:
        found = compare_outcomes(call[2], attempt(reference, None, call), attempt(subject, None, call))
        if found:
            return found
    return None
