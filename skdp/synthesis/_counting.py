"""Counts of the combinations of values of some columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def count_cells(codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Count the rows of each cell.

    Parameters
    ----------
    codes : sequence of ndarray of int
        The columns, at least one.
    sizes : sequence of int
        The number of values of each.

    Returns
    -------
    ndarray of int64, an axis a column
        The counts.

    Examples
    --------
    >>> count_cells([np.array([0, 1, 1]), np.array([2, 0, 0])], [2, 3]).tolist()
    [[0, 0, 1], [2, 0, 0]]
    """
    joint = codes[0].astype(np.intp)
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        joint *= size
        joint += column
    return np.bincount(joint, minlength=math.prod(sizes)).reshape(sizes)
