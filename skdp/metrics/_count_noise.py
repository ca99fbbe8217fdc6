"""Errors of values that are linear in noisy counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from skdp._arrays import Floats
from skdp.base import NORMAL


def find_noise(slopes: Floats, variances: Floats) -> tuple[Any, Any]:
    """Return the variances and the fourth cumulants of the noise of values with derivatives `slopes` by the counts.

    `slopes` has the shape (..., n_counts), and `variances` of the counts the shape (n_counts,).
    """
    # Discrete Laplace noise of variance v has the fourth cumulant 3 v**2 + v; Gaussian noise
    # has a smaller one.
    squares = slopes**2
    return squares @ variances, squares**2 @ (3 * variances**2 + variances)


def find_quantile(variance: Any, cumulant: Any, level: float) -> Any:
    """Return the quantile of an error, in standard deviations, from its variance and fourth cumulant."""
    z = NORMAL.quantile(level)
    is_noisy = np.asarray(variance) > 0
    kurtosis = np.where(is_noisy, cumulant, 0) / np.where(is_noisy, variance, 1) ** 2
    return z + kurtosis * (z**3 - 3 * z) / 24  # Cornish-Fisher expansion


def find_slack_factor(slack: Any, error: Any, level: float) -> Any:
    """Return the quantile that covers an unknown number in a range, divided by the normal quantile.

    The range has the length `slack`, and its endpoints have the standard error `error` (Imbens and Manski 2004).
    """
    length = slack / np.maximum(error, np.finfo(float).tiny)
    low, high = NORMAL.quantile(2 * level - 1), NORMAL.quantile(level)
    lower, upper = np.full(np.shape(length), low), np.full(np.shape(length), high)
    for _ in range(30):  # bisection, to 1e-10
        middle = (lower + upper) / 2
        is_covered = ndtr(middle + length) - ndtr(-middle) >= level
        upper = np.where(is_covered, middle, upper)
        lower = np.where(is_covered, lower, middle)
    return upper / high
