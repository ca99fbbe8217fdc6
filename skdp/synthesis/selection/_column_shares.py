"""The shares of a column's values, from noisy counts that add up to a known number."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct

_N_STEPS = 20
"""Steps of expectation and maximisation: of few values, more of them fit noise.

With 5, 20 and 100 of them, shares of 300 merchants of 2,000 payments, at a noise of 20
records, are off by .37, .32 and .31 (as they come: .42), those of 15 occupations of Adult,
at a noise of 240, by .043, .045 and .046 (.040)."""

LEAST_COUNT = 1e-6
"""Records of a value that no record seems to have: it may occur, and nothing is divided by 0."""


def estimate_shares(
    noisy_counts: NDArray[np.float64], std_error: float, *, ordered: bool
) -> NDArray[np.float64]:
    """Estimate the shares of all values, each of them positive, by what the counts say together."""
    counts = noisy_counts
    # Two counts whose sum is known are one number, which says nothing of others.
    if counts.size > 2 and counts.sum() > 0:
        if ordered:
            counts, std_error = _smooth(counts, std_error)
        else:
            counts = _shrink(counts, std_error)
            std_error = 0.0
    # What noise makes negative may still occur: in a quarter of a standard error.
    counts = np.maximum(counts, max(std_error / 4, LEAST_COUNT))
    return np.asarray(counts / counts.sum())


def _smooth(
    counts: NDArray[np.float64], std_error: float
) -> tuple[NDArray[np.float64], float]:
    """Smooth counts of values with an order as far as they seem to be smooth; return their error."""
    # Empirical Bayes: the coefficient of a cosine with k half waves has the variance
    # a / k**p, and that of the noise. The likeliest a and p are taken. With p = 0 each
    # count is shrunk toward the mean, without regard to its neighbours.
    coefficients = dct(counts, norm="ortho")
    waves = np.arange(1, counts.size)
    noise = std_error**2
    squares = coefficients[1:] ** 2
    largest = max(float((squares * waves**4.0).max()), noise)
    amplitudes = np.geomspace(noise / counts.size, largest, 50)
    least = math.inf
    variances = np.zeros(waves.size)
    for power in range(5):
        for amplitude in amplitudes:
            candidate = amplitude * waves ** -float(power)
            total = candidate + noise
            loss = float((np.log(total) + squares / total).sum())
            if loss < least:
                least = loss
                variances = candidate
    weights = variances / (variances + noise)
    coefficients[1:] *= weights
    smooth = np.asarray(idct(coefficients, norm="ortho"))
    return smooth, std_error * math.sqrt(float(weights.sum()) / counts.size)


def _shrink(counts: NDArray[np.float64], std_error: float) -> NDArray[np.float64]:
    """Return the means of counts given the noisy ones, for the distribution that these seem to be drawn from."""
    # Empirical Bayes without a form of that distribution ([1]_): its support are the
    # noisy counts themselves and their mean, and its weights those of most likelihood.
    # .. [1] J. Kiefer, J. Wolfowitz (1956). Consistency of the maximum likelihood
    #    estimator in the presence of infinitely many incidental parameters. Annals of
    #    Mathematical Statistics 27(4).
    support = np.append(np.unique(np.maximum(counts, 0)), counts.mean())
    distances = (counts[:, np.newaxis] - support) / std_error
    logs = -(distances**2) / 2
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = np.full(support.size, 1 / support.size)
    for _ in range(_N_STEPS):
        posterior = likelihood * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        weights = posterior.mean(axis=0)
    return np.asarray(posterior @ support)
