"""Checks of an oracle's parameters, and the probabilities that follow from them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from skdp.exact import exp_bounds
from skdp.privacy import check_epsilon
from skdp.randomness import ONE

MOST_EPSILON = Fraction(1000)
"""Larger requests are treated as this one: with probabilities over 2**64, none achieves more than 100."""


def check_size(k: Any, *, least: int = 2, most: int = (1 << 32) - 1, name: str = "k") -> int:
    """Check a number of values.

    Parameters
    ----------
    k : int
        The number.
    least, most : int
        Its range.
    name : str, default="k"
        What to call it in an error.

    Returns
    -------
    int
        The number.

    Raises
    ------
    TypeError, ValueError
        If it is no integer, or out of range.
    """
    if isinstance(k, bool | np.bool_) or not isinstance(k, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {type(k).__name__}")
    if not least <= k <= most:
        raise ValueError(f"{name} must be between {least} and {most}, got {k}")
    return int(k)


def lie_threshold(epsilon: float | Fraction, weight: Fraction | int) -> int:
    """Return the least probability of a lie that keeps the promise, times 2**64, rounded up."""
    # A protocol that reports uniformly from all reports with probability l ("a lie"), and otherwise uniformly from
    # those that support the true value, a share 1 / w of all, reports one of these ``1 + w (1 - l) / l`` times likelier
    # than any other. This is at most e^eps for ``l >= w / (e^eps - 1 + w)``.
    return min(ONE, math.ceil(ONE * weight / (exp_bounds(capped_epsilon(epsilon))[0] - 1 + weight)))


def capped_epsilon(epsilon: Any) -> Fraction:
    """Check a privacy loss, and cut one that is far beyond what can be achieved."""
    if isinstance(epsilon, int | Fraction) and epsilon > MOST_EPSILON:
        return MOST_EPSILON  # may be beyond the floats
    return min(check_epsilon(epsilon), MOST_EPSILON)


def pure_error(k: int, p: Fraction, q: Fraction) -> float:
    """Return the mean over the values of n times the variance of a frequency."""
    if p <= q:
        return math.inf
    return float(((k - 1) * q * (1 - q) + p * (1 - p)) / (k * (p - q) ** 2))
