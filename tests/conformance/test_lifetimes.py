"""Random lifetimes: the twin answers every call of every lifetime exactly as the real package does."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import pytest

from tests.conformance.conftest import require
from tests.conformance.coverage import FEATURES
from tests.conformance.exemptions import PROCESS_ABORT
from tests.conformance.workers import Summary, run_seeds

_CHUNKS = 10
_PER_CHUNK = 30

pytestmark = pytest.mark.oracle


@cache
def _summaries(subject: str, chunk: int) -> list[Summary]:
    """One chunk's lifetimes, run once however many tests ask for them."""
    return list(run_seeds(list(range(chunk * _PER_CHUNK, (chunk + 1) * _PER_CHUNK)), subject))


@pytest.mark.parametrize("chunk", range(_CHUNKS))
@pytest.mark.parametrize("subject", ["real", "twin"])
def test_random_lifetimes_are_equal(subject: str, chunk: int) -> None:
    """Thirty lifetimes a chunk show no difference in any plan field, counter, event or error."""
    require("real")
    require(subject)
    summaries = _summaries(subject, chunk)
    assert [summary.difference for summary in summaries if summary.difference] == []
    assert len(summaries) == _PER_CHUNK


def test_the_suite_reaches_every_feature(real: ModuleType) -> None:
    """The lifetimes of the suite show each feature of the campaign's floor at least once."""
    assert real is not None
    met = {feature for chunk in range(_CHUNKS) for one in _summaries("real", chunk) for feature in one.features}
    assert sorted(set(FEATURES) - met) == []


def test_only_an_abort_ends_a_lifetime_of_the_reference_early(real: ModuleType) -> None:
    """Compared with itself the reference is exempt from nothing but its own end, in few lifetimes."""
    assert real is not None
    ended = [one for chunk in range(_CHUNKS) for one in _summaries("real", chunk) if one.ended_early]
    assert {one.exemptions[-1][1] for one in ended} <= {PROCESS_ABORT}
    assert len(ended) <= _CHUNKS * _PER_CHUNK // 20


@pytest.mark.parametrize("seed", [5001464, 5004775, 5007144, 5012282])
def test_lifetimes_that_once_diverged_are_equal(seed: int) -> None:
    """A refused decode is tried anew in every round: what it needs and gives back may have changed meanwhile."""
    require("real")
    require("twin")
    (summary,) = run_seeds([seed], "twin")
    assert summary.difference == ""
    assert summary.calls > 0
