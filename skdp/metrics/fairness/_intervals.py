"""Errors and intervals of rates and of metrics computed from them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

Numbers = NDArray[np.float64]

_STEPS = 40  # of bisection


@dataclass(frozen=True)
class Estimate:
    """Estimates with their errors, as arrays of the same shape."""

    value: Numbers
    std_error: Numbers
    lower: Numbers
    upper: Numbers

    def __getitem__(self, index: Any) -> Estimate:
        return Estimate(self.value[index], self.std_error[index], self.lower[index], self.upper[index])

    def within(self, least: Any, most: Any) -> Estimate:
        """Cut the interval to the possible values; an unknown end becomes the end of these."""
        lower, upper = (
            np.where(np.isnan(self.lower), least, self.lower),
            np.where(np.isnan(self.upper), most, self.upper),
        )
        return Estimate(self.value, self.std_error, np.clip(lower, least, most), np.clip(upper, least, most))

    def where(self, known: Any) -> Estimate:
        """Keep values and errors that are known; others become nan."""
        value, error = (np.where(known, part, np.nan) for part in (self.value, self.std_error))
        return Estimate(value, error, self.lower, self.upper)


def two_sided(confidence_level: float) -> float:
    """Return the quantile of the normal distribution for a two-sided interval."""
    return -NormalDist().inv_cdf((1 - confidence_level) / 2)


def score_ends(top: Numbers, bottom: Numbers, moments: Numbers, least: Any, most: Any) -> tuple[Any, Any, Any]:
    """Return the ends of the score intervals of ``top / bottom``, and which of them are between two roots."""
    # A quotient t is in the confidence set if ``top − t bottom``, of mean 0, is at most z standard errors from 0. Its
    # variance is quadratic in t, ``moments[2] − 2 t moments[1] + t² moments[0]``, here times z². The set (Fieller 1954;
    # Wilson 1927 for the rate of a sample) ends at the roots of a quadratic equation: it is the part between them, or,
    # where `bottom` is not significantly different from 0, the rest, or everything. The interval is the smallest one
    # that contains the set within the possible values.
    square = bottom**2 - moments[..., 0]
    middle, rest = top * bottom - moments[..., 1], top**2 - moments[..., 2]
    inside = middle**2 - square * rest
    bounded = (square > 0) & (bottom > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(inside, 0))
        first, second = np.sort([(middle - root) / square, (middle + root) / square], axis=0)
    first, second = np.nan_to_num(first, nan=-np.inf), np.nan_to_num(second, nan=np.inf)
    # Outside the roots: from the least value to the first one, if it is possible, and from the second one to the most.
    beyond = ~bounded & (square < 0) & (inside > 0)
    below, above = first >= least, second <= most
    lower = np.where(bounded, first, np.where(beyond & ~below & above, second, least))
    upper = np.where(bounded, second, np.where(beyond & below & ~above, first, most))
    return np.clip(lower, least, most), np.clip(upper, least, most), bounded


def proportion(successes: ArrayLike, trials: ArrayLike, confidence_level: float) -> Estimate:
    """Estimate proportions: binomial standard errors and score intervals (Wilson 1927)."""
    x, n = np.asarray(successes, float), np.asarray(trials, float)
    moments = two_sided(confidence_level) ** 2 * np.stack([-n, -n / 2, 0 * n], axis=-1)
    lower, upper, _ = score_ends(x, n, moments, 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = x / n
    lower, upper = (np.where(n > 0, end, np.nan) for end in (lower, upper))
    variance = np.maximum(value * (1 - value), 0.0) / np.maximum(n, 1)  # a value of 1 may be rounded up
    return Estimate(value, np.sqrt(variance), lower, upper)


def binomial_ends(successes: Numbers, failures: Numbers, level: float) -> tuple[Numbers, Numbers]:
    """Return the ends of mid-P intervals of a probability (Lancaster 1961), also of counts that are no integers."""
    # A probability is in the interval if more successes, and half of as many, are as likely as (1 − level) / 2, and so
    # are fewer. Where few are expected, Wilson's interval leaves out probabilities under which what was found is
    # likely: .84 is the coverage of one of 95 %, and the higher the level, the farther is it from it.
    first = np.stack([successes, failures])
    second = first[::-1]
    low, high = np.zeros_like(first), np.ones_like(first)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        at_least = np.where(first > 0, betainc(np.maximum(first, 1e-9), second + 1, middle), 1)
        more = np.where(second > 0, betainc(first + 1, np.maximum(second, 1e-9), middle), 0)
        likely = at_least + more > 1 - level
        low, high = np.where(likely, low, middle), np.where(likely, middle, high)
    ends = np.where(first > 0, (low + high) / 2, 0)
    return ends[0], 1 - ends[1]


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


def theil(weights: Numbers, squares: Numbers, confidence_level: float) -> Estimate:
    """Estimate the Theil index of benefits 0, 1 and 2 from sums of weights, with an error by the delta method."""
    # With the shares q of the rows, ``μ = q1 + 2 q2`` and ``T = 2 q2 ln 2 / μ - ln μ``. The influence of a row of
    # benefit b is ``f(b) = 2 ln 2 [b = 2] / μ - b (2 q2 ln 2 / μ² + 1 / μ)``, of mean -1; the variance is that of f
    # over n.
    total = weights.sum(axis=-1, keepdims=True)
    benefits = np.arange(3)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = weights / total
        mean = shares @ benefits
        mean = np.where(mean > 0, mean, np.nan)
        entropy = 2 * shares[..., 2] * np.log(2) / mean
        value = np.maximum(entropy - np.log(mean), 0)
        slope = ((entropy + 1) / mean)[..., np.newaxis]
        moves = 2 * np.log(2) / mean[..., np.newaxis] * (benefits == 2) - benefits * slope
        std_error = np.sqrt((squares / total**2 * (moves + 1) ** 2).sum(axis=-1))
        # Of the logarithm, whose error is closer to normal.
        relative = np.where(value > 0, std_error / value, 0)
        factor = np.exp(two_sided(confidence_level) * relative)
    return Estimate(value, std_error, value / factor, value * factor).within(0, np.inf)
