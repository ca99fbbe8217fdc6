"""Tests of released statistics of groups: differences of two means, and independence of two keys."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skdp._arrays import Floats
from skdp.central.statistics._noise import bound_quantile

# Tables that `compute_independence` simulates; a p-value is a multiple of 1 / 2,000.
N_SIMULATIONS = 1_999

# Normal quantile of a two-sided test at the level 0.05.
NORMAL_QUANTILE = 1.959964


class Difference(NamedTuple):
    """Difference of two means of a population: its standard error, its interval and the p-value of no difference."""

    value: float
    std_error: float
    lower: float
    upper: float
    p_value: float


class Independence(NamedTuple):
    """Statistic and p-value of a test of independence."""

    statistic: float
    p_value: float


def compute_difference(
    groups: Floats, level: float, *, is_gaussian: bool
) -> Difference:
    """Compare the means of two groups, whose rows are samples of a population.

    The rows of `groups` are the two means, from -1 to 1 between the bounds, their numbers of values, the standard
    deviations of the noise of these numbers, and the variances with their standard errors, nan if they are unknown.
    """
    # The noisy sum minus m times the noisy count, of a group with the mean m, has noise of
    # the variance s**2 (1 + m**2) and a sampling variance of n v. So its quotient by the
    # count is the difference of the noisy mean from m, and the variances are divided by n**2.
    means, n, noise, variances, variance_errors = groups
    pooled = float(np.clip(n @ means / n.sum(), -1, 1))
    if np.isnan(variances).any():
        # The largest variance of numbers with this mean, and the variance of numbers that are -1 or 1.
        variances = np.full(2, 1 - pooled**2)
        degrees = max(n.sum() - 2, 1.0)
    else:
        variances = variances + variance_errors
        parts = variances / n
        degrees = parts.sum() ** 2 / (parts**2 / np.maximum(n - 1, 1)).sum()
    # Welch's t distribution at the level 0.05, as a wider normal distribution.
    from scipy.stats import t

    widening = float(t.isf(0.025, degrees)) / NORMAL_QUANTILE
    sampling = widening * float(np.sqrt((variances / n).sum()))
    noise_error = float(np.sqrt((1 + pooled**2) * (noise**2 / n**2).sum()))
    error = float(np.hypot(sampling, noise_error))
    if is_gaussian:
        sampling, noise_error = error, 0.0
    value = means[0] - means[1]
    margin = bound_quantile(level) * error
    p_value = find_tail(abs(value), sampling, noise_error)
    return Difference(value, error, value - margin, value + margin, p_value)


def find_tail(value: float, normal_std: float, laplace_std: float) -> float:
    """Return the probability that the absolute sum of normal and Laplace noise exceeds a value.

    A sum of Laplace or K-norm noise is nearer to normal noise than one Laplace number of the same variance.
    """
    from scipy.stats import norm

    scale = laplace_std / np.sqrt(2)
    if normal_std >= 30 * scale:
        return float(
            2 * norm.sf(value / max(np.hypot(normal_std, laplace_std), 1e-300))
        )
    normal_std = max(normal_std, 1e-9 * scale)
    ratio, x = normal_std / scale, value / normal_std
    left = np.exp(ratio**2 / 2 - value / scale + norm.logcdf(x - ratio))
    right = np.exp(ratio**2 / 2 + value / scale + norm.logsf(x + ratio))
    return float(min(2 * norm.sf(x) + left - right, 1.0))


def compute_independence(
    counts: Floats, noise_std: float, *, is_gaussian: bool
) -> Independence:
    """Test the independence of the rows and columns of a table of noisy counts, by simulation of independent tables."""
    # Expected counts are products of the noisy margins. With the noise variance in the
    # denominators, cells of few rows do not dominate the statistic.
    statistic, probabilities = _compute_chi_squares(counts, noise_std)
    total = probabilities.sum()
    if total <= 0:
        return Independence(float(statistic), 1.0)
    # The same numbers for each call: a p-value is a function of the released counts.
    rng = np.random.default_rng(0)
    shape = N_SIMULATIONS, *counts.shape
    n_rows = round(max(counts.sum(), 1.0))
    tables = rng.multinomial(n_rows, (probabilities / total).ravel(), N_SIMULATIONS)
    if is_gaussian:
        noise = rng.normal(0, noise_std, shape)
    else:
        noise = rng.laplace(0, noise_std / np.sqrt(2), shape)
    simulated, _ = _compute_chi_squares(tables.reshape(shape) + noise, noise_std)
    n_larger = int((simulated >= statistic).sum())
    return Independence(float(statistic), (1 + n_larger) / (1 + N_SIMULATIONS))


def _compute_chi_squares(counts: Floats, noise_std: float) -> tuple[Any, Floats]:
    """Return the statistics of tables (..., n_rows, n_columns) of noisy counts, and the proportions expected."""
    n_rows = np.maximum(counts.sum((-1, -2), keepdims=True), 1.0)
    proportions = np.ones(())
    for axis in (-1, -2):
        margin = np.maximum(counts.sum(axis, keepdims=True), 0.0)
        total = margin.sum((-1, -2), keepdims=True)
        proportions = proportions * margin / np.maximum(total, 1e-300)
    expected = n_rows * proportions
    squares = (counts - expected) ** 2 / (expected + noise_std**2)
    return squares.sum((-1, -2)), proportions
