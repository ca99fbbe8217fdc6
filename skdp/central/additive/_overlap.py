"""How far columns say the same: correlations of smooth functions of them, from noisy counts of pairs of groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.central.additive._pairs import (
    N_GROUPS,
    Groups,
    Pair,
    group_bins,
    rarest_together,
    split_cells,
)
from skdp.central.additive._smoothing import (
    Floats,
    normal_scores,
    ordered_bins,
)
from skdp.central.statistics import Bins

# Below is what half and
# twice of them change of other rows (10,000, five targets, epsilon .5 to 4, 2 fits). With
# a correlation of .8, 62 % of the bins are supported, of which intervals of 95 % hold
# .97; with .95, 1 % are supported.

# Functions of the bins that have an order: polynomials up to this degree. With 2 or 4,
# functions of columns with a correlation of .8 are as near to the truth within the noise
# of the measurement, but for 30,000 rows at an epsilon of 4: .033 and .038 from it, in
# place of .020 (numbers, 3 fits).
_DEGREE = 3

# Counts are of use if the noise of a correlation is at most this, about. With .2, that of
# 10,000 rows of four columns at an epsilon of .2, bands were no better than without. With
# half, pairs are counted less often: .88 are held; with twice, .97 of fewer bins.
_MOST_ERROR = 0.15

# A correlation is used if it is this many deviations of its noise from 0, and its noise is
# at most `_MOST_ERROR`. With half or twice, .96 or .94 are held.
_SURE_CORRELATION = 2.5

# Of so many columns, the time of a fit grows by an eighth; by more with more of them.
_MOST_COLUMNS = 14

# Sums of functions whose variance is less than this, over that of independent ones, are
# not known to be more than nothing; and if it is less than noise makes, up to half. With
# .02 or .2, R2 of diamonds changes by less than .0005, and the shares of bins in bands
# with a correlation of .8 by less than .01; .25 or 1 in place of .5 change nothing.
_LEAST_VARIANCE, _MOST_LEAST_VARIANCE = 0.1, 0.5

# A column nearly follows from others if a function of it has this share, half of that of
# two columns, in sums whose variance seems to be less than this. With a correlation of
# .95, for which it is .05, intervals of 95 % held 20 to 88 % of the bins. With half of
# the share, 48 % of the bins are supported with a correlation of .8; with twice, 90 %,
# but with .95, a quarter, of which .70 are held. With half of the variance, 65 %, but
# with .95 .74 are held; with twice, 58 %.
_SHARE_OF_ALIKE, _VARIANCE_OF_ALIKE = 0.25, 0.05


def largest_useful_error(n_rows: float) -> float:
    """Return the largest noise of a count with which correlations are of use."""
    # Of equal groups, the noise of a correlation of two functions is that of a count over
    # ``n_rows / N_GROUPS``.
    return _MOST_ERROR * n_rows / N_GROUPS


def can_count_pairs(n_columns: int) -> bool:
    """Return whether there are pairs of columns, and not too many."""
    return 1 < n_columns <= _MOST_COLUMNS


class Basis(NamedTuple):
    """Functions of the bins of a column, of mean 0 and variance 1 over the rows, not correlated with each other."""

    groups: Groups
    # Of the rows, by bin: (n_bins,).
    shares: Floats
    # (n_bins, n_functions)
    functions: Floats
    # From values of bins to coefficients of the nearest sum of these functions:
    # (n_functions, n_bins).
    projection: Floats

    def from_groups(self) -> Floats:
        """Return the matrix from sums over rows by group to means of functions: (n_functions, n_groups)."""
        n_groups = len(self.groups.sizes)
        sums = np.zeros((n_groups, self.functions.shape[1]))
        np.add.at(sums, self.groups.of_bins[:-1], self.projection.T)
        # Least squares, where a group has the noise of its rows.
        roots = np.sqrt(self.groups.shares)
        return np.asarray(np.linalg.pinv(sums / roots[:, np.newaxis]) / roots)


def basis_of(bins: Bins) -> Basis:
    """Return polynomials of the bins that have an order, and the values, or most of them, of those that have none."""
    groups = group_bins(bins) or rarest_together(bins)
    shares = bins.sizes / bins.sizes.sum()
    columns = [np.ones(len(shares))]
    ordered = ordered_bins(bins.attribute)
    if len(ordered) > 2:
        is_ordered = np.zeros(len(shares))
        is_ordered[ordered] = 1
        scores = np.zeros(len(shares))
        scores[ordered] = normal_scores(bins.sizes[ordered])
        n_groups = len(np.unique(groups.of_bins[ordered]))
        # Of a column that may have missing values, these have a function of their own.
        if len(ordered) < len(shares):
            columns.append(is_ordered)
        for degree in range(1, min(_DEGREE + 1, n_groups)):
            columns.append(scores**degree)
    else:
        for group in range(len(groups.sizes)):
            columns.append((groups.of_bins[:-1] == group).astype(float))
    # By weighted least squares, each less what those before it say.
    roots = np.sqrt(shares)[:, np.newaxis]
    orthogonal, triangle = np.linalg.qr(roots * np.stack(columns, axis=1))
    # What others say up to rounding is no further function.
    is_new = np.abs(np.diag(triangle)) > 1e-6
    is_new[0] = False  # the constant
    functions = orthogonal[:, is_new] / roots
    return Basis(groups, shares, functions, (functions * roots**2).T)


class ColumnFit(NamedTuple):
    """What is known of the function of a column, for one output."""

    # By how much a sum by bin rises with the function there, averaged over epochs, the sums
    # of the whole response and the variances of their noise: (n_bins,) each.
    slopes: Floats
    sums: Floats
    noise_variances: Floats
    # Of residuals, by bin: (n_bins,).
    row_variances: Floats
    # From sums to the function, and the covariance of the prior: (n_bins, n_bins) each.
    smoother: Floats
    prior: Floats
    # The coefficients that the functions of all columns had in the epochs, on average.
    past_coefficients: Floats


@dataclass(frozen=True, eq=False)
class Overlap:
    """The correlations of functions of the columns."""

    bases: Sequence[Basis]
    # The places of the functions of each column among those of all.
    blocks: Sequence[slice]
    n_rows: float
    # Of the functions of all columns, one column after another: (n_all, n_all), with the
    # deviations of their noise, 0 within a column.
    correlations: Floats
    errors: Floats
    # The correlations, 0 within a column.
    of_others: Floats
    # Whether a column nearly follows from the others: (n_columns,).
    is_alike: Sequence[bool]

    @classmethod
    def from_counts(
        cls,
        bases: Sequence[Basis],
        counts: Floats,
        error: float,
        n_rows: float,
    ) -> Overlap:
        """Estimate correlations from the noisy counts of the cells of all pairs."""
        n_all = sum(basis.functions.shape[1] for basis in bases)
        correlations, errors = np.eye(n_all), np.zeros((n_all, n_all))
        blocks = _blocks_of(bases)
        from_groups = [basis.from_groups() for basis in bases]
        pairs = all_pairs(bases)
        for pair, pair_counts in zip(pairs, split_cells(counts, pairs), strict=True):
            first, second = pair.columns
            left, right = from_groups[first], from_groups[second]
            cell_shares = pair_counts.reshape(pair.shape) / n_rows
            means = left @ cell_shares @ right.T
            squares = np.outer((left**2).sum(axis=1), (right**2).sum(axis=1))
            pair_errors = error / n_rows * np.sqrt(squares)
            is_sure = np.abs(means) > _SURE_CORRELATION * pair_errors
            is_sure &= pair_errors < _MOST_ERROR
            pair_correlations = np.where(is_sure, means, 0.0).clip(-1.0, 1.0)
            # A correlation that is not known is off by 1 at most.
            pair_errors = np.minimum(pair_errors, 1.0)
            rows, columns = blocks[first], blocks[second]
            correlations[rows, columns] = pair_correlations
            correlations[columns, rows] = pair_correlations.T
            errors[rows, columns] = pair_errors
            errors[columns, rows] = pair_errors.T
        is_alike = _alike_columns(correlations, blocks)
        correlations = _positive_definite(correlations, errors, blocks)
        of_others = correlations.copy()
        for block in blocks:
            of_others[block, block] = 0.0
        return cls(bases, blocks, n_rows, correlations, errors, of_others, is_alike)

    def mean_of_others(self, column: int, coefficients: Floats) -> Floats:
        """Return the mean of the sum of the functions of other columns in each bin, less that of all rows."""
        means = self.of_others[self.blocks[column]] @ coefficients
        return self.bases[column].functions @ means

    def variance_beside(self, column: int, coefficients: Floats) -> Floats:
        """Return what correlations add to the variance of the sum of other functions within a bin: (n_outputs,)."""
        block = self.blocks[column]
        means = self.of_others @ coefficients
        added = (coefficients * means).sum(axis=0)
        # Less what this column adds, as a factor on either side, and what it explains.
        added -= 2 * (coefficients[block] * means[block]).sum(axis=0)
        return np.asarray(added - (means[block] ** 2).sum(axis=0))

    def settle(self, fits: Sequence[ColumnFit]) -> list[Floats]:
        """Return the values of functions that fit the sums if those of other columns are these: (n_bins,) each."""
        # Each is what its smoother makes of the sums less the others, which are linear in
        # their coefficients: these are the solution of linear equations.
        n_all = len(self.correlations)
        equations = np.eye(n_all)
        constants = np.zeros(n_all)
        parts = []
        for column, (basis, fit) in enumerate(zip(self.bases, fits, strict=True)):
            block = self.blocks[column]
            alone = fit.smoother @ fit.sums
            weighted = fit.slopes[:, np.newaxis] * basis.functions
            of_others = fit.smoother @ weighted @ self.of_others[block]
            equations[block] += basis.projection @ of_others
            constants[block] = basis.projection @ alone
            parts.append((alone, of_others))
        coefficients = np.linalg.solve(equations, constants)
        return [alone - of_others @ coefficients for alone, of_others in parts]

    def added_variances(
        self, fits: Sequence[ColumnFit], coefficients: Floats
    ) -> list[Floats]:
        """Return the variances of values given the sums, less those if the other columns are known: (n_bins,) each."""
        # Sums of all columns are ``slopes @ coefficients``, plus noise and what rows scatter
        # by. Between two columns, slopes are a root of the curvatures of either one with
        # their correlations between; scatter is the same with variances of rows.
        shape = self.correlations.shape
        curvature_roots, variance_roots = np.zeros(shape), np.zeros(shape)
        noise, prior = np.zeros(shape), np.zeros(shape)
        for basis, fit, block in zip(self.bases, fits, self.blocks, strict=True):
            within = block, block
            projection = basis.projection
            curvatures = self._curvatures(basis, fit)
            curvature_roots[within] = projection * np.sqrt(curvatures) @ basis.functions
            variance_roots[within] = (
                projection * np.sqrt(fit.row_variances) @ basis.functions
            )
            noise[within] = self._noise_of_sums(basis, fit, block, coefficients)
            prior[within] = projection @ fit.prior @ projection.T
        slopes = self.n_rows * curvature_roots @ self.correlations @ curvature_roots.T
        scatter = self.n_rows * variance_roots @ self.correlations @ variance_roots.T
        jointly = _posterior_covariance(slopes, scatter + noise, prior)
        variances = []
        for basis, block in zip(self.bases, self.blocks, strict=True):
            within = block, block
            # If the functions of the other columns are known, by its own sums.
            root = variance_roots[within]
            own_scatter = self.n_rows * root @ root.T
            given_others = _posterior_covariance(
                slopes[within], own_scatter + noise[within], prior[within]
            )
            added = jointly[within] - given_others
            of_bins = (basis.functions @ added * basis.functions).sum(axis=1)
            variances.append(np.maximum(of_bins, 0.0))
        return variances

    def _curvatures(self, basis: Basis, fit: ColumnFit) -> Floats:
        """Return how fast the residual of a row falls with the function of a column: (n_bins,)."""
        return fit.slopes / (self.n_rows * basis.shares)

    def _noise_of_sums(
        self, basis: Basis, fit: ColumnFit, block: slice, coefficients: Floats
    ) -> Floats:
        """Return the covariance of a column's noisy sums by its functions, with errors of correlations."""
        # A sum by function i is that of the sums s of bins with the values B[:, i] of the
        # function there, B.T @ s. With independent noise of variance v in each bin, its
        # covariance is B.T @ diag(v) @ B.
        of_bins = basis.functions.T * fit.noise_variances @ basis.functions
        # Since the sums were released, coefficient j of another column has changed by d[j].
        # What that changes in sum i is n * c * r[i, j] * d[j], for n rows, the mean curvature
        # c and the correlation r. Errors e[i, j] of correlations are independent, so that
        # they add the variance (n * c)**2 * sum over j of (e[i, j] * d[j])**2; within a
        # column, there are none.
        changes = fit.past_coefficients - coefficients
        mean_curvature = float(basis.shares @ self._curvatures(basis, fit))
        scale = self.n_rows * mean_curvature
        of_correlations = scale**2 * (self.errors[block] ** 2 @ changes**2)
        return np.asarray(of_bins + np.diag(of_correlations))


