"""Postprocessing of unbiased estimates to nonnegative counts, or counts with a fixed sum.

The values of ``postprocess=``, where e are the unbiased estimates of n reports.
Postprocessing has no privacy cost. Changed estimates are biased; intervals are the
intervals of e.

- ``none``: e.
- ``clip``: e, cut to ``[0, n]``.
- ``simplex``: ``max(e - t, 0)``, the nearest counts that add up ("norm-sub" in [1]_).
  For tables that must be consistent; the likeliest counts have nearly the same error.

References
----------
.. [1] T. Wang, M. Lopuhaä-Zwakenberg, Z. Li, B. Skoric, N. Li (2020). Locally
   differentially private frequency estimation with consistency. NDSS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray


def project_to_simplex(counts: ArrayLike, total: float) -> NDArray[np.float64]:
    """Project counts onto nonnegative counts with a given total ("norm-sub").

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

    Examples
    --------
    >>> from skdp.oracles import project_to_simplex
    >>> project_to_simplex([8.0, 4.0, -2.0], 10).tolist()
    [7.0, 3.0, 0.0]
    """
    counts = np.asarray(counts, float)
    if not np.isfinite(counts).all():
        return counts
    descending = np.sort(counts)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, counts.size + 1)
    # The constant to subtract is the excess of the largest number of counts that stay
    # above 0.
    n_positive = int(np.count_nonzero(descending > excess))
    return np.maximum(counts - excess[max(n_positive, 1) - 1], 0)


def keep_counts(counts: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Return unbiased counts."""
    return counts


def clip_counts(counts: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Clip counts to [0, total]."""
    return np.clip(counts, 0, total)


Postprocess = Literal["none", "clip", "simplex"]
"""The values of ``postprocess=``."""

# The function of each postprocess, of estimated counts and their total.
POSTPROCESSORS: dict[str, Callable[[Any, float], NDArray[np.float64]]] = {
    "none": keep_counts,
    "clip": clip_counts,
    "simplex": project_to_simplex,
}
