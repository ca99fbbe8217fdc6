"""How well two groups can be compared by reports: a difference of shares, a coefficient, and their power."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from skdp.metrics import indicator_variances, oracle_of

Reported = Literal["target", "predictor"]

_LARGEST_RATIO = 40.0
"""Of an effect and its standard error: a normal variable beyond does not occur."""


def power_of(effect: float, std_error: float, level: float) -> float:
    """Return how often a two-sided test at ``1 - level`` finds an effect, by a normal estimate."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    ratio = abs(effect) / std_error
    normal = NormalDist()
    return normal.cdf(ratio - z) + normal.cdf(-ratio - z)


def half_width_of_power(effect: float, power: float, level: float) -> float:
    """Return the half width of an interval from which on an effect is found as often as wanted."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    # Power rises with the ratio of the effect to its standard error.
    ratio = brentq(lambda ratio: power_of(ratio, 1.0, level) - power, 0, _LARGEST_RATIO)
    return abs(effect) / float(ratio) * z


@dataclass(frozen=True)
class Comparison:
    """Two groups that are known, and the shares of a reported value in them, as guessed."""

    sizes: tuple[float, float]
    """The shares of the rows that are in each group."""
    shares: tuple[float, float]
    """Of the value in each group."""
    effect: float
    """The difference, or the log odds ratio."""
    is_coefficient: bool

    @classmethod
    def of(
        cls, of: str, share: float, rates: tuple[float, float], reported: Reported
    ) -> Self:
        """Make the comparison of guesses: of the rows, a share is in the second group, or has the value."""
        first, second = rates
        if of == "difference":
            return cls((1 - share, share), rates, second - first, False)
        effect = _log_odds(second) - _log_odds(first)
        if reported == "target":
            return cls((1 - share, share), rates, effect, True)
        # An odds ratio is the same from both sides: that of the true target given the
        # reported value is that of the value given the target, whose groups are known.
        rate = (1 - share) * first + share * second
        shares = share * (1 - second) / (1 - rate), share * second / rate
        return cls((1 - rate, rate), shares, effect, True)

    def std_error(self, encoder: Any, column: Any, n_rows: float) -> float:
        """Return the standard error of the effect, for reports of a fitted encoder."""
        protocol = encoder.protocol_
        values = list(protocol.domain[column].values)
        # The first value is compared with the others, or with the second.
        oracle, is_first = oracle_of(encoder, values[:1], [column])
        _, is_second = oracle_of(encoder, values[1:2], [column])
        variance = 0.0
        for size, share in zip(self.sizes, self.shares, strict=True):
            if self.is_coefficient:
                of_second = (1 - share) / (len(values) - 1)
                of_row = _variance_of_log_ratio(
                    oracle, (is_first, is_second), (share, of_second)
                )
            else:
                of_row = _variance(oracle, is_first, share)
            variance += of_row / (n_rows * size)
        return math.sqrt(variance)


def _log_odds(rate: float) -> float:
    return math.log(rate / (1 - rate))


def _variance(oracle: Any, is_value: NDArray[np.bool_], share: float) -> float:
    """Return the variance of a report's unbiased indicator of some values, over rows and noise."""
    of_others, of_value = indicator_variances(oracle, is_value)
    # The mean of its square, less the square of its mean.
    return share * (of_value + 1) + (1 - share) * of_others - share**2


def _variance_of_log_ratio(
    oracle: Any,
    are_values: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    shares: tuple[float, float],
) -> float:
    """Return the variance of the log of the ratio of two shares, for one report (delta method)."""
    first, second = are_values
    first_share, second_share = shares
    first_variance = _variance(oracle, first, first_share)
    second_variance = _variance(oracle, second, second_share)
    of_both = _variance(oracle, first | second, first_share + second_share)
    covariance = (of_both - first_variance - second_variance) / 2
    relative = first_variance / first_share**2 + second_variance / second_share**2
    return relative - 2 * covariance / (first_share * second_share)
