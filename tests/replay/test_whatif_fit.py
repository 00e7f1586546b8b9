"""Prices of rounds by robust least squares, on numbers that are worked out beside them."""

from __future__ import annotations

import numpy as np

from tsviz.replay.whatif.fit import fit

ONES = np.ones(6)
TOKENS = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


def test_an_exact_model_is_found_to_the_nanosecond() -> None:
    """8,000 ns a round and 20 ns a token come back from six rounds that took exactly that."""
    found = fit(("round", "tokens"), np.stack([ONES, TOKENS], axis=1), 8000 + 20 * TOKENS)
    assert [(name, round(price, 6)) for name, price in found.prices] == [("round", 8000.0), ("tokens", 20.0)]
    assert found.residual_max_ns < 1e-6 and found.observations == 6


def test_a_column_that_says_nothing_new_gets_no_price() -> None:
    """Of two equal columns the first keeps the price, and a column of zeros has none."""
    columns = np.stack([ONES, TOKENS, TOKENS, 0 * ONES], axis=1)
    found = fit(("round", "tokens", "rows", "copies"), columns, 8000 + 20 * TOKENS)
    assert [name for name, _ in found.prices] == ["round", "tokens"]
    assert found.price("rows") == 0.0


def test_one_round_that_took_far_too_long_does_not_pull_the_prices() -> None:
    """With one of forty rounds a thousand times too long the prices stay within a part in a thousand."""
    tokens = np.arange(1.0, 41.0)
    observed = 8000 + 20 * tokens
    observed[17] *= 1000
    found = fit(("round", "tokens"), np.stack([np.ones(40), tokens], axis=1), observed)
    assert abs(found.price("round") - 8000) < 8 and abs(found.price("tokens") - 20) < 0.02
    assert found.residual_max_ns > 8_000_000


def test_no_price_is_negative() -> None:
    """Rounds that get shorter with their tokens are priced by the round alone: the median-like middle, 100 - 3.5."""
    found = fit(("round", "tokens"), np.stack([ONES, TOKENS], axis=1), 100 - TOKENS)
    assert [name for name, _ in found.prices] == ["round"]
    assert abs(found.price("round") - 96.5) < 0.5


def test_the_relative_error_is_residuals_over_observations() -> None:
    """Durations 90 and 110 around a round of 100 lie 20 of 200 off: a tenth."""
    found = fit(("round",), np.ones((2, 1)), np.array([90.0, 110.0]))
    assert round(found.price("round"), 6) == 100.0 and round(found.relative_error, 6) == 0.1


def test_nothing_observed_gives_no_price() -> None:
    """A fit without observations is empty and costs nothing."""
    found = fit(("round",), np.ones((0, 1)), np.zeros(0))
    assert found.prices == () and found.words() == "nothing"
