"""Bounds of sums of noise, and expectations of counts given noisy counts."""

from __future__ import annotations

import math

from scipy.special import erfcx


def bound_noise(width: int, evidence: float) -> float:
    """Bound the sum of `width` Laplace variables of scale 1, except with a probability of e**-evidence."""
    if width == 1:
        return evidence
    # The form of Bernstein's inequality, with constants for the sums of 2 to 16 variables.
    evidence = evidence - 2
    return 2 * math.sqrt(width * evidence) + 0.4 * evidence


def expect_count(counted: float, prior_mean: float, error: float) -> float:
    """Return the posterior mean of a count with an exponential prior, given its noisy count with a normal error."""
    # The posterior is a normal distribution of this mean, truncated to positive numbers.
    mean = counted - error**2 / prior_mean
    z = mean / error
    # The density divided by the probability, without underflow of both.
    hazard = math.sqrt(2 / math.pi) / float(erfcx(-z / math.sqrt(2)))
    return max(mean + error * hazard, 0.0)
