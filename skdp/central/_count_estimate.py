"""A noisy count with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

LARGEST = 1 << 62
"""No noisy count, nor a sum of them, is beyond this."""


@dataclass(frozen=True)
class CountEstimate:  # numpydoc ignore=PR02
    """A noisy count and its error.

    Parameters
    ----------
    count : int
        The count.
    std_error : float
        The standard deviation of its noise.
    lower, upper : int
        The ends of its interval.
    """

    count: int
    std_error: float
    lower: int
    upper: int


def interval_reach(std_error: float | NDArray[np.float64], level: float) -> NDArray[np.int64]:
    """Return how far the intervals of noisy counts reach."""
    # The noise is a sum of discrete Laplace numbers: its quantiles are those of a normal law if they are many, and of a
    # Laplace law if it is one. The larger of both is taken, and rounded up: the true and the noisy count are whole,
    # even if the latter was rounded from an estimate less than 1 away.
    quantile = max(NormalDist().inv_cdf((1 + level) / 2), -math.log(1 - level) / math.sqrt(2))
    return np.ceil(np.minimum(quantile * np.asarray(std_error), LARGEST)).astype(np.int64)
