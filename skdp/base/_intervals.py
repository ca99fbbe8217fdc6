"""Confidence intervals: the distributions of errors, and estimates with their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtri, stdtr, stdtrit

from skdp._arrays import Floats, Integers


class ConfidenceInterval(NamedTuple):
    """The bounds of a confidence interval."""

    low: Any
    high: Any


class Estimate(NamedTuple):
    """An estimate, the standard deviation of its error, and the bounds of its confidence interval."""

    value: Any
    std_error: Any
    lower: Any
    upper: Any

    def select(self, index: object) -> Estimate:
        """Return some of the estimates, which are arrays."""
        return Estimate(*(part[index] for part in self))

    def clip(self, low: float | Floats, high: float | Floats) -> Estimate:
        """Clip the interval to [low, high]; an endpoint that is nan becomes low or high."""
        lower = np.where(np.isnan(self.lower), low, np.clip(self.lower, low, high))
        upper = np.where(np.isnan(self.upper), high, np.clip(self.upper, low, high))
        return self._replace(lower=lower, upper=upper)

    def add_error(self, std_error: Floats, margins: float | Floats) -> Estimate:
        """Add an independent error, with the margins of error below and above the estimate."""
        # The distances of an estimate from its endpoints are combined like standard errors
        # (method of variance estimates recovery; Zou and Donner 2008).
        value, error, lower, upper = self
        down, up = np.hypot([value - lower, upper - value], margins)
        return Estimate(value, np.hypot(error, std_error), value - down, value + up)


@dataclass(frozen=True)
class ErrorDistribution:
    """Distribution of an error, in standard errors: normal, or Student's t if the variance is estimated.

    Quantiles of "laplace" are upper bounds for all sums of Laplace noise, and quantiles of "k_norm" for numbers with
    K-norm noise and their differences, too.
    """

    degrees_of_freedom: Any = math.inf
    noise: Literal["normal", "laplace", "k_norm"] = "normal"

    def quantile(self, level: float) -> Any:
        """Return the margin of error for a confidence level, in standard errors."""
        tail = (1 - level) / 2
        largest = -ndtri(tail)
        if self.noise != "normal":
            largest = max(largest, -math.log(2 * tail) / math.sqrt(2))
        if self.noise == "k_norm":
            # One of many numbers with joint K-norm noise is nearly uniform, because the density
            # ``e**-max|z|`` is a mixture of uniform distributions on cubes. The difference of two
            # uniform numbers has a triangular distribution.
            uniform = math.sqrt(3) * level
            triangular = math.sqrt(6) * (1 - math.sqrt(2 * tail))
            largest = max(largest, uniform, triangular)
        is_normal = np.isinf(self.degrees_of_freedom)
        if np.all(is_normal):
            return float(largest)
        student = -stdtrit(self.degrees_of_freedom, tail)
        return np.where(is_normal, largest, np.maximum(student, largest))

    def p_value(self, z: float | Floats) -> Any:
        """Return the probability of an error of at least `z` standard errors, in both directions."""
        p_value = 2 * stdtr(self.degrees_of_freedom, -np.abs(z))
        if self.noise != "normal":
            return np.maximum(p_value, np.exp(-math.sqrt(2) * np.abs(z)))
        return p_value

    def confidence_interval(
        self, value: object, std_error: object, level: float
    ) -> ConfidenceInterval:
        """Return the interval of an estimate for a confidence level."""
        margin = self.quantile(level) * std_error
        return ConfidenceInterval(value - margin, value + margin)


NORMAL = ErrorDistribution()
LAPLACE = ErrorDistribution(noise="laplace")
K_NORM = ErrorDistribution(noise="k_norm")


def find_score_interval(
    counts: Integers, n: Any, noise_margin: Any, factor: Any
) -> ConfidenceInterval:
    """Return score intervals of counts among n rows (Wilson's without noise).

    The squared margin of error of a count c is ``noise_margin**2 + factor * c * (n - c)``: of noise, and of sampling.
    """
    # A bound c is a count whose distance from the estimate e is its margin: (e - c)^2 =
    # noise^2 + f c (n - c). This is the quadratic equation (1 + f) c^2 - 2 (e + f n / 2) c
    # + e^2 - noise^2 = 0.
    middle = (counts + factor * n / 2) / (1 + factor)
    # (e + f n / 2)^2 - (1 + f) (e^2 - noise^2), without cancellation of e^2.
    square = factor * counts * (n - counts) + (factor * n / 2) ** 2
    square = square + (1 + factor) * noise_margin**2
    margin = np.sqrt(np.clip(square, 0, None)) / (1 + factor)
    return ConfidenceInterval(middle - margin, middle + margin)


def find_sampling_variance(
    counts: float | Floats, n: float | Floats, factor: float | Floats
) -> Any:
    """Return the variance ``factor * c * (n - c)`` of counts, at the nearest count c that one standard error allows."""
    # The variance at an estimate of 0 would be 0, also if no record of a value is drawn.
    # This is the middle of the score interval of such a value for z = 1.
    smallest = n / 2 * factor / (1 + factor)
    clipped = np.clip(counts, smallest, n - smallest)
    return factor * clipped * (n - clipped)


def find_ratio_interval(
    estimate: object, error: object, slope: object, curvature: object, level: float
) -> ConfidenceInterval:
    """Return intervals of estimates with errors t of the variance ``error**2 + 2 * slope * t + curvature * t**2``.

    They are intervals of ratios (Fieller 1954), and nan if no true value is excluded at the level.
    """
    # A bound is an error t whose square is z^2 (error^2 + 2 slope t + curvature t^2). If
    # z^2 curvature >= 1, the square is smaller for all large t.
    square = NORMAL.quantile(level) ** 2
    remaining = 1 - square * np.asarray(curvature)
    remaining = np.where(remaining > 0, remaining, np.nan)
    middle = square * slope
    # Squares may exceed the largest float.
    margin = np.hypot(middle, np.sqrt(remaining * square) * error)
    low, high = (middle - margin) / remaining, (middle + margin) / remaining
    return ConfidenceInterval(estimate + low, estimate + high)


def find_binomial_interval(
    successes: float | Floats, failures: float | Floats, level: float
) -> ConfidenceInterval:
    """Return Clopper-Pearson intervals of proportions; the numbers may be fractions (Korn and Graubard 1998)."""
    tail = (1 - level) / 2
    # `betaincinv` requires positive parameters.
    low = betaincinv(np.maximum(successes, 1e-9), failures + 1, tail)
    high = betaincinv(successes + 1, np.maximum(failures, 1e-9), 1 - tail)
    return ConfidenceInterval(
        np.where(successes > 0, low, 0), np.where(failures > 0, high, 1)
    )


def check_design_effect(design_effect: Any) -> float:
    """Check a factor of the sampling variance and return it as a float."""
    is_number = isinstance(design_effect, Real) and not isinstance(design_effect, bool)
    if not is_number or not 0 <= design_effect < math.inf:
        raise ValueError(f"`design_effect` must be a number >= 0, got {design_effect}.")
    return float(design_effect)
