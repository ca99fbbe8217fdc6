"""How much noise there is in the counts of a marginal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from skdp.synthesis._marginal import Marginal


def noise_of_marginal(marginals: Sequence[Marginal], columns: Sequence[int], sizes: Sequence[int]) -> float:
    """Return the standard deviation of the best estimate of a marginal's counts from what was measured.

    Each measurement that holds the columns, value by value, gives the counts as sums of its own; they are weighted by
    their inverse variances.

    Parameters
    ----------
    marginals : sequence of Marginal
        What was measured.
    columns : sequence of int
        The columns of the wanted counts.
    sizes : sequence of int
        The number of values of each column of the table.

    Returns
    -------
    float
        In records; nan if the columns were not measured together.

    Examples
    --------
    >>> import numpy as np
    >>> noise_of_marginal([Marginal((0, 1), np.zeros((2, 4)), 3.0)], [0], [2, 4])
    6.0
    """
    cells = math.prod(sizes[column] for column in columns)
    precision = 0.0
    for marginal in marginals:
        if not set(columns) <= set(marginal.clique):
            continue
        groups = marginal.groups or (None,) * len(marginal.clique)
        if any(groups[marginal.clique.index(column)] is not None for column in columns):
            continue
        precision += cells / marginal.counts.size / marginal.std_error**2
    return precision**-0.5 if precision else math.nan
