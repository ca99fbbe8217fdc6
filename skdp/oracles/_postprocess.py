"""Ways to repair unbiased estimates: counts that are not negative, or that also add up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.oracles._base import FrequencyOracle


def project_to_simplex(counts: ArrayLike, total: float) -> NDArray[np.float64]:
    """Return the nearest counts that are not negative and add up to a total ("norm-sub").

    Parameters
    ----------
    counts : array-like of shape (k,)
        Any numbers.
    total : float
        What the result adds up to, at least 0.

    Returns
    -------
    ndarray of shape (k,)
        The Euclidean projection: a constant is subtracted, and what becomes negative is 0.

    References
    ----------
    T. Wang et al. (2020). Locally differentially private frequency estimation with consistency. NDSS.

    Examples
    --------
    >>> project_to_simplex([8.0, 4.0, -2.0], 10).tolist()
    [7.0, 3.0, 0.0]
    """
    counts = np.asarray(counts, float)
    if not np.isfinite(counts).all():
        return counts
    descending = np.sort(counts)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, counts.size + 1)
    kept = np.flatnonzero(descending - excess > 0)
    return np.maximum(counts - excess[kept[-1] if kept.size else 0], 0)


def _unbiased(oracle: FrequencyOracle, support: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    return oracle.estimate(support, n)


def _clipped(oracle: FrequencyOracle, support: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    return np.clip(oracle.estimate(support, n), 0, n)


def _projected(oracle: FrequencyOracle, support: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    return project_to_simplex(oracle.estimate(support, n), n)


def _likeliest(oracle: FrequencyOracle, support: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    return oracle.maximum_likelihood(support, n)


POSTPROCESSORS: dict[str, Callable[[FrequencyOracle, NDArray[np.int64], int], NDArray[np.float64]]] = {
    "none": _unbiased,
    "clip": _clipped,
    "simplex": _projected,
    "mle": _likeliest,
}
"""The names that ``postprocess=`` takes, each with what makes counts of a tally."""
