"""Exact sums of columns on a grid between public bounds, and estimates from noisy sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Floats, Indices, Integers, Mask
from skdp.base import ErrorDistribution, Estimate, to_float_columns
from skdp.central.statistics import (
    MAX_NOISY_COUNT,
    Batches,
    Noise,
    encode_columns,
    join_codes,
    make_undeclared_error,
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

# The variance of a uniform distribution between the bounds, in squared half widths.
UNIFORM_VARIANCE = 1 / 3


def read_values(table: Table) -> list[Floats]:
    """Convert private columns to floats, (n_rows,); Python objects that are not numbers become missing values."""
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
        # Text has dtype object before pandas 3, also in a category.
        if getattr(column.dtype, "categories", column).dtype == object:
            names.append(name)
    if names:
        warn_user(
            f"Columns {names} have dtype object, or categories of it: values that are not "
            "numbers, or not times with bounds of times, are read as missing, because an error would "
            "reveal them. Convert numbers to a numeric dtype, and dates by pd.to_datetime",
            "guide/preprocessing",
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


def from_grid(positions: float | Floats, bounds: Floats) -> Any:
    """Convert positions from -1 to 1 to values between bounds: one pair, or one pair per column."""
    low, high = bounds.T
    values = low + (high - low) * ((np.clip(positions, -1, 1) + 1) / 2)
    return np.clip(values, low, high)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Exact sums of columns between bounds, by group of rows; they exist during `fit` only."""

    # A record adds `GRID` to the number of rows of one group. For each column, it adds
    # `GRID` to the number of values, its position p from -`GRID` to `GRID` to the sum of
    # positions, and p**2 / `GRID`, rounded, to the sum of squares; a missing value adds
    # nothing to these three. With a weight, it adds this fraction of them. Integer sums do
    # not depend on the order of the rows or on rounding, so the change by one record is
    # exact.

    # The number of values that are missing or infinite; shape (n_columns,).
    n_not_finite: Integers
    # The number of rows; shape (n_groups,).
    rows: Integers
    # (n_groups, n_columns) each.
    counts: Integers
    position_sums: Integers
    squares: Integers
    bounds: Floats

    @classmethod
    def read(cls, sums: Sequence[Integers], bounds: Floats) -> GroupSums:
        """Make an object of the result of `sum_groups`; `bounds` have the shape (n_columns, 2)."""
        n_not_finite, rows, counts, position_sums, squares = sums
        return cls(n_not_finite, rows, counts.T, position_sums.T, squares.T, bounds)

    def check_finite(self, names: Sequence[Any]) -> GroupSums:
        """Raise an error if a column has a missing or infinite value; otherwise return the sums."""
        for name, n_not_finite in zip(names, self.n_not_finite, strict=True):
            if n_not_finite:
                raise ValueError(
                    f"Column {name!r} must not have missing or infinite values. Fill "
                    "them in, or drop these rows, by a public rule."
                )
        return self

    def numbers(
        self, *, squares: bool = False, shared_count: bool = False
    ) -> NDArray[np.object_]:
        """Return the integers that get noise; shape (n_groups, n_numbers).

        They are the number of rows if `shared_count`, otherwise the number of values of each column; the sums of
        positions; and, if `squares`, the sums of squares. One record changes each number of one group by at most
        `GRID`.
        """
        # Squares are from 0 to `GRID`. Twice their distances from `GRID` / 2 are from
        # -`GRID` to `GRID`.
        counts = self.rows[:, np.newaxis] if shared_count else self.counts
        numbers = [counts, self.position_sums]
        if squares:
            numbers.append(2 * self.squares - self.counts)
        # Integers of Python do not overflow when noise is added.
        return np.hstack(numbers).astype(object)


