"""Counting rare values together, where they would be lost in the noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def group_rare_values(counts: NDArray[np.float64], least: float, *, ordered: bool) -> NDArray[np.intp] | None:
    """Group the values of a column such that groups of rare values hold enough records."""
    common = counts >= least
    if common.all() or counts.size == 1:
        return None
    if not ordered:
        groups = np.where(common, np.cumsum(common) - 1, common.sum())
        return groups.astype(np.intp)
    groups = np.zeros(counts.size, np.intp)
    current, held = 0, counts[0]
    for value in range(1, counts.size):
        rest = counts[value:].sum()
        # A rare value joins its left neighbours while they are rare, and the last ones join whoever is there.
        if held >= least / 2 and rest >= least / 2 and (held >= least or common[value]):
            current, held = current + 1, 0.0
        groups[value] = current
        held += counts[value]
    return groups
