"""Errors and intervals of rates and of metrics computed from them, for rows that are a sample."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """Estimates with their errors, as arrays of the same shape."""

    value: Numbers
    std_error: Numbers
    lower: Numbers
    upper: Numbers

    def __getitem__(self, index: Any) -> Estimate:
        return Estimate(self.value[index], self.std_error[index], self.lower[index], self.upper[index])


def two_sided(confidence_level: float) -> float:
    """Return the quantile of the normal distribution for a two-sided interval."""
    return -NormalDist().inv_cdf((1 - confidence_level) / 2)


def proportion(successes: ArrayLike, trials: ArrayLike, confidence_level: float) -> Estimate:
    """Estimate proportions: binomial standard errors and score intervals (Wilson 1927)."""
    x, n, z = np.asarray(successes, float), np.asarray(trials, float), two_sided(confidence_level)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = x / n
        std_error = np.sqrt(value * (1 - value) / n)
        centre = (x + z**2 / 2) / (n + z**2)
        reach = z / (n + z**2) * np.sqrt(x * (1 - value) + z**2 / 4)
    # In exact arithmetic the ends reach 0 and 1; rounding must not push them past the value.
    return Estimate(value, std_error, np.clip(centre - reach, 0, value), np.clip(centre + reach, value, 1))


def combine(*terms: tuple[float, Estimate], common: tuple[Any, Any] = (0.0, 0.0)) -> Estimate:
    """Add multiples of estimates, with the interval of Zou and Donner (2008)."""
    # The distances of the value to the ends of its interval add up like standard errors, which for the difference of
    # two proportions is method 10 of Newcombe (1998). Unlike value ± z · std_error it has a width when a rate is 0 or
    # 1. `common` is the covariance of two terms at the lower and at the upper end; independent terms have none.
    value = sum(factor * term.value for factor, term in terms)
    std_error = np.sqrt(sum((factor * term.std_error) ** 2 for factor, term in terms))
    down = sum((factor * (t.value - (t.lower if factor > 0 else t.upper))) ** 2 for factor, t in terms)
    up = sum((factor * (t.value - (t.upper if factor > 0 else t.lower))) ** 2 for factor, t in terms)
    down, up = (np.sqrt(np.maximum(square - 2 * part, 0)) for square, part in zip((down, up), common, strict=True))
    return Estimate(np.asarray(value), std_error, value - down, value + up)


def ratio(top: Estimate, bottom: Estimate, *, common: tuple[Any, Any] = (0.0, 0.0)) -> Estimate:
    """Divide estimates: delta method, and the interval of Donner and Zou (2012)."""
    # Its ends are the ratios R for which 0 is an end of the interval of ``top - R bottom`` that `combine` gives.
    a, b = top.value, bottom.value
    low_a, high_a = top.lower * (2 * a - top.lower), top.upper * (2 * a - top.upper)
    low_b, high_b = bottom.lower * (2 * b - bottom.lower), bottom.upper * (2 * b - bottom.upper)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = a / b
        std_error = np.sqrt(top.std_error**2 + (value * bottom.std_error) ** 2) / b
        middle = a * b - common[0]
        square = middle**2 - low_a * high_b
        lower = np.where(low_a == 0, 0, low_a / (middle + np.sqrt(np.clip(square, 0, None))))
        # Only if the numerator may be below 0: then no small ratio is excluded.
        lower = np.where((high_b < 0) & ((middle < 0) | (square < 0)), -np.inf, lower)
        middle = a * b - common[1]
        root = np.sqrt(np.clip(middle**2 - high_a * low_b, 0, None))
        upper = np.where(low_b == 0, np.inf, (middle + root) / low_b)
    undefined = np.isnan(value)
    return Estimate(value, std_error, np.where(undefined, np.nan, lower), np.where(undefined, np.nan, upper))


def spread(rates: Estimate) -> tuple[Estimate, Estimate]:
    """Compare the largest rate with the smallest."""
    (low, high), (low_ends, high_ends) = _extremes(rates.lower), _extremes(rates.upper)
    smallest, largest = _extremes(rates.value)
    none = np.asarray(np.nan)
    difference = Estimate(largest - smallest, none, np.maximum(high - low_ends, 0), high_ends - low)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = smallest / largest
        # If all rates are 0, the ratio and its ends are nan.
        ends = [np.where(np.isnan(value), np.nan, end) for end in (low / high_ends, np.minimum(low_ends / high, 1))]
    return difference, Estimate(value, none, ends[0], ends[1])


def worst(estimates: Iterable[Estimate], *, largest: bool) -> Estimate:
    """Return the largest (or smallest) of estimates with simultaneous intervals."""
    take = np.max if largest else np.min
    parts = list(estimates)
    ends = (take([getattr(part, name) for part in parts]) for name in ("value", "std_error", "lower", "upper"))
    return Estimate(*map(np.asarray, ends))


def theil(unlucky: int, even: int, lucky: int, confidence_level: float) -> Estimate:
    """Estimate the Theil index of benefits 0, 1 and 2, with its standard error by the delta method."""
    # With the shares q of the rows, ``μ = q1 + 2 q2`` and ``T = 2 q2 ln 2 / μ - ln μ``. The influence of a row of
    # benefit b is ``f(b) = 2 ln 2 [b = 2] / μ - b (2 q2 ln 2 / μ² + 1 / μ)``, of mean -1; the variance is that of f
    # over n.
    n = unlucky + even + lucky
    shares, benefits = np.array([unlucky, even, lucky]) / n, np.arange(3)
    mean = float(shares @ benefits)
    if mean == 0:
        return Estimate(*(np.asarray(np.nan) for _ in range(4)))
    entropy = 2 * shares[2] * np.log(2) / mean
    value = np.maximum(entropy - np.log(mean), 0)
    moves = 2 * np.log(2) / mean * (benefits == 2) - benefits * (entropy + 1) / mean
    std_error = np.sqrt(shares @ (moves + 1) ** 2 / n)
    reach = two_sided(confidence_level) * std_error
    return Estimate(value, std_error, np.maximum(value - reach, 0), value + reach)


def _extremes(values: Numbers) -> tuple[Any, Any]:
    return np.min(values), np.max(values)
