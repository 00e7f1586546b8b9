"""Random lifetimes: the twin answers every call of every lifetime exactly as the real package does."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.conformance.conftest import require
from tests.conformance.coverage import FEATURES
from tests.conformance.workers import run_seeds

_CHUNKS = 10
_PER_CHUNK = 30


@pytest.mark.oracle
@pytest.mark.parametrize("chunk", range(_CHUNKS))
@pytest.mark.parametrize("subject", ["real", "twin"])
def test_random_lifetimes_are_equal(subject: str, chunk: int) -> None:
    """Thirty lifetimes a chunk show no difference in any plan field, counter, event or error."""
    require("real")
    require(subject)
    seeds = list(range(chunk * _PER_CHUNK, (chunk + 1) * _PER_CHUNK))
    summaries = list(run_seeds(seeds, subject))
    assert [summary.difference for summary in summaries if summary.difference] == []
    assert [summary.seed for summary in summaries] == seeds


@pytest.mark.oracle
def test_the_suite_reaches_every_feature(real: ModuleType) -> None:
    """The lifetimes of the suite show each feature of the campaign's floor at least once."""
    assert real is not None
    met = {
        feature
        for summary in run_seeds(list(range(_CHUNKS * _PER_CHUNK)), "real")
        for feature in summary.features
    }
    assert sorted(set(FEATURES) - met) == []
