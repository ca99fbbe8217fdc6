"""Exact sums of columns on a grid between public bounds, and estimates from noisy sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Floats, Indices, Integers, Mask
from skdp.base import parse_bounds, to_float_columns, undeclared_error
from skdp.central.statistics import (
    MAX_NOISY_COUNT,
    Batches,
    Estimate,
    Noise,
    encode_columns,
    join_codes,
    select_columns,
    select_domain,
    to_float,
    warn_user,
)
from skdp.domain import Domain
from skdp.randomness import ByteSource
from skdp.tables import Table

# Steps from the middle between the bounds to either of them: a value moves by at most a
# billionth of the width, and sums over 2**33 rows are integers of 64 bits.
GRID = 1 << 29

# Numbers per block. A block fits in the cache, and float sums of its integers and of
# products of rows are exact (2**(15 + 15 + 16) < 2**53).
BLOCK = 1 << 16

# Fewer rows of wide tables take longer, because each column is sliced.
MIN_ROWS_PER_BLOCK = 256

# The variance of a uniform distribution between the bounds, in squared half widths.
UNIFORM_VARIANCE = 1 / 3


def read_values(table: Table) -> list[Floats]:
    """Convert private columns to floats; Python objects that are not numbers become missing values."""
    # Only an unsuitable dtype raises an error. An error for a text in an object column would
    # reveal that the record exists.
    return to_float_columns(table, allow_missing=True, coerce=True)


def warn_of_objects(table: Table) -> None:
    """Warn of columns of Python objects, in which `read_values` reads objects other than numbers as missing."""
    # The warning depends on the dtype only. The dtype of a list of rows is inferred
    # from its values, so a warning would reveal them.
    if not table.has_dtypes or not isinstance(table.native, pd.DataFrame | np.ndarray):
        return
    names = []
    for name, column in zip(table.names, table.columns, strict=True):
        if column.dtype == object:
            names.append(name)
    if names:
        warn_user(
            f"Columns {names} have dtype object: values that are not numbers are read "
            "as missing, because an error would reveal them. Convert the columns to a "
            "numeric dtype",
            "guide/preprocessing#missing-values",
        )


def to_grid(values: Floats, low: float | Floats, high: float | Floats) -> Floats:
    """Clip values to bounds, and round them to integers from -`GRID` at the lower to `GRID` at the upper bound."""
    positions = np.clip(values, low, high)
    # Rounding of floats is monotone, so the quotient is at most 1 for all bounds.
    positions -= low
    positions /= np.subtract(high, low)
    positions *= 2 * GRID
    np.rint(positions, out=positions)
    positions -= GRID
    return positions


def from_grid(positions: Any, bounds: Floats) -> Any:
    """Convert positions from -1 to 1 to values between bounds: one pair, or one pair per column."""
    low, high = bounds.T
    values = low + (high - low) * ((np.clip(positions, -1, 1) + 1) / 2)
    return np.clip(values, low, high)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Exact sums of columns between bounds, by group of rows; they exist during `fit` only."""

    # A record adds 1 to the number of rows of one group. For each column, it adds 1 to
    # the number of values, its position p from -`GRID` to `GRID` to the sum of
    # positions, and p**2 / `GRID`, rounded, to the sum of squares; a missing value adds
    # nothing to these three. Integer sums do not depend on the order of the rows or on
    # rounding, so the change by one record is exact.

    # The number of rows; shape (n_groups,).
    rows: Integers
    # (n_groups, n_columns) each.
    counts: Integers
    position_sums: Integers
    squares: Integers
    # The number of values that are missing or infinite; shape (n_columns,).
    n_not_finite: Integers
    bounds: Floats
    # Factor of `rows` and `counts` in steps of the grid: 1 for weighted rows.
    count_unit: int = GRID

    @classmethod
    def read(
        cls, sums: Sequence[Integers], bounds: Floats, *, weighted: bool = False
    ) -> GroupSums:
        """Make an object of the result of `sum_groups`."""
        n_not_finite, rows, counts, position_sums, squares = sums
        unit = 1 if weighted else GRID
        return cls(
            rows, counts.T, position_sums.T, squares.T, n_not_finite, bounds, unit
        )

    def check_finite(self, names: Sequence[Any]) -> GroupSums:
        """Raise an error if a column has a missing or infinite value; otherwise return the sums."""
        for name, n_not_finite in zip(names, self.n_not_finite, strict=True):
            if n_not_finite:
                raise ValueError(
                    f"Column {name!r} must not have missing or infinite values. Fill "
                    "them in, or drop these rows, by a public rule."
                )
        return self

    def numbers(self, *, squares: bool, shared_count: bool) -> NDArray[np.object_]:
        """Return the integers that get noise; shape (n_groups, n_numbers).

        They are the number of rows if `shared_count`, otherwise the number of values of each column; the sums of
        positions; and, if `squares`, the sums of squares. One record changes each number of one group by at most
        `GRID`.
        """
        # Squares are from 0 to `GRID`. Twice their distances from `GRID` / 2 are from
        # -`GRID` to `GRID`.
        counts = self.rows[:, np.newaxis] if shared_count else self.counts
        numbers = [counts * self.count_unit, self.position_sums]
        if squares:
            numbers.append(2 * self.squares - self.count_unit * self.counts)
        # Integers of Python do not overflow when noise is added.
        return np.hstack(numbers).astype(object)


