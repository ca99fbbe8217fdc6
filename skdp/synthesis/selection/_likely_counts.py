"""Likely counts of the values of a column, of which noise may hide most."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from skdp.oracles import project_to_simplex

_SHAPES = np.geomspace(1 / 16, 64, 11)
"""Of gamma laws of counts: from a few large ones among many of 0, to equal ones."""

_N_NODES = 64
"""The points at which the likelihood of a count is evaluated.

Half or twice as many change expected counts by less than .02 standard deviations of the
noise in 38 of 41 tables of 20 to 1,000 values and noise of 1 to 100, and by up to .7 in
three of 1,000 equal counts."""

_WIDTH = 6.0
"""The standard deviations of its noise by which a count is off at most."""


def likely_counts(
    noisy: NDArray[np.float64], std_error: float, total: float
) -> NDArray[np.float64] | None:
    """Return the expected counts given noisy ones, None if that is no better than these.

    Better than the nearest counts that are not negative and add up to the total.
    """
    # Empirical Bayes: how the counts of values vary is told by all of them together
    # ([1]_). The counts of a column have a gamma law, its mean is known, and its shape is
    # the one under which what was released is most likely.
    # .. [1] B. Efron (2010). Large-scale inference: empirical Bayes methods for
    #    estimation, testing, and prediction. Cambridge University Press.
    variance = std_error**2
    projected = project_to_simplex(noisy, total)
    n_free = np.count_nonzero(projected) - 1
    risk_of_projected = ((projected - noisy) ** 2).sum() + 2 * variance * n_free
    # Stein's unbiased estimate of the sum of squared errors, without a term that both
    # have ([2]_): a mean given a count rises with it by the variance over the noise's.
    # It has about this standard deviation, and of few values hardly anything is learnt.
    # .. [2] C. Stein (1981). Estimation of the mean of a multivariate normal
    #    distribution. Annals of Statistics 9(6).
    deviation = math.sqrt(2 * noisy.size) * variance
    if risk_of_projected <= deviation:
        return None
    means, variances = _posterior(noisy, std_error, total / noisy.size)
    expected = project_to_simplex(means, total)
    risk = ((expected - noisy) ** 2).sum() + 2 * variances.sum()
    return expected if risk + deviation < risk_of_projected else None


def _posterior(
    noisy: NDArray[np.float64], std_error: float, mean: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the means and variances of counts given noisy ones."""
    # An integral over each count; laws that have no largest density need steps that are
    # short near 0: a cube of equal ones.
    half_width = _WIDTH * std_error
    lows = np.maximum(0.0, noisy - half_width)[:, np.newaxis]
    # Not as the difference of their ends, which is 0 for counts that floats just hold.
    widths = np.minimum(2 * half_width, np.maximum(0.0, noisy) + half_width)
    widths = widths[:, np.newaxis]
    middles = (np.arange(_N_NODES) + 0.5) / _N_NODES
    counts = lows + widths * middles**3  # (n_values, n_nodes)
    log_widths = np.log(widths * middles**2)
    shapes = _SHAPES[:, np.newaxis, np.newaxis]
    rates = shapes / mean
    logs = (shapes - 1) * np.log(counts) - rates * counts + log_widths
    logs -= ((noisy[:, np.newaxis] - counts) / std_error) ** 2 / 2
    largest = logs.max(axis=2, keepdims=True)
    weights = np.exp(logs - largest)  # (n_shapes, n_values, n_nodes)
    sums = weights.sum(axis=2)
    log_norms = _SHAPES * np.log(_SHAPES / mean) - gammaln(_SHAPES)
    log_likelihoods = (np.log(sums) + largest[:, :, 0]).sum(axis=1)
    best = int(np.argmax(log_likelihoods + noisy.size * log_norms))
    means = (weights[best] * counts).sum(axis=1) / sums[best]
    squares = (counts - means[:, np.newaxis]) ** 2
    return means, (weights[best] * squares).sum(axis=1) / sums[best]
