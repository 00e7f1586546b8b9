"""The campaign's sums: lifetimes are counted once per feature and fault, and the floor is kept."""

from __future__ import annotations

from tests.conformance.campaign import Totals
from tests.conformance.coverage import FEATURES
from tests.conformance.workers import Summary


def _summary(seed: int, difference: str = "", faults: int = 0, features: tuple[str, ...] = ()) -> Summary:
    exemptions = [(number, "a listed fault") for number in range(faults)]
    return Summary(seed, "general", difference, exemptions, bool(faults), 10, 20, 30, dict.fromkeys(features, 5))


def test_lifetimes_are_counted_not_occurrences() -> None:
    """Five occurrences of a feature, or two of a fault, in one lifetime are one lifetime."""
    totals = Totals()
    totals.add(_summary(1, faults=2, features=("load-back",)))
    totals.add(_summary(2, features=("load-back", "shards")))
    assert (totals.lifetimes, totals.calls, totals.rounds, totals.rows) == (2, 60, 20, 40)
    assert totals.features == {"load-back": 2, "shards": 1}
    assert (totals.exempt_lifetimes, totals.ended_early) == (1, 1)
    assert totals.exemptions == {"a listed fault": 1}


def test_the_report_names_what_is_missing() -> None:
    """A divergence is printed in full, an exemption as a share, and a feature below the floor marked."""
    totals = Totals()
    totals.add(_summary(7, difference="seed 7 (general), call 3 ('plan',): plan.cache: expected 1, got 2"))
    totals.add(_summary(8, faults=1, features=("shards",)))
    report = totals.report(floor=1)
    assert "divergences 1\nseed 7 (general), call 3" in report
    assert "lifetimes with an exempt event 1 (50.00 %)" in report
    assert totals.below_floor(1) == [feature for feature in FEATURES if feature != "shards"]
    assert "load-back  BELOW" in report
    assert "shards\n" in report