def count_noisy_numbers(n_columns: int, *, squares: bool, shared_count: bool) -> int:
    """Return the number of integers of one group in `GroupSums.numbers`."""
    n_counts = 1 if shared_count else n_columns
    n_sums = 2 * n_columns if squares else n_columns
    return n_counts + n_sums


def sum_groups(
    columns: Sequence[Floats],
    bounds: Floats,
    groups: NDArray[Any] | None = None,
    n_groups: int = 1,
    weights: Floats | None = None,
) -> list[Integers]:
    """Compute the exact sums of `GroupSums`.

    Parameters
    ----------
    columns : list of ndarray of shape (n_rows,)
        The numbers of each column.
    bounds : ndarray of shape (n_columns, 2)
        The public bounds.
    groups : ndarray of shape (n_rows,), optional
        The group of each row; rows without a group have the code `n_groups`. By default, all rows are one group.
    n_groups : int, default=1
        The number of groups.
    weights : ndarray of shape (n_rows,), optional
        Weights from 0 to 1. With weights, numbers of rows and values are in steps of the grid.

    Returns
    -------
    list of ndarray
        For each column, the number of values that are not finite; for each group, the number of rows; and for each
        column and group, the number of values, the sum of positions and the sum of squares.
    """
    n_rows = len(columns[0]) if groups is None else len(groups)
    low, high = bounds.T[:, :, np.newaxis]
    n_not_finite = np.zeros(len(columns), np.int64)
    n_rows_by_group = np.zeros((1, n_groups), np.int64)
    sums = np.zeros((3, len(columns), n_groups), np.int64)
    for block in slice_rows(n_rows, len(columns)):
        codes = None if groups is None else groups[block].astype(np.intp)
        units = np.ones((1, len(range(n_rows)[block])))
        if weights is not None:
            units = np.rint(weights[np.newaxis, block] * GRID)
        n_rows_by_group += _sum_by_group(units, codes, n_groups)
        if not columns:
            continue
        # Rows of a matrix are read while they are in the cache.
        values = np.array([column[block] for column in columns])
        n_not_finite += np.count_nonzero(~np.isfinite(values), axis=1)
        positions = to_grid(values, low, high)
        is_missing = np.isnan(positions)
        np.copyto(positions, 0.0, where=is_missing)  # adds nothing
        squares = positions * positions
        squares /= GRID
        np.rint(squares, out=squares)
        n_values = ~is_missing
        if weights is not None:
            n_values = np.where(is_missing, 0.0, units)
            positions = np.rint(positions * weights[block])
            squares = np.rint(squares * weights[block])
        for number, summands in enumerate((n_values, positions, squares)):
            sums[number] += _sum_by_group(summands, codes, n_groups)
    return [n_not_finite, n_rows_by_group[0], *sums]


