"""The comparison itself: it is silent on equal modules, and names what was changed in a perturbed one."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.conformance.compare import Difference, first_difference
from tests.conformance.lifetimes import Lifetime, run_lifetime
from tests.conformance.profiles import PROFILES

pytestmark = pytest.mark.oracle
_CALM = next(profile for profile in PROFILES if profile.name == "calm")


class _Altered:
    """Passes everything through to ``inner`` except the attributes given."""

    def __init__(self, inner: Any, **changes: Any) -> None:
        self._inner = inner
        self._changes = changes

    def __getattr__(self, name: str) -> Any:
        if name in self._changes:
            return self._changes[name](self._inner)
        return getattr(self._inner, name)


def _with_scheduler(real: ModuleType, alter: Any) -> Any:
    """The real module with its Scheduler objects wrapped by ``alter``."""
    names = {name: getattr(real, name) for name in dir(real) if not name.startswith("_")}
    return SimpleNamespace(**{**names, "Scheduler": lambda config: alter(real.Scheduler(config))})


def _first_found(real: ModuleType, altered: Any) -> Lifetime:
    lives = (run_lifetime(seed, real, altered, profile=_CALM) for seed in range(40))
    return next(life for life in lives if life.difference is not None)


def test_the_real_package_equals_itself(real: ModuleType) -> None:
    """The real package compared with itself shows no difference."""
    lives = [run_lifetime(seed, real, real, profile=_CALM) for seed in range(5)]
    assert [life.difference for life in lives] == [None] * 5


def test_a_changed_plan_field_is_named(real: ModuleType) -> None:
    """One fresh page id off by one is reported with the call and the path of the field."""

    def zero_lists(plan: Any) -> dict[str, list[int]]:
        return {group: [page + 1 for page in pages] for group, pages in plan.pages_to_zero.items()}

    def plans(scheduler: Any) -> Any:
        return lambda: _Altered(scheduler.next_execution_plan(), pages_to_zero=zero_lists)

    altered = _with_scheduler(real, lambda inner: _Altered(inner, next_execution_plan=plans))
    life = _first_found(real, altered)
    assert life.calls[-1] == ("plan",)
    assert life.difference is not None
    assert life.difference.field == "plan.pages_to_zero[0][1][0]"
    assert f"seed {life.seed} (calm), call {len(life.calls) - 1}" in life.describe()


def test_a_changed_counter_is_named(real: ModuleType) -> None:
    """A counter that is one too high is reported although every plan agrees."""
    altered = _with_scheduler(
        real, lambda inner: _Altered(inner, empty_lcm_blocks=lambda own: lambda: own.empty_lcm_blocks() + 1)
    )
    difference = _first_found(real, altered).difference
    assert difference is not None
    assert difference.field == "state.empty_lcm_blocks"
    assert difference.got == difference.expected + 1


def test_a_changed_error_is_named(real: ModuleType) -> None:
    """Another exception type for the same refusal is reported as a difference of the error's type."""

    def refuse(scheduler: Any) -> Any:
        def submit(specs: Any) -> None:
            try:
                scheduler.submit_requests(specs)
            except ValueError as error:
                raise LookupError(str(error)) from error

        return submit

    altered = _with_scheduler(real, lambda inner: _Altered(inner, submit_requests=refuse))
    general = next(profile for profile in PROFILES if profile.name == "general")
    lives = (run_lifetime(seed, real, altered, profile=general) for seed in (1, 2, 4, 5, 6, 8, 9, 11, 14, 18))
    difference = next(life.difference for life in lives if life.difference is not None)
    assert difference.field == "submit.error.type"
    assert (difference.expected[0], difference.got[0]) == ("ValueError", "LookupError")


def test_equality_is_of_values_types_and_order() -> None:
    """True is not 1, a tuple is not a list, and dicts with other keys differ."""
    assert first_difference([1, 2], [1, 2], "x") is None
    assert first_difference([1], [True], "x") == Difference("x[0]", 1, True)
    assert first_difference([1], (1,), "x") == Difference("x", [1], (1,))
    assert first_difference({"a": [1]}, {"a": [1, 2]}, "x") == Difference("x.a (length)", [1], [1, 2])
    assert first_difference({"a": 1}, {"a": 1, "b": 2}, "x") == Difference("x.b", "(absent)", 2)
