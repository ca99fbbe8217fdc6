"""Tables with one axis per column, and noisy marginals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Floats, Indices, Mask

Clique = tuple[int, ...]
"""Indices of columns, in increasing order."""


ValueGroups = tuple[Indices | None, ...]
"""For each column, the group of each value; None if each value is its own group."""


def shape_of(columns: Iterable[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the table of some columns, given the sizes of all columns."""
    return tuple(map(sizes.__getitem__, columns))


def n_cells_of(columns: Iterable[int], sizes: Sequence[int]) -> int:
    """Count the cells of the table of some columns, given the sizes of all columns."""
    return math.prod(map(sizes.__getitem__, columns))


MAX_BLOCK = 8
"""NumPy takes long for loops over blocks of at most as many cells."""

MIN_BLOCK = 256
"""Cells of the blocks in which tables are scaled."""


@cache
def _tile(size: int, n_trailing: int) -> Floats:
    """Return `size` identity matrices below each other."""
    return np.tile(np.eye(n_trailing), (size, 1))


def sum_out(table: Floats, axis: int) -> Floats:
    """Sum a table over one axis."""
    # A product with a matrix is up to 20 times as fast as np.sum where the trailing
    # axes are short.
    size = table.shape[axis]
    n_trailing = math.prod(table.shape[axis + 1 :])
    if n_trailing <= MAX_BLOCK:
        sums = table.reshape(-1, size * n_trailing) @ _tile(size, n_trailing)
    else:
        sums = _tile(size, 1).T @ table.reshape(-1, size, n_trailing)
    return sums.reshape(table.shape[:axis] + table.shape[axis + 1 :])


def project(table: Floats, columns: Clique, onto: Sequence[int]) -> Floats:
    """Sum a table with the axes `columns` to the marginal of the columns `onto`, in their order."""
    remaining = list(columns)
    # Long axes are summed out first, because the remaining table is then the smallest.
    dropped = sorted(
        set(columns) - set(onto),
        key=lambda column: -table.shape[columns.index(column)],
    )
    for column in dropped:
        table = sum_out(table, remaining.index(column))
        remaining.remove(column)
    return np.transpose(table, list(map(remaining.index, onto)))


def expand(table: NDArray, columns: Sequence[int], onto: Sequence[int]) -> NDArray:
    """Insert an axis of length 1 into a table with the axes `columns` for each further column of `onto`."""
    sizes = dict(zip(columns, table.shape, strict=True))
    return table.reshape([sizes.get(column, 1) for column in onto])


def scale(
    table: Floats, factor: Floats, columns: Sequence[int], onto: Sequence[int]
) -> None:
    """Multiply a table with the axes `onto` by a factor with the axes `columns`, in place."""
    factor = expand(factor, columns, onto)
    # The last axes, for which the factor is repeated, are one block.
    axis, n_cells = table.ndim, 1
    while axis > 0 and n_cells < MIN_BLOCK:
        axis -= 1
        n_cells *= table.shape[axis]
    shape = factor.shape[:axis]
    blocks = np.broadcast_to(factor, (*shape, *table.shape[axis:]))
    rows = table.reshape(*table.shape[:axis], n_cells)
    rows *= blocks.reshape(*shape, n_cells)


def divide(numerator: Floats, denominator: Floats) -> Floats:
    """Divide two tables, with a quotient of 0 if the denominator is 0 or not a normal float."""
    # A quotient by a smaller number than the smallest normal float may be infinite.
    zeros = np.zeros(np.broadcast_shapes(numerator.shape, denominator.shape))
    is_normal = denominator >= np.finfo(float).tiny
    return np.divide(numerator, denominator, out=zeros, where=is_normal)


def sum_value_groups(table: NDArray, groups: ValueGroups | None) -> NDArray:
    """Sum the cells of a table by groups of values, on each axis that has groups.

    `groups` has the group of each value of each axis, or None for an axis without groups.
    """
    for axis, group_of_value in enumerate(groups or ()):
        if group_of_value is None:
            continue
        # A product with a matrix of zeros and ones; shape (n_groups, n_values).
        group_numbers = np.arange(group_of_value.max() + 1)
        is_member = group_numbers[:, np.newaxis] == group_of_value
        indicator = is_member.astype(table.dtype)
        leading, trailing = table.shape[:axis], table.shape[axis + 1 :]
        n_values = group_of_value.size
        blocks = table.reshape(math.prod(leading), n_values, math.prod(trailing))
        sums = indicator @ blocks if trailing else blocks[:, :, 0] @ indicator.T
        table = sums.reshape(*leading, -1, *trailing)
    return table


