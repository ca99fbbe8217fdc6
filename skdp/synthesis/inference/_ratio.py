"""Intervals of a ratio of two estimates that both have errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Ratio:
    """A ratio of two estimates with normal errors, each over the estimate of the lower one."""

    # For each ratio r, upper - r * lower has a known variance: an interval holds the r for which it may be 0 ([1]_).
    # .. [1] E. C. Fieller (1954). Some problems in interval estimation. JRSS B 16(2).
    value: float
    error: float
    """The standard deviation of ``upper - value * lower``."""

    together: float = 0.0
    """The covariance of that with ``lower``."""

    doubt: float = 0.0
    """The variance of ``lower``."""

    @classmethod
    def of(cls, upper: float, lower: float, covariance: NDArray[np.float64]) -> Ratio:
        value = upper / lower
        by = np.array([[1.0, -value], [0.0, 1.0]]) / lower
        (variance, together), (_, doubt) = by @ covariance @ by.T
        return cls(value, math.sqrt(max(0.0, variance)), float(together), float(doubt))

    def reach(self, level: float) -> tuple[float, float] | None:
        """Return how far an interval reaches below and above the ratio; None if any distance is possible."""
        quantile = _NORMAL.inv_cdf((1 + level) / 2)
        left = 1 - quantile**2 * self.doubt
        if left <= 0:
            return None
        middle = -(quantile**2) * self.together
        root = math.sqrt(middle**2 + left * (quantile * self.error) ** 2)
        return (root - middle) / left, (root + middle) / left

    def p_value(self, ratio: float, bias: float = 0.0) -> float:
        """Return the probability of an estimate at least as far from a ratio."""
        away = ratio - self.value
        beyond, variance = (
            max(0.0, abs(away) - bias),
            self.error**2 - 2 * away * self.together + away**2 * self.doubt,
        )
        return (
            2 * _NORMAL.cdf(-beyond / math.sqrt(variance))
            if variance > 0
            else float(beyond == 0)
        )