def sum_groups(
    columns: Sequence[Floats],
    bounds: Floats,
    groups: NDArray[Any] | None,
    n_groups: int,
    weights: Floats | None,
    *,
    squares: bool = True,
) -> list[Integers]:
    """Compute the exact sums of `GroupSums`.

    Parameters
    ----------
    columns : list of ndarray of shape (n_rows,)
        The numbers of each column.
    bounds : ndarray of shape (n_columns, 2)
        The public bounds.
    groups : ndarray of shape (n_rows,) or None
        The group of each row; rows without a group have the code `n_groups`. None if all rows are one group.
    n_groups : int
        The number of groups.
    weights : ndarray of shape (n_rows,) or None
        Weights from 0 to 1.
    squares : bool, default=True
        If False, the sums of squares are 0.

    Returns
    -------
    list of ndarray
        For each column, the number of values that are not finite; for each group, `GRID` times the number of rows; and
        for each column and group, `GRID` times the number of values, the sum of positions, and the sum of squares of
        positions divided by `GRID`.
    """
    n_rows = len(columns[0]) if groups is None else len(groups)
    low, high = bounds.T[:, :, np.newaxis]
    n_not_finite = np.zeros(len(columns), np.int64)
    n_rows_by_group = np.zeros((1, n_groups), np.int64)
    sums = np.zeros((3, len(columns), n_groups), np.int64)
    for block in slice_rows(n_rows, len(columns)):
        codes = None if groups is None else groups[block].astype(np.intp)
        if weights is not None:
            units = np.rint(weights[np.newaxis, block] * GRID)
            units_by_group = _sum_by_group(units, codes, n_groups)
        elif codes is None:
            units_by_group = np.array([[GRID * len(range(n_rows)[block])]])
        else:
            units_by_group = GRID * np.bincount(codes, minlength=n_groups + 1)[:-1]
        n_rows_by_group += units_by_group
        if not columns:
            continue
        # Rows of a matrix are read while they are in the cache.
        values = np.array([column[block] for column in columns])
        n_not_finite += np.count_nonzero(~np.isfinite(values), axis=1)
        positions = to_grid(values, low, high)
        is_missing = np.isnan(positions)
        if is_missing.any():
            np.copyto(positions, 0.0, where=is_missing)  # adds nothing
            n_values = np.where(is_missing, 0.0, GRID if weights is None else units)
            sums[0] += _sum_by_group(n_values, codes, n_groups)
        else:
            sums[0] += units_by_group
        summed = [positions]
        if squares:
            summed.append(np.rint(positions * positions / GRID))
        for number, summands in enumerate(summed, 1):
            if weights is not None:
                summands = np.rint(summands * weights[block])
            sums[number] += _sum_by_group(summands, codes, n_groups)
    return [n_not_finite, n_rows_by_group[0], *sums]


def read_weights(table: Table, max_weight: float) -> Floats:
    """Return the weights of rows, the last column of a table, divided by the largest weight: numbers from 0 to 1.

    Larger weights are clipped, missing weights are 0, and an error reveals that a weight is negative.
    """
    (weights,) = read_values(select_columns(table, table.names[-1:]))
    if (weights < 0).any():
        raise ValueError(
            "`sample_weight` must be >= 0, got a negative weight. Set negative weights "
            "to 0, which excludes their rows."
        )
    clipped: Floats = np.clip(np.nan_to_num(weights, nan=0.0), 0.0, max_weight)
    return clipped / max_weight


# The float sums of the integers of this many numbers, and of products of rows, are exact
# (2**(15 + 15 + 17) < 2**53), and the numbers fit into the cache.
MAX_BLOCK_NUMBERS = 1 << 17


