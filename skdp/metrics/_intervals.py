"""Standard errors and confidence intervals of rates, differences and ratios.

A rate has the score interval, or, where the groups are known and the rows are a sample of a population, that of Clopper
and Pearson. Differences and ratios are made from score intervals, never from exact ones (MOVER). `proportion` is for
shares of rows in attacks. Intervals of 95 % hold the truth in at least 93 % from 50 rows a group on; the settings are
in ``benchmarks/fairness.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """Estimates with their errors, as arrays of the same shape."""

    value: Numbers
    std_error: Numbers
    lower: Numbers
    upper: Numbers

    def __getitem__(self, index: Any) -> Estimate:
        return Estimate(
            self.value[index],
            self.std_error[index],
            self.lower[index],
            self.upper[index],
        )

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, self.std_error, -self.upper, -self.lower)

    def scaled(self, factor: float) -> Estimate:
        """Multiply by a factor that is not negative."""
        return Estimate(
            factor * self.value,
            factor * self.std_error,
            factor * self.lower,
            factor * self.upper,
        )

    def within(self, least: Any, most: Any) -> Estimate:
        """Cut the interval to the possible values; an unknown end becomes the end of these."""
        lower = np.where(np.isnan(self.lower), least, self.lower)
        upper = np.where(np.isnan(self.upper), most, self.upper)
        return Estimate(
            self.value,
            self.std_error,
            np.clip(lower, least, most),
            np.clip(upper, least, most),
        )

    def where(self, known: Any) -> Estimate:
        """Keep values and errors that are known; others become nan."""
        value = np.where(known, self.value, np.nan)
        std_error = np.where(known, self.std_error, np.nan)
        return Estimate(value, std_error, self.lower, self.upper)


def two_sided(confidence_level: float) -> float:
    """Return the quantile of the normal distribution for a two-sided interval."""
    return -NormalDist().inv_cdf((1 - confidence_level) / 2)


def variance_at(moments: Numbers, t: Numbers) -> Numbers:
    """Return the variance ``m[2] − 2 t m[1] + t² m[0]`` of ``top − t bottom``, from moments of shape (..., 3)."""
    variance: Numbers = (
        moments[..., 2] - 2 * t * moments[..., 1] + t**2 * moments[..., 0]
    )
    return variance


def score_interval(
    top: Numbers, bottom: Numbers, moments: Numbers, z: float
) -> tuple[Numbers, Numbers, NDArray[Any]]:
    """Return the ends of the score intervals of ``top / bottom``, and which are bounded; others are infinite."""
    # A quotient t is in the interval if ``top − t bottom``, of mean 0, is at most z standard errors from 0: between the
    # roots of ``(top − t bottom)² = z² variance(t)`` (Fieller 1954; for the share of a sample, Wilson 1927). If
    # `bottom` is not significantly different from 0, the set is unbounded.
    squared = bottom**2 - z**2 * moments[..., 0]
    linear = top * bottom - z**2 * moments[..., 1]
    constant = top**2 - z**2 * moments[..., 2]
    bounded = (squared > 0) & (bottom > 0)
    root = np.sqrt(np.maximum(linear**2 - squared * constant, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        lower = np.where(bounded, (linear - root) / squared, -np.inf)
        upper = np.where(bounded, (linear + root) / squared, np.inf)
    return lower, upper, bounded


def proportion(
    successes: ArrayLike, trials: ArrayLike, confidence_level: float
) -> Estimate:
    """Estimate proportions: binomial standard errors and score intervals (Wilson 1927)."""
    # With the variance ``n t (1 − t)`` of ``x − t n``, the score interval is Wilson's.
    x, n = np.asarray(successes, float), np.asarray(trials, float)
    binomial = np.stack([-n, -n / 2, 0 * n], axis=-1)  # n t (1 − t)
    lower, upper, _ = score_interval(x, n, binomial, two_sided(confidence_level))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = x / n
    # A value of 1 may be rounded up.
    variance = np.maximum(value * (1 - value), 0.0) / np.maximum(n, 1)
    lower = np.where(n > 0, np.clip(lower, 0, 1), np.nan)
    upper = np.where(n > 0, np.clip(upper, 0, 1), np.nan)
    return Estimate(value, np.sqrt(variance), lower, upper)


def exact_interval(
    successes: Numbers, failures: Numbers, confidence_level: float
) -> tuple[Numbers, Numbers]:
    """Return the ends of the interval of Clopper and Pearson (1934), also of counts that are no integers."""
    # The rates at which as many successes, or more, have the probability of one tail;
    # and as few, or less, that of the other one.
    tail = (1 - confidence_level) / 2
    # As betaincinv is not defined for 0.
    positive_successes = np.maximum(successes, 1e-9)
    positive_failures = np.maximum(failures, 1e-9)
    lower = np.where(
        successes > 0, betaincinv(positive_successes, failures + 1, tail), 0
    )
    upper = np.where(
        failures > 0, betaincinv(successes + 1, positive_failures, 1 - tail), 1
    )
    return lower, upper


def subtract(
    first: Estimate, second: Estimate, correlation: Numbers | float = 0.0
) -> Estimate:
    """Return the difference of two estimates, with the interval of MOVER."""
    # Zou and Donner (2008), with a correlation Zou (2007): the distances of the estimates from the ends of their
    # intervals add up as standard errors do. For two independent proportions this is method 10 of Newcombe (1998).
    value = first.value - second.value
    variance = _variance_of_difference(first.std_error, second.std_error, correlation)
    down = _variance_of_difference(
        first.value - first.lower, second.upper - second.value, correlation
    )
    up = _variance_of_difference(
        first.upper - first.value, second.value - second.lower, correlation
    )
    return Estimate(
        value, np.sqrt(variance), value - np.sqrt(down), value + np.sqrt(up)
    )


def _variance_of_difference(
    first: Numbers, second: Numbers, correlation: Numbers | float
) -> Numbers:
    with np.errstate(invalid="ignore"):
        variance: Numbers = np.maximum(
            first**2 + second**2 - 2 * correlation * first * second, 0
        )
    return variance


def divide(
    top: Estimate, bottom: Estimate, correlation: Numbers | float = 0.0
) -> Estimate:
    """Return the ratio of two estimates: delta method, and the interval of MOVER-R."""
    # Donner and Zou (2012), equation 9: the ends are the ratios R for which 0 is an end of the interval of
    # ``top − R bottom`` that `subtract` gives.
    a, b = top.value, bottom.value
    common_low = correlation * (a - top.lower) * (bottom.upper - b)
    common_high = correlation * (top.upper - a) * (b - bottom.lower)
    top_low = top.lower * (2 * a - top.lower)
    top_high = top.upper * (2 * a - top.upper)
    bottom_low = bottom.lower * (2 * b - bottom.lower)
    bottom_high = bottom.upper * (2 * b - bottom.upper)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = a / b
        relative = _variance_of_difference(
            top.std_error, value * bottom.std_error, correlation
        )
        middle = a * b - common_low
        lower = (
            middle - np.sqrt(np.maximum(middle**2 - top_low * bottom_high, 0))
        ) / bottom_high
        middle = a * b - common_high
        upper = (
            middle + np.sqrt(np.maximum(middle**2 - top_high * bottom_low, 0))
        ) / bottom_low
        std_error = np.sqrt(relative) / b
    # A ratio to a rate that may be 0 has no upper end: it is divided by 0.
    undefined = np.isnan(value)
    return Estimate(
        value,
        std_error,
        np.where(undefined, np.nan, lower),
        np.where(undefined, np.nan, upper),
    )
