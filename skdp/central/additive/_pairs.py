"""Pairs of columns in an additive model: their cells, the choice of a few, and what functions of them are like."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.central.additive._crossings import Crossing, Integers
from skdp.central.additive._smoothing import Floats, bin_covariances
from skdp.central.statistics import Bins
from skdp.domain import Categories, Interval

# Groups of the bins of a column of numbers. With 4 or 8 of them, R2 and the area change
# by less than .003 (prices of diamonds and a table with products, epsilon .5 to 4, 3
# fits).
N_GROUPS = 6

# Values of a column that has groups of single values.
MOST_VALUES_OF_PAIRED = 16

# Columns whose pairs are candidates, those whose functions vary most: 45 pairs.
_MOST_COLUMNS = 10

# Shares of rows are whole numbers of these in scores.
_SHARES = 64

# How much a residual of 1 adds to a score, at most.
SCORE_FACTOR = 4


class Groups(NamedTuple):
    """Neighbouring bins of a column, or its values."""

    # None if the rarest values are together.
    attribute: Categories | Interval | None
    # The group of each bin, and, last, the number of groups, for what is in none.
    of_bins: NDArray[np.intp]
    # The noisy numbers of rows, above 0: (n_groups,).
    sizes: Floats

    @property
    def shares(self) -> Floats:
        """The shares of the rows."""
        return self.sizes / self.sizes.sum()

    def means(self, values: Floats, sizes: Floats) -> Floats:
        """Return the means by group of a function of the bins, by their sizes: (n_groups, n_outputs)."""
        sums = np.zeros((len(self.sizes), values.shape[1]))
        np.add.at(sums, self.of_bins[:-1], sizes[:, np.newaxis] * values)
        return sums / self.sizes[:, np.newaxis]


def group_bins(bins: Bins) -> Groups | None:
    """Join neighbouring bins to a few groups of about as many rows; None if there are too many values."""
    attribute = bins.attribute
    n_bins = len(bins.counts)
    firsts = np.arange(n_bins)
    if isinstance(attribute, Interval):
        n_ordered = len(attribute.edges) - 1
        sizes = bins.sizes[:n_ordered]
        middles = (np.cumsum(sizes) - sizes / 2) / sizes.sum()
        places = np.floor(middles * N_GROUPS)
        ordered_firsts = np.flatnonzero(np.diff(places, prepend=-1))
        # Missing values are a group.
        firsts = np.append(ordered_firsts, np.arange(n_ordered, n_bins))
        edges = [attribute.edges[first] for first in ordered_firsts]
        attribute = Interval(
            edges=[*edges, attribute.edges[-1]],
            missing=attribute.missing,
            real=attribute.real,
        )
    elif n_bins > MOST_VALUES_OF_PAIRED:
        return None
    is_first = np.zeros(n_bins, np.intp)
    is_first[firsts] = 1
    return Groups(
        attribute,
        np.append(np.cumsum(is_first) - 1, len(firsts)),
        np.add.reduceat(bins.sizes, firsts),
    )


def rarest_together(bins: Bins) -> Groups:
    """Return the most frequent values as groups, and the others as one."""
    n_alone = MOST_VALUES_OF_PAIRED - 1
    frequent = np.argsort(-bins.sizes, kind="stable")[:n_alone]
    of_bins = np.full(len(bins.sizes) + 1, n_alone)
    of_bins[frequent] = np.arange(n_alone)
    of_bins[-1] = MOST_VALUES_OF_PAIRED
    sizes = np.bincount(of_bins[:-1], weights=bins.sizes)
    return Groups(None, of_bins, sizes.astype(float))


class Pair(NamedTuple):
    """Two columns, whose cells are the pairs of their groups."""

    # The numbers of the columns.
    columns: tuple[int, int]
    groups: tuple[Groups, Groups]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of groups."""
        first, second = self.groups
        return len(first.sizes), len(second.sizes)

    @property
    def n_cells(self) -> int:
        """The number of cells, which have the order of a table of the first groups by the second."""
        return math.prod(self.shape)

    def crossing(self) -> Crossing:
        """Return the cells as they are counted."""
        first, second = self.groups
        return Crossing(self.columns, (first.of_bins, second.of_bins))

    def cell_means(self, side: int, values: Floats, sizes: Floats) -> Floats:
        """Return the means by cell of a function of the bins of one of the columns: (n_cells, n_outputs)."""
        means = self.groups[side].means(values, sizes)
        n_first, n_second = self.shape
        if side == 0:
            return np.repeat(means, n_second, axis=0)
        return np.tile(means, (n_first, 1))

    def expected_score(self, n_rows: float, deviation: float) -> float:
        """Return about the score of residuals of a deviation of which the groups say nothing."""
        # The mean size of a normal number, of the variance of what is left of the sum of
        # a cell of independent columns.
        score = math.sqrt(2 / math.pi * n_rows) * deviation
        for groups in self.groups:
            score *= np.sqrt(groups.shares * (1 - groups.shares)).sum()
        return score

    def priors(self) -> list[Floats]:
        """Return covariances of functions of the cells whose mean in each group is 0: (n_cells, n_cells) each.

        The mean is that of independent columns, so that functions of single columns have all that is theirs.
        """
        by_column = []
        for groups in self.groups:
            centre = np.eye(len(groups.sizes)) - groups.shares
            assert groups.attribute is not None
            covariances = bin_covariances(groups.attribute, groups.sizes)
            by_column.append([centre @ prior @ centre.T for prior in covariances])
        priors: list[Floats] = []
        for first, second in itertools.product(*by_column):
            priors.append(np.asarray(np.kron(first, second), float))
        return priors


