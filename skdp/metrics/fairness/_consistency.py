"""The consistency of predictions: how close each is to those of the rows that are most alike."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors

from skdp.metrics.fairness._intervals import Estimate, Numbers, proportion
from skdp.metrics.fairness._rates import Mask
from skdp.metrics.fairness._table import Precision

_NEIGHBOURS = 5
_ALONE = 1 + (_NEIGHBOURS - 1) / _NEIGHBOURS
"""What one prediction unlike all others adds: its own distance, and its shares in those of its neighbours."""


def measure_consistency(
    features: Numbers, predicted: Mask, precision: Precision
) -> Estimate:
    """Return the consistency, with an interval over samples of rows."""
    n_rows, none = len(predicted), np.asarray(np.nan)
    if n_rows < _NEIGHBOURS:
        return Estimate(none, none, np.asarray(0.0), np.asarray(1.0))
    search = NearestNeighbors(n_neighbors=_NEIGHBOURS, algorithm="ball_tree").fit(
        features
    )
    near = search.kneighbors(features, return_distance=False)
    label = predicted.astype(np.float64)
    own = label[near].mean(axis=1)
    distance = np.abs(label - own)
    value = np.asarray(1 - distance.mean())
    if precision.rows == "fixed":  # it depends on no group, so it is known
        return Estimate(value, np.asarray(0.0), value, value)
    if n_rows == _NEIGHBOURS:
        return Estimate(value, none, np.asarray(0.0), np.asarray(1.0))
    # The jackknife: without a row, each row that it is a neighbour of has its sixth neighbour instead.
    more, row = (
        search.kneighbors(features, _NEIGHBOURS + 1, return_distance=False),
        np.arange(n_rows),
    )
    sixth = more[
        row, (more[:, :, np.newaxis] == near[:, np.newaxis]).any(axis=2).argmin(axis=1)
    ]
    left = distance.sum() - distance
    for gone in near.T:
        moved = (
            np.abs(label - own - (label[sixth] - label[gone]) / _NEIGHBOURS) - distance
        )
        left += np.bincount(gone, np.where(gone == row, 0, moved), minlength=n_rows)
    left /= n_rows - 1
    variance = (n_rows - 1) / n_rows * ((left - left.mean()) ** 2).sum()
    # Wilson's interval, of as many rows as a proportion with this error has.
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(variance > 0, value * (1 - value) / variance, n_rows / _ALONE)
    found = proportion(value * size, size, precision.level)
    ends = np.minimum(found.lower, value), np.maximum(found.upper, value)
    return Estimate(value, np.sqrt(variance), *ends)
