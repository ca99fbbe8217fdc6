"""Values of a column that are counted together, as each alone would be noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skdp.synthesis.model import Clique, Groups

NOISE_COST = 0.5
"""What noise costs a cell, in standard deviations.

Less than its mean, .8, since negative counts are repaired."""

_RARE_STD_ERRORS = 4.0
"""Standard deviations of its noise: values with fewer records are counted together."""

_PAIR_NOISE = 0.3
"""The noise that a pair can afford, as a share of all records."""


@dataclass(frozen=True)
class Cells:
    """How values are counted together, and how many cells a marginal has then."""

    sizes: tuple[int, ...]
    groups: Groups

    def of(self, clique: Clique) -> Groups | None:
        """Return the groups of a marginal's columns, None if it has none."""
        groups = tuple(self.groups[column] for column in clique)
        if len(clique) == 1 or all(members is None for members in groups):
            return None
        return groups

    def cost(self, clique: Clique) -> float:
        """Return the number of cells of a marginal."""
        n_cells = 1.0
        for column in clique:
            members = self.groups[column]
            if members is None:
                n_cells *= self.sizes[column]
            else:
                n_cells *= int(members.max()) + 1
        return n_cells


def group_column(
    counts: NDArray[np.float64],
    n_records: float,
    noise: float,
    *,
    ordered: bool,
    count_error: float = 0.0,
    largest_rare_share: float = 1.0,
) -> NDArray[np.intp] | None:
    """Group values of a column that are rare against the noise of pairs.

    Without an order, none is rare that has more than the largest rare share of the records.
    """
    # A column with an order and more than twice as many values as a pair can afford is
    # cut into about as many groups as it can.
    n_affordable = max(1.0, math.sqrt(_PAIR_NOISE * n_records / (NOISE_COST * noise)))
    least = _RARE_STD_ERRORS * noise
    if ordered and counts.size > 2 * n_affordable:
        least = max(least, n_records / n_affordable)
    if not ordered and counts.size > 1:
        # About one of all values has such a count by the noise of the column alone. Those
        # that had it by noise would look as if they depended on all other columns.
        least = max(least, count_error * float(ndtri(1 - 1 / counts.size)))
        least = min(least, largest_rare_share * n_records)
    return group_rare_values(counts, least, ordered=ordered)


def group_rare_values(
    counts: NDArray[np.float64], least: float, *, ordered: bool
) -> NDArray[np.intp] | None:
    """Group the values of a column such that groups of rare values hold enough."""
    is_common = counts >= least
    if is_common.all() or counts.size == 1:
        return None
    if not ordered:
        n_common = np.cumsum(is_common)
        return np.where(is_common, n_common - 1, n_common[-1]).astype(np.intp)
    # A rare value joins its left neighbours while they are rare, and the last ones join
    # the group before.
    groups = np.zeros(counts.size, np.intp)
    current = 0
    group_count = counts[0]
    for value in range(1, counts.size):
        is_full = group_count >= least or (
            is_common[value] and group_count * 2 >= least
        )
        if is_full and counts[value:].sum() * 2 >= least:
            current += 1
            group_count = 0.0
        groups[value] = current
        group_count += counts[value]
    return groups
