"""Postprocessing of unbiased estimates: counts that are not negative, or that also add up.

The values of ``postprocess=``, where e are the unbiased estimates of n reports.
Postprocessing has no privacy cost. Changed estimates are biased; intervals are those of
e.

- ``none``: e.
- ``clip``: e, cut to ``[0, n]``.
- ``simplex``: ``max(e - t, 0)``, the nearest counts that add up ("norm-sub" in [1]_).
  For tables that must be consistent; the likeliest counts have nearly the same error.
- ``power``: the mean of a value's count given its e, where counts are independent draws
  from a law proportional to ``(count + 1)**-a``, with a such that its mean is that of
  e, and the error is normal ([1]_, [2]_). Least error of many values, most of them
  rare.

References
----------
.. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li (2020). Locally
   differentially private frequency estimation with consistency. NDSS.
.. [2] J. Jia, N. Gong (2019). Calibrate: frequency estimation and heavy hitter
   identification with local differential privacy via incorporating prior knowledge.
   INFOCOM.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from skdp.oracles._base import FrequencyOracle

Counts = NDArray[np.float64]
Sums = NDArray[np.int64]


class Postprocessor(Protocol):
    """Protocol of a function that estimates counts from a tally."""

    def __call__(self, oracle: FrequencyOracle, support: Sums, n: int) -> Counts: ...


def project_to_simplex(counts: ArrayLike, total: float) -> NDArray[np.float64]:
    """Project counts onto those that are not negative and add up to a total ("norm-sub").

    >>> project_to_simplex([8.0, 4.0, -2.0], 10).tolist()
    [7.0, 3.0, 0.0]

    Parameters
    ----------
    counts : array-like of shape (k,)
        Any numbers.
    total : float
        The sum of the result, at least 0.

    Returns
    -------
    ndarray of shape (k,)
        The Euclidean projection: a constant is subtracted, and negative results are set
        to 0.

    References
    ----------
    T. Wang et al. (2020). Locally differentially private frequency estimation with
    consistency. NDSS.
    """
    counts = np.asarray(counts, float)
    if not np.isfinite(counts).all():
        return counts
    descending = np.sort(counts)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, counts.size + 1)
    # What is subtracted if the s largest counts stay above 0: the largest s for which
    # they do.
    n_positive = int(np.count_nonzero(descending > excess))
    return np.maximum(counts - excess[max(n_positive, 1) - 1], 0)


def shrink_by_power_law(
    counts: ArrayLike, std_error: ArrayLike, total: int
) -> NDArray[np.float64]:
    """Return the mean of each count given its estimate, if counts follow a power law."""
    # The prior density at a count s is proportional to ``(s + 1)**-a`` on ``[0,
    # total]``; a is such that its mean is the mean of the estimates. Integrals are sums
    # over 256 points within 8 standard errors, even in ``log(s + 1)``.
    counts = np.asarray(counts, float)
    spread = np.broadcast_to(np.asarray(std_error, float), counts.shape)
    if total == 0:
        return counts
    spread = np.maximum(spread, 1e-12 * total)
    exponent = _fit_power_law(float(counts.mean()), math.log1p(total))
    middles = (np.arange(256) + 0.5) / 256
    shrunk = np.empty_like(counts)
    for start in range(0, counts.size, 4096):
        rows = slice(start, start + 4096)
        estimate = np.clip(counts[rows, np.newaxis], -1e3 * total, 1e3 * total)
        error = spread[rows, np.newaxis]
        low = np.log1p(np.clip(estimate - 8 * error, 0, total))
        high = np.log1p(np.clip(np.maximum(estimate, 0) + 8 * error, 0, total))
        log_counts = low + (high - low) * middles
        candidates = np.expm1(log_counts)
        log_errors = ((candidates - estimate) / error) ** 2 / 2
        log_weights = (1 - exponent) * log_counts - log_errors
        weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
        shrunk[rows] = (weights * candidates).sum(axis=1) / weights.sum(axis=1)
    return np.minimum(shrunk, total)


def _fit_power_law(mean: float, end: float) -> float:
    """Return the exponent a, at least 0, for which the density ``u**-a`` on ``[1, e**end]`` has a mean of 1 + mean."""

    def excess(exponent: float) -> float:
        return _growth((2 - exponent) * end) / _growth((1 - exponent) * end) - 1 - mean

    if excess(0.0) <= 0:
        return 0.0
    # The largest exponent of a power law: its mean count is 0.02.
    steepest = 60.0
    if excess(steepest) >= 0:
        return steepest
    return float(brentq(excess, 0.0, steepest))


def _growth(exponent: float) -> float:
    return math.expm1(exponent) / exponent if exponent else 1.0


def _none(oracle: FrequencyOracle, support: Sums, n: int) -> Counts:
    return oracle.estimate(support, n)


def _clip(oracle: FrequencyOracle, support: Sums, n: int) -> Counts:
    return np.clip(oracle.estimate(support, n), 0, n)


def _simplex(oracle: FrequencyOracle, support: Sums, n: int) -> Counts:
    return project_to_simplex(oracle.estimate(support, n), n)


def _power(oracle: FrequencyOracle, support: Sums, n: int) -> Counts:
    estimates = oracle.estimate(support, n)
    return shrink_by_power_law(estimates, np.sqrt(oracle.variance(estimates, n)), n)


Postprocess = Literal["none", "clip", "simplex", "power"]
"""The values of ``postprocess=``."""

# The function of each postprocess.
POSTPROCESSORS: dict[str, Postprocessor] = {
    "none": _none,
    "clip": _clip,
    "simplex": _simplex,
    "power": _power,
}
