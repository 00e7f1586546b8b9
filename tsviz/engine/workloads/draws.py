"""What generators draw, each purpose from its own seeded stream, so that one parameter does not move the others.

`random.Random` seeded with a string, and its `random()`, are promised to stay the same; all but the gamma law is made
from these alone.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from random import Random


def stream(seed: int, *purpose: str | int) -> Random:
    """Return the stream of random numbers of one purpose."""
    return Random("/".join(str(part) for part in (seed, *purpose)))


def exponential(random: Random, mean: float) -> float:
    """Return a draw from the exponential law of that mean."""
    return -math.log(1.0 - random.random()) * mean


def length_near(random: Random, mean_tokens: int, spread: float) -> int:
    """Return a length that is uniform in mean - d .. mean + d, d = mean x spread rounded down but below the mean."""
    reach = max(0, min(math.floor(mean_tokens * spread), mean_tokens - 1))
    return mean_tokens - reach + math.floor(random.random() * (2 * reach + 1))


def pick(random: Random, cumulated: Sequence[float]) -> int:
    """Return an index, drawn with the weights whose running sums are given."""
    return min(bisect(cumulated, random.random() * cumulated[-1]), len(cumulated) - 1)


def gap(random: Random, law: str, shape: float, mean: float) -> float:
    """Return a draw of mean `mean` from the Gamma or Weibull law of that shape."""
    if law == "Gamma":
        return random.gammavariate(shape, mean / shape)
    return float((exponential(random, 1.0) ** (1 / shape)) * mean / math.gamma(1 + 1 / shape))