def read_weights(table: Table, max_weight: float) -> Floats:
    """Return the weights of rows, the last column of a table, divided by the largest weight: numbers from 0 to 1.

    Weights outside of the bounds are clipped, and missing weights are 0.
    """
    (weights,) = read_values(select_columns(table, table.names[-1:]))
    clipped: Floats = np.clip(np.nan_to_num(weights, nan=0.0), 0.0, max_weight)
    return clipped / max_weight


def slice_rows(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Divide rows into blocks whose numbers fit into the cache."""
    step = max(MIN_ROWS_PER_BLOCK, BLOCK // max(n_columns, 1))
    return (slice(start, start + step) for start in range(0, n_rows, step))


def _sum_by_group(
    numbers: NDArray[Any], groups: Indices | None, n_groups: int
) -> Integers:
    """Sum the integers of each column, of shape (n_columns, n_rows), by group; rows without a group add nothing."""
    if groups is None:
        return numbers.sum(axis=1, keepdims=True).astype(np.int64)
    sums = [np.bincount(groups, column, n_groups + 1) for column in numbers]
    return np.array(sums)[:, :n_groups].astype(np.int64)


def sum_grouped(
    sums: Integers, n_rows: Integers, codes: NDArray[Any], n_groups: int
) -> list[Integers]:
    """Return the result of `sum_groups` from sums of a database, see `LargeTable.group_rows`.

    `codes` has the group of each of its groups.
    """
    by_group = np.zeros((*sums.shape[:2], n_groups + 1), np.int64)
    for total, part in zip(chain(*by_group), chain(*sums), strict=True):
        np.add.at(total, codes, part)
    rows_by_group = np.zeros(n_groups + 1, np.int64)
    np.add.at(rows_by_group, codes, n_rows)
    _, *by_number = by_group[:, :, :n_groups]
    return [sums[0].sum(axis=-1), rows_by_group[:n_groups], *by_number]


def sum_columns(
    rows: Batches,
    bounds: Any,
    *,
    missing: bool = True,
    max_weight: float | None = None,
) -> GroupSums:
    """Sum the columns of a private table between declared bounds, as one group.

    The sums are exact integers, to which the caller adds noise. Missing and infinite values are excluded and counted;
    if `missing` is False, they raise an error. Columns of Python objects cause a warning, because objects other than
    numbers are read as missing.
    """
    names = rows.names if max_weight is None else rows.names[:-1]
    bounds = parse_bounds(bounds, names)
    if missing:
        warn_of_objects(select_columns(rows.table, names))
    sum_table = partial(
        _sum_table, bounds=bounds, missing=missing, max_weight=max_weight
    )
    groups = None
    if max_weight is None:
        numbers = dict(zip(names, bounds.tolist(), strict=True))
        groups = rows.group(Domain({}), numbers, GRID)
    if groups is None:
        sums = rows.add_up(sum_table)
    else:
        _, n_rows, summed = groups
        sums = sum_grouped(summed, n_rows, np.zeros(len(n_rows), np.intp), 1)
    group_sums = GroupSums.read(sums, bounds, weighted=max_weight is not None)
    return group_sums if missing else group_sums.check_finite(names)


def _sum_table(
    table: Table, *, bounds: Floats, missing: bool, max_weight: float | None
) -> list[Integers]:
    """Sum the columns of one batch of rows, as one group; with weights, they are the last column."""
    columns = read_values(table) if missing else to_float_columns(table)
    weights = None if max_weight is None else read_weights(table, max_weight)
    return sum_groups(columns[: len(bounds)], bounds, weights=weights)


@dataclass(frozen=True, eq=False)
class NoisySums:
    """Noisy sums of groups as floats, in steps of the grid: arrays (n_groups, n_columns)."""

    counts: Floats
    position_sums: Floats
    # Sums of squares, see `GroupSums.numbers`; an empty array if they are not measured.
    squares: Floats

    @classmethod
    def draw(
        cls,
        sums: GroupSums,
        noise: Noise,
        source: ByteSource,
        *,
        squares: bool = False,
        shared_count: bool = False,
    ) -> NoisySums:
        """Add noise to the numbers of `GroupSums.numbers`, which has the parameters `squares` and `shared_count`."""
        # One record changes each number of one group by at most `GRID`. So noise of the
        # density ``e**(-epsilon max|z| / GRID)`` gives epsilon-differential privacy for
        # all columns together: the K-norm mechanism of the maximum norm. In L2 norm, the
        # D numbers of a group change by at most ``sqrt(D) * GRID``, the sensitivity for
        # Gaussian noise. Each group gets the whole epsilon, because a record is in one
        # group only.
        exact = sums.numbers(squares=squares, shared_count=shared_count)
        noisy = clip_floats(exact + noise.draw_each(source, *exact.shape))
        n_counts = 1 if shared_count else len(sums.bounds)
        return cls.of(noisy, n_counts, squares=squares)

    @classmethod
    def of(cls, numbers: Floats, n_counts: int, *, squares: bool) -> NoisySums:
        """Split noisy `GroupSums.numbers` into `n_counts` counts, sums, and sums of squares."""
        counts, sums = numbers[:, :n_counts], numbers[:, n_counts:]
        n_columns = sums.shape[1] // (2 if squares else 1)
        return cls(counts, sums[:, :n_columns], sums[:, n_columns:])


def clip_floats(numbers: NDArray[Any]) -> Floats:
    """Convert noisy integers to floats, within a limit."""
    # With a tiny epsilon, noise exceeds the largest float.
    # NumPy 2.0 does not compare 64-bit integers with a larger limit.
    limit = MAX_NOISY_COUNT**2
    return np.clip(numbers.astype(object), -limit, limit).astype(float)


class Moments(NamedTuple):
    """Noisy means and variances, in half widths of the bounds from their middle, and standard errors."""

    # An error is at most the half width, or its square for a variance. A variance is at
    # least its error; where the error is too large, it is the variance of a uniform
    # distribution.

    mean: Floats
    mean_error: Floats
    variance: Floats
    variance_error: Floats

    @property
    def is_noise(self) -> Mask:
        """True where the error of the variance is at least the variance of a uniform distribution."""
        return self.variance_error >= UNIFORM_VARIANCE


def estimate_moments(noisy: NoisySums, noise_error: Fraction) -> Moments:
    """Estimate means and variances from noisy sums, whose standard error is `noise_error`; shape (n_groups, n_columns).

    Means are positions from -1 to 1 between the bounds, and variances are in squared half widths of the bounds.
    """
    is_counted = noisy.counts > 0
    counts = np.where(is_counted, noisy.counts, 1.0)
    # Quotients are clipped to their range without noise.
    mean = np.where(is_counted, np.clip(noisy.position_sums / counts, -1, 1), 0.0)
    error = to_float(noise_error)
    relative_error = np.where(is_counted, np.minimum(error / counts, 1.0), 1.0)
    # The quotient m = s / n of two numbers with the noise e has the error
    # (e / n) sqrt(1 + m**2).
    mean_error = np.minimum(relative_error * np.hypot(1, mean), 1.0)
    squares = (np.clip(noisy.squares / counts, -1, 1) + 1) / 2
    noisy_variance = np.maximum(squares - mean**2, 0)
    # The variance is v = (q / n + 1) / 2 - m**2 with the noisy sum q. Its derivatives
    # with respect to q, s and n, times n, are 1 / 2, -2 m and m**2 - v + 1 / 2.
    # Positions are rounded by up to half a step.
    slopes = np.sqrt(0.25 + (2 * mean) ** 2 + (mean**2 - noisy_variance + 0.5) ** 2)
    variance_error = np.minimum(relative_error * slopes + 1 / GRID, 1.0)
    variance_error = np.where(is_counted, variance_error, 1.0)
    # A variance below its standard error cannot be measured. If this error exceeds the
    # variance of a uniform distribution, the latter is used.
    is_known = variance_error < UNIFORM_VARIANCE
    variance = np.where(
        is_known, np.maximum(noisy_variance, variance_error), UNIFORM_VARIANCE
    )
    return Moments(mean, mean_error, variance, variance_error)


def is_measured(
    noisy: NoisySums, noise: Noise, level: float, n_cells: Floats | float = 1.0
) -> Mask:
    """Return True where the number of values exceeds the margin of its noise: arrays (n_groups, n_columns)."""
    margin = to_float(noise.margin_of_error(level)) * np.sqrt(n_cells)
    return noisy.counts > margin


def estimate_means(
    noisy: NoisySums,
    bounds: Floats,
    noise: Noise,
    level: float,
    n_cells: Floats | float = 1.0,
) -> Estimate:
    """Estimate means between bounds with Fieller's intervals of a quotient ([1]_): arrays (n_groups, n_columns).

    `noise` is the noise of each sum and count, and `level` the confidence level of the intervals. A group may be the
    sum of several noisy cells; the shape of `n_cells` is (n_groups, 1).
    """
    # A mean x is in the interval if s - x n is within the margin of its noise, which is
    # the margin of one number times sqrt(1 + x**2). With r the margin divided by n, the
    # bounds solve (mean - x)**2 = r**2 (1 + x**2), a quadratic equation:
    #     x = (mean -+ r sqrt(1 - r**2 + mean**2)) / (1 - r**2).
    # .. [1] E. C. Fieller (1954). Some problems in interval estimation. JRSS B 16.
    is_counted = noisy.counts > 0
    counts = np.where(is_counted, noisy.counts, 1.0)
    mean = np.where(is_counted, noisy.position_sums / counts, 0.0)
    mean = np.clip(mean, -MAX_NOISY_COUNT, MAX_NOISY_COUNT)
    noise_error = to_float(noise.std) * np.sqrt(n_cells)
    error = np.where(is_counted, noise_error / counts * np.hypot(1, mean), 1.0)
    margin = to_float(noise.margin_of_error(level)) * np.sqrt(n_cells) / counts
    is_known = is_counted & (margin < 1)
    margin = np.where(is_known, margin, 0.0)
    root = np.sqrt(margin**2 * (1 - margin**2) + (margin * mean) ** 2)
    lower = np.where(is_known, (mean - root) / (1 - margin**2), -np.inf)
    upper = np.where(is_known, (mean + root) / (1 - margin**2), np.inf)
    return Estimate(
        from_grid(mean, bounds),
        np.minimum(error, 1) / 2 * (bounds[:, 1] - bounds[:, 0]),
        from_grid(lower, bounds),
        from_grid(upper, bounds),
    )


def estimate_variances(
    noisy: NoisySums,
    bounds: Floats,
    noise: Noise,
    level: float,
    n_cells: Floats | float = 1.0,
) -> Estimate:
    """Estimate variances of values between bounds with intervals: arrays (n_groups, n_columns); see `estimate_means`.

    The sum of squares is divided by the number of values.
    """
    # With the noisy mean m, the sum T = sum of (p - m)**2 - v over the positions p is linear in
    # the noisy numbers, and its noise is the noise of one number times sqrt(a + (c - v)**2)
    # with a = 1/4 + 4 m**2 and c = 1/2 + m**2. A variance v is in the interval if T is within
    # this margin. With r the margin of one number divided by n, and the estimate w, the bounds solve
    #     (w - v)**2 = r**2 (a + (c - v)**2).
    # T exceeds the sum around the mean of the values by n times the square of the error of m.
    is_counted = noisy.counts > 0
    counts = np.where(is_counted, noisy.counts, 1.0)
    mean = np.where(is_counted, np.clip(noisy.position_sums / counts, -1, 1), 0.0)
    estimate = np.clip((noisy.squares / counts + 1) / 2 - mean**2, 0, 1)
    a, c = 0.25 + 4 * mean**2, 0.5 + mean**2
    spread = np.sqrt(n_cells) / counts
    error = to_float(noise.std) * spread * np.sqrt(a + (c - estimate) ** 2)
    margin = to_float(noise.margin_of_error(level)) * spread
    is_known = is_counted & (margin < 1)
    margin = np.where(is_known, margin, 0.0)
    rest = 1 - margin**2
    root = margin * np.sqrt((c - estimate) ** 2 + a * rest)
    middle = estimate - margin**2 * c
    lower = (middle - root) / rest - margin**2 * (1 + mean**2) / rest
    half = (bounds[:, 1] - bounds[:, 0]) / 2
    return Estimate(
        half**2 * estimate,
        half**2 * np.minimum(error, 1),
        half**2 * np.where(is_known, np.clip(lower, 0, 1), 0.0),
        half**2 * np.where(is_known, np.clip((middle + root) / rest, 0, 1), 1.0),
    )


def estimate_deviations(
    noisy: NoisySums,
    bounds: Floats,
    noise: Noise,
    level: float,
    n_cells: Floats | float = 1.0,
) -> Estimate:
    """Estimate standard deviations with intervals: arrays (n_groups, n_columns); see `estimate_variances`."""
    variance = estimate_variances(noisy, bounds, noise, level, n_cells)
    half = (bounds[:, 1] - bounds[:, 0]) / 2
    # The error of a variance v is 2 sqrt(v) times the error of its root; it is at most
    # the half width.
    root = np.sqrt(np.maximum(variance.value, variance.std_error))
    return Estimate(
        np.sqrt(variance.value),
        np.minimum(variance.std_error / (2 * root), half),
        np.sqrt(variance.lower),
        np.sqrt(variance.upper),
    )


def estimate_sums(
    noisy: NoisySums,
    bounds: Floats,
    noise: Noise,
    level: float,
    n_cells: Floats | float = 1.0,
) -> Estimate:
    """Estimate sums of values with confidence intervals: arrays (n_groups, n_columns); see `estimate_means`."""
    # A value is middle + half * position, so a sum is half * positions + middle * count.
    half = (bounds[:, 1] - bounds[:, 0]) / 2 / GRID
    middle = (bounds[:, 0] + bounds[:, 1]) / 2 / GRID
    norm = np.hypot(half, middle) * np.sqrt(n_cells)
    value = half * noisy.position_sums + middle * noisy.counts
    error = np.broadcast_to(norm * to_float(noise.std), value.shape)
    margin = norm * to_float(noise.margin_of_error(level))
    return Estimate(value, error, value - margin, value + margin)


def shrink_shifts(
    counts: Floats,
    excesses: Floats,
    *,
    row_variance: float,
    noise_variance: float,
    count_variance: float,
) -> Floats:
    """Estimate the difference of the mean of each group from the overall mean, shrunk toward 0 (empirical Bayes).

    Parameters
    ----------
    counts : ndarray of shape (n_groups,)
        Noisy number of rows of each group.
    excesses : ndarray of shape (n_groups,)
        Noisy sum over the rows of each group, minus the overall mean times the count.
    row_variance, noise_variance, count_variance : float
        Variances of the value of a row, of the noise of an excess, and of the noise of a count.
    """
    # B. Efron, C. Morris (1973). Stein's estimation rule and its competitors. JASA 68.
    # A group of n rows with the difference d has an excess with the mean d n and the
    # variance row_variance n + noise_variance. The variance of d over groups is estimated
    # from the squares of the excesses, and the best linear estimate of d is
    #     variance_of_d n excess / (variance_of_d n**2 + row_variance n + noise_variance).
    n = np.maximum(counts, 0)
    n_squares = max((counts**2 - count_variance).sum(), 1.0)
    explained = (excesses**2 - noise_variance - row_variance * n).sum()
    shift_variance = float(np.clip(explained / n_squares, 0, 1))
    variance = shift_variance * n**2 + row_variance * n + noise_variance
    shifts = np.zeros(n.shape)
    covariance = shift_variance * n * excesses
    np.divide(covariance, variance, out=shifts, where=variance > 0)
    return shifts


def sum_by_cells(
    rows: Batches,
    domain: Domain,
    cliques: Sequence[Sequence[int]],
    bounds: Floats,
    handle_unknown: str,
    name: str,
    *,
    missing: bool = False,
    max_weight: float | None = None,
) -> list[GroupSums]:
    """Sum the numbers of a table by the cells of marginals of its keys.

    Parameters
    ----------
    rows : Batches
        The private rows: the columns of `domain`, and then columns of numbers.
    domain : Domain
        The keys.
    cliques : list of list of int
        Indices of the keys of each marginal; an empty one stands for all rows.
    bounds : ndarray of shape (n_numbers, 2)
        Public bounds of the numbers.
    handle_unknown : {"error", "ignore"}
        Whether undeclared keys raise an error; otherwise their rows are excluded.
    name : str
        Name of the parameter that declares the domain, for this error.
    missing : bool, default=False
        If True, Python objects that are not numbers count as missing.
    max_weight : float, optional
        The largest weight of a row. With it, the last column contains the weights.
    """
    sums_of = partial(
        _sum_table_by_cells,
        domain=domain,
        cliques=cliques,
        bounds=bounds,
        handle_unknown=handle_unknown,
        missing=missing,
        max_weight=max_weight,
    )
    groups = None
    if max_weight is None:
        names = rows.names[len(domain.columns) :]
        numbers = dict(zip(names, bounds.tolist(), strict=True))
        groups = rows.group(domain, numbers, GRID)
    if groups is None:
        has_undeclared, *sums = rows.add_up(sums_of)
    else:
        table, n_rows, summed = groups
        codes, undeclared = encode_columns(table, domain, handle_unknown)
        has_undeclared = np.array([name in undeclared for name in domain.columns])
        sums = []
        for clique in cliques:
            keys = select_domain(domain, clique)
            cells = np.zeros(len(n_rows), np.int64)
            if clique:
                cells = join_codes(keys, [codes[column] for column in clique])
            sums += sum_grouped(summed, n_rows, cells, keys.size if clique else 1)
    for column, n in zip(domain.columns, has_undeclared, strict=True):
        if n:
            raise undeclared_error(
                column,
                rows.table.columns,
                domain,
                where=f"declared {name}",
            )
    # The same number of arrays for each marginal.
    size = len(sums) // len(cliques)
    marginals = []
    for start in range(0, len(sums), size):
        part = sums[start : start + size]
        marginals.append(GroupSums.read(part, bounds, weighted=max_weight is not None))
    return marginals


def _sum_table_by_cells(
    table: Table,
    *,
    domain: Domain,
    cliques: Sequence[Sequence[int]],
    bounds: Floats,
    handle_unknown: str,
    missing: bool,
    max_weight: float | None,
) -> list[Integers]:
    """Return an indicator of each key with undeclared values that are errors, and the sums of each marginal.

    The first columns of `table` are the keys of `domain`, followed by the numbers of `bounds`. A clique has the indices
    of the keys of a marginal; the empty one stands for all rows.
    """
    n_keys = len(domain.columns)
    keys = select_columns(table, table.names[:n_keys])
    numbers = select_columns(table, table.names[n_keys : n_keys + len(bounds)])
    weights = None if max_weight is None else read_weights(table, max_weight)
    codes, undeclared = encode_columns(keys, domain, handle_unknown)
    values = (
        read_values(numbers)
        if missing
        else to_float_columns(numbers, allow_missing=True)
    )
    sums = [np.array([column in undeclared for column in domain.columns], np.int64)]
    for clique in cliques:
        if clique:
            keys_of_marginal = select_domain(domain, clique)
            groups = join_codes(keys_of_marginal, [codes[c] for c in clique])
            sums += sum_groups(values, bounds, groups, keys_of_marginal.size, weights)
        else:
            # Without values, an array of zeros provides the number of rows.
            zeros = np.zeros(len(table.columns[0]), np.int64)
            sums += sum_groups(
                values, bounds, None if values else zeros, weights=weights
            )
    return sums