def most_candidates(n_columns: int) -> int:
    """Return how many pairs there are at most of which some are chosen."""
    return math.comb(min(n_columns, _MOST_COLUMNS), 2)


def candidates(bins: Sequence[Bins], variances: Floats) -> list[Pair]:
    """Return the pairs of the columns whose functions have the largest variances."""
    groups_of_columns: dict[int, Groups] = {}
    for column in np.argsort(-variances, kind="stable").tolist():
        groups = group_bins(bins[column])
        if groups is not None and len(groups_of_columns) < _MOST_COLUMNS:
            groups_of_columns[column] = groups
    pairs = []
    for first, second in itertools.combinations(sorted(groups_of_columns), 2):
        two_groups = groups_of_columns[first], groups_of_columns[second]
        pairs.append(Pair((first, second), two_groups))
    return pairs


def declared_pairs(
    bins: Sequence[Bins], pairs_of_columns: Sequence[tuple[int, int]]
) -> list[Pair]:
    """Return pairs of columns, none of which has too many values."""
    pairs = []
    for first, second in pairs_of_columns:
        groups = group_bins(bins[first]), group_bins(bins[second])
        assert groups[0] is not None
        assert groups[1] is not None
        pairs.append(Pair((first, second), (groups[0], groups[1])))
    return pairs


def split_cells(numbers: NDArray[Any], pairs: Sequence[Pair]) -> list[NDArray[Any]]:
    """Split numbers of the cells of pairs."""
    ends = np.cumsum([pair.n_cells for pair in pairs])
    return np.split(numbers, ends[:-1])


def scores(sums: Integers, pairs: Sequence[Pair]) -> list[int]:
    """Score pairs by the sizes of the sums of their cells, less those that their groups let expect.

    Sums are of shape (n_cells of all pairs, n_outputs).
    """
    results = []
    for pair, pair_sums in zip(pairs, split_cells(sums, pairs), strict=True):
        first, second = pair.groups
        p = _whole_shares(first)[:, np.newaxis, np.newaxis]
        q = _whole_shares(second)[np.newaxis, :, np.newaxis]
        cells = pair_sums.reshape(*pair.shape, -1)
        of_first = cells.sum(axis=1, keepdims=True)
        of_second = cells.sum(axis=0, keepdims=True)
        total = cells.sum(axis=(0, 1), keepdims=True)
        # With shares p and q that add up to 1, of the group i and j of a row, a residual
        # r adds ``r ([a = i] - p_a) ([b = j] - q_b)`` to what is left of each cell: in
        # all ``4 |r| (1 - p_i) (1 - q_j)`` at most. Whole multiples are rounded once.
        excess = _SHARES * (_SHARES * cells - q * of_first - p * of_second)
        excess += p * q * total
        results.append(int(np.abs(excess).sum()) // _SHARES**2)
    return results


def _whole_shares(groups: Groups) -> Integers:
    """Return shares of the rows as whole numbers that add up to `_SHARES`."""
    ends = np.rint(np.cumsum(groups.shares) * _SHARES).astype(np.int64)
    return np.diff(ends, prepend=0)