def _blocks_of(bases: Sequence[Basis]) -> list[slice]:
    """Return the places of the functions of each column among all."""
    ends = np.cumsum([0, *(basis.functions.shape[1] for basis in bases)])
    return [slice(first, last) for first, last in itertools.pairwise(ends.tolist())]


def all_pairs(bases: Sequence[Basis]) -> list[Pair]:
    """Return all pairs of columns, with their groups."""
    pairs = []
    for first, second in itertools.combinations(range(len(bases)), 2):
        two_groups = bases[first].groups, bases[second].groups
        pairs.append(Pair((first, second), two_groups))
    return pairs


def _alike_columns(correlations: Floats, blocks: Sequence[slice]) -> list[bool]:
    """Return which columns have functions that nearly follow from those of others."""
    values, vectors = np.linalg.eigh(correlations)
    shares = (vectors[:, values < _VARIANCE_OF_ALIKE] ** 2).sum(axis=1)
    return [bool((shares[block] > _SHARE_OF_ALIKE).any()) for block in blocks]


def _positive_definite(
    correlations: Floats, errors: Floats, blocks: Sequence[slice]
) -> Floats:
    """Return correlations near these that some columns can have."""
    # No sum of functions has a variance below that of noise, before those of a column are
    # made an identity again: that lowers it by up to a third.
    values, vectors = np.linalg.eigh(correlations)
    least = _least_variance(correlations, errors)
    covariances = vectors * np.maximum(values, least) @ vectors.T
    # Now variances are above 1, and functions of a column are correlated. The inverse
    # root of the covariances of each column makes them an identity again.
    inverse_roots = np.zeros(covariances.shape)
    for block in blocks:
        column_covariances = covariances[block, block]
        inverse_roots[block, block] = _inverse_root(column_covariances)
    return np.asarray(inverse_roots @ covariances @ inverse_roots)


def _least_variance(correlations: Floats, errors: Floats) -> float:
    """Return about half of the largest variance that the noise of the correlations adds to a sum of functions."""
    # Of a symmetric matrix of independent errors, the largest eigenvalue is about twice
    # the largest norm of a row.
    used: NDArray[np.float64] = np.where(correlations != 0, errors, 0.0)
    noise = math.sqrt((used**2).sum(axis=1).max())
    return float(np.clip(noise, _LEAST_VARIANCE, _MOST_LEAST_VARIANCE))


def _inverse_root(matrix: Floats) -> Floats:
    """Return the symmetric matrix whose square is the inverse of a positive definite one."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors / np.sqrt(values) @ vectors.T)


def _posterior_covariance(slopes: Floats, noise: Floats, prior: Floats) -> Floats:
    """Return the covariance of coefficients with this prior, given ``slopes @ coefficients`` with this noise."""
    explained = prior @ slopes.T
    sums = slopes @ explained + noise
    return np.asarray(prior - explained @ np.linalg.solve(sums, explained.T))
