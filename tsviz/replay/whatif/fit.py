"""Robust least squares with coefficients that are never negative: what a unit of each kind of work cost.

Columns that nothing can be learned from are left out rather than given a number: all zero, a combination of those in
front of it, negative, or without weight in the whole. What is left is printed as it is (debugger.md, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_HUBER = 1.345
_ROUNDS = 20
_NEGLIGIBLE = 1e-6
_DEPENDENT = 1e-9


@dataclass(frozen=True, slots=True)
class Fit:
    """Price per unit of each named column, and how far the observations lie from it; all in nanoseconds.

    `relative_error`: the sum of the absolute residuals over the sum of the observations.
    """

    prices: tuple[tuple[str, float], ...]
    observations: int
    residual_p50_ns: float
    residual_p95_ns: float
    residual_max_ns: float
    relative_error: float

    def price(self, name: str) -> float:
        """Return the price of a column; 0 for one that was left out."""
        return dict(self.prices).get(name, 0.0)

    def words(self) -> str:
        """Say the model in one line."""
        terms = [f"{value:,.0f} ns" + ("" if name == "round" else f" x {name}") for name, value in self.prices]
        return " + ".join(terms) if terms else "nothing"


def fit(names: Sequence[str], columns: Floats, observed: Floats) -> Fit:
    """Fit `observed` (n, in ns) as a weighted sum of `columns` (n x len(names)); a constant is a column of ones.

    Huber weights keep outliers from pulling. The columns' order is their precedence where they depend on each other.
    """
    kept = _independent(columns)
    prices = np.zeros(0)
    while kept:
        chosen = columns[:, kept]
        prices = _robust(chosen, observed)
        share = prices * np.abs(chosen).mean(axis=0)
        weakest = int(np.argmin(share))
        if share[weakest] > _NEGLIGIBLE * max(float(np.abs(observed).mean()), 1.0):
            break
        del kept[weakest]
    prices = prices[: len(kept)]
    estimate = columns[:, kept] @ prices
    residual = np.abs(observed - estimate)
    if not len(residual):
        return Fit((), 0, 0.0, 0.0, 0.0, 0.0)
    total = float(np.abs(observed).sum())
    return Fit(
        prices=tuple((names[i], float(price)) for i, price in zip(kept, prices, strict=True)),
        observations=len(observed),
        residual_p50_ns=float(np.quantile(residual, 0.5)),
        residual_p95_ns=float(np.quantile(residual, 0.95)),
        residual_max_ns=float(residual.max()),
        relative_error=float(residual.sum()) / total if total else 0.0,
    )


def _independent(columns: Floats) -> list[int]:
    """Return the columns that are no combination of those in front of them (Gram-Schmidt)."""
    basis: list[Floats] = []
    kept = []
    for index in range(columns.shape[1]):
        rest = columns[:, index].copy()
        norm = float(np.linalg.norm(rest))
        if norm == 0.0:
            continue
        for direction in basis:
            rest -= direction * float(direction @ rest)
        left = float(np.linalg.norm(rest))
        if left > _DEPENDENT * norm:
            basis.append(rest / left)
            kept.append(index)
    return kept


def _robust(columns: Floats, observed: Floats) -> Floats:
    scales = np.linalg.norm(columns, axis=0)
    scaled = columns / scales
    weights = np.ones(len(observed))
    prices = np.zeros(columns.shape[1])
    least = 1e-9 * max(float(np.abs(observed).mean()), 1.0)
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        found = np.linalg.lstsq(scaled * root[:, None], observed * root, rcond=None)[0]
        residual = np.abs(observed - scaled @ found)
        scale = max(1.4826 * float(np.median(residual)), least)
        weights = np.minimum(1.0, _HUBER * scale / np.maximum(residual, least))
        settled = np.allclose(found, prices, rtol=1e-12, atol=0.0)
        prices = found
        if settled:
            break
    result: Floats = prices / scales
    return result
