"""Postprocessing of unbiased estimates: counts that are not negative, or that also add up.

The values of ``postprocess=``, where e are the unbiased estimates of n reports.
Postprocessing has no privacy cost. Changed estimates are biased; intervals are those of
e.

========== ============================================================================ ======== ===========
name       counts
negative add up to n
========== ============================================================================ ======== ===========
none       e
yes      on average clip       e, cut to ``[0, n]``
no       more simplex    ``max(e - t, 0)``: the nearest counts that add up ("norm-sub"
in [1]_)       no       yes norm_mul   ``t max(e, 0)`` ([1]_)
no       yes norm_cut   the largest e as long as their sum is at most n, the others 0
([1]_)         no       at most n base_cut   e where it is significant, the others 0
([1]_)                               no       no power      mean of a value's count
given its e, under a power law ([1]_, [2]_)          no       roughly mle        maximum
likelihood; oracles other than GRR need the reports ([3]_)           no       yes
========== ============================================================================ ======== ===========

- ``simplex`` is for tables that must be consistent; ``clip`` and ``norm_mul`` move
  weight from a few heavy values to many light ones.
- ``norm_cut`` keeps or cuts equal estimates together, so that the result does not
  depend on the order of the values: with 6, 2, 2 and 2 of n = 10 it keeps the 6 alone.
  A largest estimate above n is cut too.
- ``norm_cut`` and ``base_cut`` find heavy values. An estimate is significant above the
  level that any of k values with a count of 0 exceeds with a probability of at most 5 %
  (Bonferroni).
- ``power`` models the counts as independent draws from a law proportional to ``(count +
  1)**-a``, where a is such that its mean is that of e, and the error as normal.

References
----------
.. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li (2020). Locally
   differentially private frequency estimation with consistency. NDSS.
.. [2] J. Jia, N. Gong (2019). Calibrate: frequency estimation and heavy hitter
   identification with local differential privacy via incorporating prior knowledge.
   INFOCOM.
.. [3] R. Agrawal, C. Aggarwal (2001). On the design and quantification of privacy
   preserving data mining algorithms. PODS.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from skdp.oracles._base import FrequencyOracle

_SIGNIFICANCE = 0.05
"""The probability that any value without records is significant, at most."""

_STEEPEST = 60.0
"""The largest exponent of a power law: its mean count is 0.02."""


Counts = NDArray[np.float64]
Sums = NDArray[np.int64]
Reports = NDArray[Any] | None


class Postprocessor(Protocol):
    """Protocol of a function that estimates counts from a tally."""

    def __call__(
        self, oracle: FrequencyOracle, support: Sums, n: int, reports: Reports = None
    ) -> Counts: ...


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


def scale_to_total(counts: ArrayLike, total: float) -> NDArray[np.float64]:
    """Set negative counts to 0 and multiply the others so that they add up to a total ("norm-mul")."""
    counts = np.asarray(counts, float)
    if not np.isfinite(counts).all():
        return counts
    positive = np.maximum(counts, 0)
    if not positive.any():
        return np.full(counts.size, total / counts.size)
    positive /= positive.max()  # prevents the sum from overflowing or vanishing
    return positive * (total / positive.sum())


def cut_to_total(counts: ArrayLike, total: float) -> NDArray[np.float64]:
    """Keep the largest counts as long as they add up to no more than a total ("norm-cut")."""
    counts = np.asarray(counts, float)
    if not np.isfinite(counts).all():
        return counts
    levels, repeats = np.unique(np.maximum(counts, 0), return_counts=True)
    # Of all counts at a level and above. Tolerate a rounding error.
    sums = np.cumsum((levels * repeats)[::-1])[::-1]
    lowest = levels[sums <= total * (1 + 1e-6)].min(initial=np.inf)
    return np.where(counts >= lowest, np.maximum(counts, 0), 0)


def shrink_by_power_law(
    counts: ArrayLike, std_error: ArrayLike, total: int
) -> NDArray[np.float64]:
    """Return the mean of each count given its estimate, if counts follow a power law."""
    # The prior density at a count s is proportional to ``(s + 1)**-a`` on ``[0,
    # total]``; a is such that its mean is the mean of the estimates. Integrals are sums
    # over 256 points within 8 standard errors, even in ``log(s + 1)``.
    counts = np.asarray(counts, float)
    spread = np.broadcast_to(np.asarray(std_error, float), counts.shape)
    if total == 0 or not (np.isfinite(counts).all() and np.isfinite(spread).all()):
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
    if excess(_STEEPEST) >= 0:
        return _STEEPEST
    return float(brentq(excess, 0.0, _STEEPEST))


def _growth(exponent: float) -> float:
    return math.expm1(exponent) / exponent if exponent else 1.0


def _none(
    oracle: FrequencyOracle, support: Sums, n: int, reports: Reports = None
) -> Counts:
    return oracle.estimate(support, n)


def _clip(
    oracle: FrequencyOracle, support: Sums, n: int, reports: Reports = None
) -> Counts:
    return np.clip(oracle.estimate(support, n), 0, n)


def _simplex(
    oracle: FrequencyOracle, support: Sums, n: int, reports: Reports = None
) -> Counts:
    return project_to_simplex(oracle.estimate(support, n), n)


def _norm_mul(
    oracle: FrequencyOracle, support: Sums, n: int, reports: Reports = None
) -> Counts:
    return scale_to_total(oracle.estimate(support, n), n)


def _norm_cut(
    oracle: FrequencyOracle, support: Sums, n: int, reports: Reports = None
) -> Counts:
    return cut_to_total(oracle.estimate(support, n), n)


def _base_cut(
    oracle: FrequencyOracle, support: Sums, n: int, reports: Reports = None
) -> Counts:
    estimates = oracle.estimate(support, n)
    level = NormalDist().inv_cdf(1 - _SIGNIFICANCE / oracle.k)
    threshold = level * np.sqrt(oracle.variance(np.zeros(oracle.k), n))
    return np.where(estimates <= threshold, 0, estimates)  # keeps nan


def _power(
    oracle: FrequencyOracle, support: Sums, n: int, reports: Reports = None
) -> Counts:
    estimates = oracle.estimate(support, n)
    variance = oracle.variance(np.nan_to_num(estimates), n)
    return shrink_by_power_law(estimates, np.sqrt(variance), n)


def _mle(
    oracle: FrequencyOracle, support: Sums, n: int, reports: Reports = None
) -> Counts:
    return oracle.maximum_likelihood(support, n, reports)


Postprocess = Literal[
    "none", "clip", "simplex", "norm_mul", "norm_cut", "base_cut", "power", "mle"
]
"""The values of ``postprocess=``."""

POSTPROCESSORS: dict[str, Postprocessor] = {
    "none": _none,
    "clip": _clip,
    "simplex": _simplex,
    "norm_mul": _norm_mul,
    "norm_cut": _norm_cut,
    "base_cut": _base_cut,
    "power": _power,
    "mle": _mle,
}
"""The function of each postprocess."""