def slice_rows(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Divide rows into blocks whose numbers fit into the cache."""
    step = max(MAX_BLOCK_NUMBERS // max(n_columns, 1), 1)
    return (slice(start, start + step) for start in range(0, n_rows, step))


def _sum_by_group(
    numbers: NDArray[Any], groups: Indices | None, n_groups: int
) -> Integers:
    """Sum the integers of each column, of shape (n_columns, n_rows), by group; rows without a group add nothing."""
    if groups is None:
        return numbers.sum(axis=1, keepdims=True).astype(np.int64)
    sums = [np.bincount(groups, column, n_groups + 1) for column in numbers]
    return np.array(sums)[:, :n_groups].astype(np.int64)


def sum_columns(
    rows: Batches,
    bounds: Floats,
    *,
    missing: bool = True,
    max_weight: float | None = None,
    squares: bool = True,
) -> GroupSums:
    """Sum the columns of a private table between declared bounds, as one group.

    The sums are exact integers, to which the caller adds noise. Missing and infinite values are excluded and counted;
    if `missing` is False, they raise an error. Columns of Python objects cause a warning, because objects other than
    numbers are read as missing.
    """
    names = rows.names if max_weight is None else rows.names[:-1]
    if missing:
        warn_of_objects(select_columns(rows.table, names))
    (sums,) = sum_by_cells(
        rows,
        Domain({}),
        [()],
        bounds,
        "ignore",
        missing=missing,
        max_weight=max_weight,
        squares=squares,
    )
    return sums if missing else sums.check_finite(names)


@dataclass(frozen=True, eq=False)
class NoisySums:
    """Noisy sums of groups as floats, in steps of the grid, and estimates: arrays (n_groups, n_columns)."""

    # The counts have one column, which is the number of rows, or one for each column.
    counts: Floats
    position_sums: Floats
    # Sums of squares, see `GroupSums.numbers`; an empty array if they are not measured.
    squares: Floats
    bounds: Floats
    # The noise of each number of a cell.
    noise: Noise
    # The number of cells in each group; shape (n_groups, 1).
    n_cells: Floats | float = 1.0
    # The number of rows, or the sum of weights, in a step.
    unit: float = 1 / GRID

    @classmethod
    def draw(
        cls, numbers: NDArray[Any], bounds: Floats, noise: Noise, source: ByteSource
    ) -> NoisySums:
        """Add noise to `GroupSums.numbers`, of shape (n_groups, n_numbers)."""
        # One record changes each number of one group by at most `GRID`. So noise of the
        # density ``e**(-epsilon max|z| / GRID)`` gives epsilon-differential privacy for
        # all columns together: the K-norm mechanism of the maximum norm. In L2 norm, the
        # D numbers of a group change by at most ``sqrt(D) * GRID``, the sensitivity for
        # Gaussian noise. Each group gets the whole epsilon, because a record is in one
        # group only.
        return cls.of(noise.add_by_group(source, numbers), bounds, noise)

    @classmethod
    def of(
        cls, numbers: Floats, bounds: Floats, noise: Noise, **more: Any
    ) -> NoisySums:
        """Split noisy `GroupSums.numbers`, (n_groups, n_numbers), into counts, sums and squares, with `more` fields."""
        size, n_columns = numbers.shape[1], len(bounds)
        n_counts = size - n_columns * (2 if size > 2 * n_columns else 1)
        stops = [n_counts, n_counts + n_columns]
        counts, position_sums, squares = np.split(numbers, stops, axis=1)
        return cls(counts, position_sums, squares, bounds, noise, **more)

    @property
    def _half_widths(self) -> Floats:
        """Half of the widths of the bounds; (n_columns,)."""
        return (self.bounds[:, 1] - self.bounds[:, 0]) / 2

    def _divide(self, sums: Floats, limit: float) -> Floats:
        """Return the quotients of sums and counts, (n_groups, n_columns), within a limit, and 0 without values."""
        quotients = np.clip(sums / np.maximum(self.counts, 1.0), -limit, limit)
        return np.where(self.counts > 0, quotients, 0.0)

    def _divide_noise(self, number: Fraction) -> Floats:
        """Scale the standard deviation or margin of the noise of a cell to its group, and divide it by the counts."""
        noise = to_float(number) * np.sqrt(self.n_cells)
        return np.where(self.counts > 0, noise / np.maximum(self.counts, 1.0), np.inf)

    def is_measured(self, level: float) -> Mask:
        """Return True where the number of values exceeds the margin of its noise; (n_groups, n_columns or 1)."""
        return self._find_margin(level) < 1

    def _find_errors(
        self, quotients: Floats, spread: float | Floats, center: float | Floats
    ) -> Floats:
        """Return the standard error of each quotient, at most 1; `find_ratios_within` describes the parameters."""
        noise = self._divide_noise(self.noise.std)
        return np.minimum(noise * np.sqrt(spread + (center - quotients) ** 2), 1.0)

    def _find_margin(self, level: float) -> Floats:
        """Return the margin of error of a noisy number, divided by the counts; infinite without values."""
        return self._divide_noise(self.noise.margin_of_error(level))

    def estimate_means(self, level: float) -> Estimate:
        """Estimate means with intervals of a confidence level."""
        mean = self._divide(self.position_sums, MAX_NOISY_COUNT)
        errors = self._find_errors(mean, 1.0, 0.0)
        lower, upper = find_ratios_within(mean, self._find_margin(level), 1.0)
        return Estimate(
            from_grid(mean, self.bounds),
            errors * self._half_widths,
            from_grid(lower, self.bounds),
            from_grid(upper, self.bounds),
        )

    def _find_variances(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return means and variances in half widths, and spread and center of their noise; (n_groups, n_columns)."""
        # With the noisy mean m, the sum T = sum of (p - m)**2 - v over the positions p is linear in
        # the noisy numbers, and its noise is the noise of one number times
        # sqrt(spread + (center - v)**2), see `find_ratios_within`.
        mean = self._divide(self.position_sums, 1.0)
        squares = (self._divide(self.squares, 1.0) + 1) / 2
        return mean, np.maximum(squares - mean**2, 0), 0.25 + 4 * mean**2, 0.5 + mean**2

    def estimate_variances(self, level: float) -> Estimate:
        """Estimate variances, the sum of squares divided by the number of values, with intervals."""
        mean, variance, spread, center = self._find_variances()
        errors = self._find_errors(variance, spread, center)
        # T exceeds the sum around the mean of the values by n times the square of the error
        # of m, at most the square of the margin times 1 + m**2.
        margin, slack = self._find_margin(level), 1 + mean**2
        lower, upper = find_ratios_within(variance, margin, spread, center, slack)
        parts = variance, errors, np.clip(lower, 0, 1), np.clip(upper, 0, 1)
        return Estimate(*(self._half_widths**2 * part for part in parts))

    def estimate_deviations(self, level: float) -> Estimate:
        """Estimate standard deviations with intervals."""
        value, error, lower, upper = self.estimate_variances(level)
        # The error of a variance v is 2 sqrt(v) times the error of its root; it is at most
        # the half width.
        root = np.sqrt(np.maximum(value, error))
        errors = np.minimum(error / (2 * root), self._half_widths)
        return Estimate(np.sqrt(value), errors, np.sqrt(lower), np.sqrt(upper))

    def estimate_sums(self, level: float) -> Estimate:
        """Estimate sums of values with intervals."""
        # A value is middle + half * position, so a sum is half * positions + middle * count.
        half = self._half_widths * self.unit
        middle = self.bounds.mean(axis=1) * self.unit
        norm = np.hypot(half, middle) * np.sqrt(self.n_cells)
        value = half * self.position_sums + middle * self.counts
        error = np.broadcast_to(norm * to_float(self.noise.std), value.shape)
        margin = norm * to_float(self.noise.margin_of_error(level))
        return Estimate(value, error, value - margin, value + margin)

    def bound_variances(self, level: float) -> Floats:
        """Return variances plus their standard errors; without squares, the largest ones of values with these means."""
        if self.squares.size:
            value, error, *_ = self.estimate_variances(level)
            return value + error
        value, error, *_ = self.estimate_means(level)
        distance = np.abs(value - self.bounds.mean(axis=1)) - error
        distance = np.maximum(distance, 0)
        # Bounds of 1e154 and more have no finite squares.
        with np.errstate(over="ignore"):
            return (self._half_widths - distance) * (self._half_widths + distance)

    def estimate_moments(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Estimate means from -1 to 1 between the bounds, and variances in squared half widths of the bounds.

        Returns the means, their standard errors, the variances and their standard errors, by
        group and column. An error is at most the half width, or its square for a variance. A
        variance is at least its error; where the error is at least `UNIFORM_VARIANCE`, it is
        this variance of a uniform distribution.
        """
        mean, noisy_variance, spread, center = self._find_variances()
        # Positions are rounded by up to half a step.
        errors = self._find_errors(noisy_variance, spread, center)
        variance_error = np.minimum(errors + 1 / GRID, 1.0)
        # A variance below its standard error cannot be measured. If this error exceeds the
        # variance of a uniform distribution, the latter is used.
        is_known = variance_error < UNIFORM_VARIANCE
        variance = np.where(
            is_known, np.maximum(noisy_variance, variance_error), UNIFORM_VARIANCE
        )
        return mean, self._find_errors(mean, 1.0, 0.0), variance, variance_error


def find_ratios_within(
    quotients: Floats,
    margin: float | Floats,
    spread: float | Floats,
    center: float | Floats = 0.0,
    slack: float | Floats = 0.0,
) -> tuple[Floats, Floats]:
    """Return Fieller's intervals of quotients of a noisy numerator and denominator ([1]_).

    `margin` is the margin of error of the denominator divided by the denominator. The noise of the numerator minus x
    times the denominator is sqrt(spread + (center - x)**2) times the noise of the denominator. `slack` times the square
    of the margin extends the interval downward.
    """
    # A number x is in the interval if the noisy numerator minus x times the noisy denominator
    # is within the margin of its noise. With the quotient q and the margin r, the bounds solve
    # (q - x)**2 = r**2 (spread + (center - x)**2), a quadratic equation.
    # .. [1] E. C. Fieller (1954). Some problems in interval estimation. JRSS B 16.
    is_known = margin < 1
    margin = np.where(is_known, margin, 0.0)
    rest = 1 - margin**2
    root = margin * np.sqrt(spread * rest + (center - quotients) ** 2)
    middle = quotients - margin**2 * center
    lower = np.where(is_known, (middle - root - margin**2 * slack) / rest, -np.inf)
    return lower, np.where(is_known, (middle + root) / rest, np.inf)


def list_unknown_deviations(names: Sequence[Any], bounds: Floats) -> list[Any]:
    """Return the columns whose deviation does not follow from their mean: all except proportions, between 0 and 1."""
    pairs = zip(names, bounds, strict=False)
    return [name for name, (low, high) in pairs if (low, high) != (0, 1)]


def add_sampling(
    estimate: Estimate, errors: Floats, degrees: Floats, level: float
) -> Estimate:
    """Add sampling errors to estimates; nan stays nan. The first axis of errors may have those below and above."""
    margins = ErrorDistribution(degrees).quantile(level) * errors
    widened = estimate.add_error(np.atleast_2d(errors)[0], margins)
    pairs = zip(estimate, widened, strict=True)
    return Estimate(*(np.where(np.isnan(estimate.value), *pair) for pair in pairs))


def add_bias(
    estimates: dict[str, Estimate], counts: Floats, excesses: Floats, n_rows: Floats
) -> None:
    """Widen intervals of means and sums of groups by the expected bias of limits, which is equal in all groups.

    `counts` are the numbers of values, (n_groups, n_columns), and `excesses` the expected sums beyond the lower and the
    upper limits, (2, n_columns), of all `n_rows` rows.
    """
    down, up = excesses / np.maximum(n_rows, 1.0)
    for name, weights in (("mean", 1.0), ("sum", np.maximum(counts, 0))):
        if name in estimates:
            _, _, lower, upper = estimates[name]
            lower, upper = lower - down * weights, upper + up * weights
            estimates[name] = estimates[name]._replace(lower=lower, upper=upper)


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
    *,
    name: str = "keys",
    missing: bool = False,
    max_weight: float | None = None,
    squares: bool = True,
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
    name : str, default="keys"
        Name of the parameter that declares the domain, for this error.
    missing : bool, default=False
        If True, Python objects that are not numbers count as missing.
    max_weight : float, optional
        The largest weight of a row. With it, the last column contains the weights.
    squares : bool, default=True
        If False, the sums of squares are 0.
    """
    sums_of = partial(
        _sum_table_by_cells,
        domain=domain,
        cliques=cliques,
        bounds=bounds,
        handle_unknown=handle_unknown,
        missing=missing,
        max_weight=max_weight,
        squares=squares,
    )
    has_undeclared, *sums = rows.add_up(sums_of)
    for column, n in zip(domain.columns, has_undeclared, strict=True):
        if n:
            where = f"declared {name}"
            raise make_undeclared_error(column, rows, domain, where=where)
    # The same number of arrays for each marginal.
    size = len(sums) // len(cliques)
    marginals = []
    for start in range(0, len(sums), size):
        part = sums[start : start + size]
        marginals.append(GroupSums.read(part, bounds))
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
    squares: bool,
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
        marginal = select_domain(domain, clique)
        n_rows = len(table.columns[0])
        groups = join_codes(marginal, [codes[c] for c in clique], n_rows)
        # Without values, an array of zeros provides the number of rows.
        given = groups if clique or not values else None
        size = marginal.size
        sums += sum_groups(values, bounds, given, size, weights, squares=squares)
    return sums