def group_values(counts: Floats, n_groups: int) -> Indices:
    """Return the group of each value of a column, given its counts: ascending, with about equal counts."""
    if counts.size <= n_groups:
        return np.arange(counts.size)
    middles = np.cumsum(counts) - counts / 2
    total = max(float(counts.sum()), np.finfo(float).tiny)
    groups = (middles / total * n_groups).astype(np.intp)
    return np.unique(groups, return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class Marginal:
    """The noisy counts of all cells of some columns, whose values may be in groups."""

    clique: Clique
    counts: Floats
    std_error: float
    """The standard error of each count."""
    groups: ValueGroups | None = None
    is_sampled: bool = False
    """True for counts of a sample: rare values have smaller errors, and `std_error` is the error of a mean count."""

    @property
    def total(self) -> tuple[float, float]:
        """The noisy number of records, and its variance."""
        return float(self.counts.sum()), self.counts.size * self.std_error**2

    def groups_of(self, column: int) -> Indices | None:
        """Return the group of each value of one of its columns; None if each value is counted."""
        return self.groups[self.clique.index(column)] if self.groups else None

    def has_cells_of(self, columns: Iterable[int]) -> bool:
        """Return True if every combination of values of the columns has a count."""
        if not self._columns.issuperset(columns):
            return False
        return self.groups is None or all(self.groups_of(c) is None for c in columns)

    @cached_property
    def _columns(self) -> frozenset[int]:
        return frozenset(self.clique)

    def counts_of(self, columns: Sequence[int]) -> tuple[Floats, float]:
        """Return the counts of some of its columns, with an axis for each, and the standard error of a count."""
        counts = project(self.counts, self.clique, columns)
        # Each count is a sum of equally many independent noisy counts.
        n_summands = self.counts.size / counts.size
        return counts, self.std_error * math.sqrt(n_summands)


def merge_marginals(marginals: Iterable[Marginal]) -> list[Marginal]:
    """Average the measurements of the same columns and groups, weighted by precision."""
    measurements: dict[Any, list[Marginal]] = {}
    for marginal in map(_drop_single_groups, marginals):
        groups = [g if g is None else g.tobytes() for g in marginal.groups or ()]
        measurements.setdefault((marginal.clique, *groups), []).append(marginal)
    merged = []
    for repeated in measurements.values():
        precisions = np.array([marginal.std_error**-2 for marginal in repeated])
        weighted = [p * m.counts for p, m in zip(precisions, repeated, strict=True)]
        precision = float(precisions.sum())
        counts = np.sum(weighted, axis=0) / precision
        merged.append(replace(repeated[0], counts=counts, std_error=precision**-0.5))
    return merged


def _drop_single_groups(marginal: Marginal) -> Marginal:
    """Return the counts of the values of columns whose groups have one value each."""
    counts = marginal.counts
    groups = list(marginal.groups or ())
    for axis, group_of_value in enumerate(groups):
        if group_of_value is not None and counts.shape[axis] == group_of_value.size:
            counts = np.take(counts, group_of_value, axis)
            groups[axis] = None
    has_groups = any(group_of_value is not None for group_of_value in groups)
    return replace(
        marginal, counts=counts, groups=tuple(groups) if has_groups else None
    )


def estimate_marginal_counts(
    marginals: Iterable[Marginal], columns: Sequence[int]
) -> tuple[Floats, float]:
    """Estimate the counts of the cells of columns from all marginals that contain them; also return the standard error.

    The counts have an axis for each column. Without such a marginal, they are a single 0, and the standard error is
    infinite.
    """
    # The unbiased estimate with the smallest variance: estimates are weighted by their
    # precisions 1 / variance, and the precision of the mean is the sum of these.
    weighted = np.zeros(())
    precision = 0.0
    for marginal in marginals:
        if marginal.has_cells_of(columns):
            counts, std_error = marginal.counts_of(columns)
            weighted = weighted + counts * std_error**-2
            precision += std_error**-2
    if precision == 0:
        return weighted, math.inf
    return weighted / precision, precision**-0.5


def estimate_total(marginals: Iterable[Marginal]) -> tuple[float, float]:
    """Estimate the number of records, at least 1, and its standard error, from the sums of all marginals."""
    totals, variances = np.array([marginal.total for marginal in marginals]).T
    weights = 1 / variances
    mean = float(weights @ totals / weights.sum())
    return max(1.0, mean), float(weights.sum() ** -0.5)


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of errors of counts: a diagonal matrix minus `factors` times their transpose."""

    diagonal: Floats
    """(n_counts,)."""
    factors: Floats
    """(n_counts, n_factors)."""

    def __getitem__(self, counts: slice) -> Covariance:
        return Covariance(self.diagonal[counts], self.factors[counts])

    def variance_of(self, weights: Floats) -> float:
        """Return the variance of a weighted sum of the counts."""
        products = weights @ self.factors
        return float(weights**2 @ self.diagonal - products @ products)

    def accumulate(self) -> Covariance:
        """Return the sums of the diagonal and of the factors of the first counts; each of n_counts + 1 sums."""
        diagonal = np.append(0.0, self.diagonal.cumsum())
        return Covariance(
            diagonal, np.pad(self.factors.cumsum(axis=0), ((1, 0), (0, 0)))
        )


def combine_levels(levels: Sequence[Marginal], size: int) -> tuple[Floats, Covariance]:
    """Combine counts of the values of a column and of groups of its values, by weighted least squares.

    One of the levels counts each of the `size` values. Return the counts and their covariance.
    """
    # The best linear unbiased estimate.
    equations = _NormalEquations(levels, size)
    covariance = equations.invert(np.ones(size, bool))
    counts = _multiply(covariance, equations.weighted)
    unit = equations.unit
    return counts, Covariance(unit**2 * covariance.diagonal, unit * covariance.factors)


def combine_nonnegative_levels(
    levels: Sequence[Marginal], size: int, known: Floats
) -> Floats:
    """Combine counts of the values of a column and of groups of its values into nonnegative counts.

    `known` has the counts of some values, and NaN for the values that are estimated; shape (size,).
    """
    # Weighted least squares; negative counts become 0, and all others are estimated again.
    equations = _NormalEquations(levels, size)
    is_free = np.isnan(known)
    counts = np.where(is_free, 0.0, known)
    while True:
        rest = equations.weighted - equations.group @ (equations.group.T @ counts)
        free = _multiply(equations.invert(is_free), rest[is_free])
        is_negative = free < 0
        if not is_negative.any():
            counts[is_free] = free
            return counts
        is_free[is_free] = ~is_negative


def _multiply(covariance: Covariance, right: Floats) -> Floats:
    """Multiply a matrix by a vector."""
    factors = covariance.factors
    return np.asarray(covariance.diagonal * right - factors @ (factors.T @ right))


class _NormalEquations:
    """Weighted least squares of the counts of values, given counts of values and of groups of values."""

    # Precisions add up. Counts of single values add to the `diagonal`; counts of larger
    # groups add B B^T, with a column of B for each group.

    def __init__(self, levels: Sequence[Marginal], size: int) -> None:
        self.unit = min(level.std_error for level in levels)
        self.weighted = np.zeros(size)
        self._diagonal = np.zeros(size)
        groups = [np.zeros((size, 0))]
        for level in levels:
            members = level.groups_of(level.clique[0])
            members = np.arange(size) if members is None else members
            weight = (self.unit / level.std_error) ** 2
            self.weighted += weight * level.counts[members]
            n_members = np.bincount(members)
            self._diagonal[n_members[members] == 1] += weight
            is_member = np.equal.outer(members, np.flatnonzero(n_members > 1))
            groups.append(math.sqrt(weight) * is_member)
        self.group = np.hstack(groups)

    def invert(self, is_free: Mask) -> Covariance:
        """Return the inverse of the matrix of the free values, with counts of 0 for all others."""
        # Woodbury's identity, because there are fewer groups than values.
        diagonal = 1 / self._diagonal[is_free]
        group = self.group[is_free]
        scaled = diagonal[:, np.newaxis] * group
        root = np.linalg.cholesky(np.eye(group.shape[1]) + group.T @ scaled)
        return Covariance(diagonal, np.linalg.solve(root, scaled.T).T)
