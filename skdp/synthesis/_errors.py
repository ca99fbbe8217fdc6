"""How much noise there is in the counts of a marginal."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis._marginal import Marginal


def noise_of_marginal(
    marginals: Sequence[Marginal], columns: Sequence[int], sizes: Sequence[int]
) -> NDArray[np.float64]:
    """Return the standard deviation of the best estimate of each count of a marginal from what was measured."""
    # Each measurement that holds the columns gives the counts as sums of its own; they are weighted by their inverse
    # variances. Where it counted rare values together, it says nothing of cells with such a value.
    precision = np.zeros([sizes[column] for column in columns])
    for marginal in marginals:
        if not set(columns) <= set(marginal.clique):
            continue
        axes = [marginal.clique.index(column) for column in columns]
        groups = marginal.groups or (None,) * len(marginal.clique)
        alone = [_alone(groups[axis], sizes[column]) for axis, column in zip(axes, columns, strict=True)]
        summed = marginal.counts.size // math.prod(marginal.counts.shape[axis] for axis in axes)
        precision[np.ix_(*alone)] += 1 / (summed * marginal.std_error**2)
    return np.divide(1, np.sqrt(precision), out=np.full(precision.shape, np.nan), where=precision > 0)


def _alone(groups: NDArray[np.intp] | None, size: int) -> NDArray[np.bool_]:
    """Say which values are counted by themselves."""
    return np.ones(size, bool) if groups is None else np.bincount(groups)[groups] == 1
