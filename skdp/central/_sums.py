"""Integer sums of columns by group, rounded to a grid between public bounds, and estimates from noisy sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import parse_bounds, to_float_columns, undeclared_error
from skdp.central.statistics import (
    MAX_NOISY_COUNT,
    Batches,
    Estimate,
    Floats,
    Noise,
    encode_columns,
    join_codes,
    part_of,
    select_columns,
    to_float,
    warn_user,
)
from skdp.domain import Domain
from skdp.randomness import ByteSource
from skdp.tables import Table

Integers = NDArray[np.int64]

# Steps from the middle between the bounds to either of them: a value moves by at most a
# billionth of the width, and sums over 2**33 rows are integers of 64 bits.
GRID = 1 << 29

# Rows per block. A block fits in the cache, and float sums of its integers and of
# products of rows are exact (2**(15 + 15 + 16) < 2**53).
BLOCK = 1 << 16

# The variance of a uniform distribution between the bounds, in squared half widths.
UNIFORM_VARIANCE = 1 / 3


def read_values(table: Table) -> list[Floats]:
    """Read private numbers; Python objects that are not numbers become missing values."""
    # Only dtypes raise errors. Text in a record is private, and an error would reveal
    # it.
    return to_float_columns(table, allow_missing=True, coerce=True)


def warn_of_objects(table: Table) -> None:
    """Warn of columns of Python objects that are read by `read_values`."""
    # The dtype alone decides, for all objects. The dtype of a list of rows is inferred
    # from its values, so a warning would reveal them.
    if not table.has_dtypes or not isinstance(table.native, pd.DataFrame | np.ndarray):
        return
    names = []
    for name, column in zip(table.names, table.columns, strict=True):
        if column.dtype == object:
            names.append(name)
    if names:
        warn_user(
            f"columns {names} have dtype object: cells that are not numbers count as "
            "missing, because an error would reveal them. Convert the columns to a "
            "numeric dtype, in a dataframe if other columns contain text",
            "guide/preprocessing#missing-values",
        )


def to_positions(values: Floats, low: float | Floats, high: float | Floats) -> Floats:
    """Round values between bounds to the grid from -`GRID` to `GRID`."""
    positions = np.clip(values, low, high)
    # Rounding is monotone, so the fraction of the width is at most 1, for all bounds.
    positions -= low
    positions /= np.subtract(high, low)
    positions *= 2 * GRID
    np.rint(positions, out=positions)
    positions -= GRID
    return positions


def to_values(positions: Any, bounds: Floats) -> Any:
    """Convert positions from -1 to 1 to values between bounds, one pair or one for each column."""
    low, high = bounds.T
    values = low + (high - low) * ((np.clip(positions, -1, 1) + 1) / 2)
    return np.clip(values, low, high)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Exact sums of columns between bounds, by group of rows; they live inside `fit` only."""

    # A record adds 1 to the rows of one group and, for each column, 1 to the number of
    # values, a number from -`GRID` to `GRID` to the sum of positions, and one from 0 to
    # `GRID` to the sum of squares (of positions, over `GRID`); a missing value adds
    # nothing to these three. Neither the order of the rows nor the rounding of floats
    # changes integer sums, and the change by one record is exact.

    # The number of rows: (n_groups,).
    rows: Integers
    # (n_groups, n_columns) each.
    counts: Integers
    position_sums: Integers
    squares: Integers
    # The number of values that are missing or infinite: (n_columns,).
    n_odd: Integers
    bounds: Floats

    @classmethod
    def read(cls, sums: Sequence[Integers], bounds: Floats) -> GroupSums:
        """Read the result of `sums_of_groups`."""
        n_odd, rows, counts, position_sums, squares = sums
        return cls(rows, counts.T, position_sums.T, squares.T, n_odd, bounds)

    def refuse_missing(self, names: Sequence[Any]) -> GroupSums:
        """Refuse missing values."""
        for name, n_odd in zip(names, self.n_odd, strict=True):
            if n_odd:
                raise ValueError(
                    f"column {name!r} contains a missing value, a NaN or an inf. Fill it "
                    "in, or drop the record, by a public rule."
                )
        return self

    def numbers(self, *, squares: bool, shared_count: bool) -> NDArray[np.object_]:
        """Return the integers that get noise: one record changes each number of one group by at most `GRID`."""
        # (n_groups, n_numbers): a number of rows or the numbers of values, sums, and
        # sums of squares from half the grid, which then are on both sides of 0.
        counts = self.rows[:, np.newaxis] if shared_count else self.counts
        parts = [counts * GRID, self.position_sums]
        if squares:
            parts.append(2 * self.squares - GRID * self.counts)
        # Integers of Python do not overflow when noise is added.
        return np.hstack(parts).astype(object)


def n_numbers(n_columns: int, *, squares: bool, shared_count: bool) -> int:
    """Return the length of a row of `GroupSums.numbers`: with one count of rows, or a count of values per column."""
    n_counts = 1 if shared_count else n_columns
    n_sums = 2 * n_columns if squares else n_columns
    return n_counts + n_sums


def sums_of_groups(
    columns: Sequence[Floats],
    bounds: Floats,
    groups: NDArray[Any] | None = None,
    n_groups: int = 1,
) -> list[Integers]:
    """Compute the exact sums of `GroupSums` for rows; rows without a group have the code ``n_groups``."""
    # Returns the number of values that are not finite, by column; the number of rows, by
    # group; and the number of values, the sum of positions and the sum of squares, each
    # by column and group.
    if groups is None:
        groups = np.zeros(len(columns[0]), np.intp)
    groups = groups.astype(np.intp)
    n_odd = np.zeros(len(columns), np.int64)
    sums = np.zeros((3, len(columns), n_groups), np.int64)
    for index, (column, (low, high)) in enumerate(zip(columns, bounds, strict=True)):
        n_odd[index] = np.count_nonzero(~np.isfinite(column))
        for start in range(0, column.size, BLOCK):
            block = slice(start, start + BLOCK)
            positions = to_positions(column[block], low, high)
            is_value = ~np.isnan(positions)
            positions[~is_value] = 0.0  # adds nothing
            squares = np.rint(positions**2 / GRID)
            for number, summands in enumerate((is_value, positions, squares)):
                sums[number, index] += _sum_by_group(summands, groups[block], n_groups)
    rows = _sum_by_group(np.ones(len(groups)), groups, n_groups)
    return [n_odd, rows, *sums]


def _sum_by_group(
    numbers: NDArray[Any], groups: NDArray[np.intp], n_groups: int
) -> Integers:
    """Add up integers of one block by group; rows of no group add nothing."""
    sums = np.bincount(groups, numbers, n_groups + 1)
    return sums[:n_groups].astype(np.int64)


def sum_columns(rows: Batches, bounds: Any, *, missing: bool = True) -> GroupSums:
    """Sum up the numbers of a table between declared bounds, as one group."""
    bounds = parse_bounds(bounds, rows.names)
    if missing:
        warn_of_objects(rows.table)
    sums = rows.add_up(partial(_sums_of_table, bounds=bounds, missing=missing))
    group_sums = GroupSums.read(sums, bounds)
    return group_sums if missing else group_sums.refuse_missing(rows.names)


def _sums_of_table(table: Table, *, bounds: Floats, missing: bool) -> list[Integers]:
    """Sum up the columns of a part of a table, as one group."""
    columns = read_values(table) if missing else to_float_columns(table)
    return sums_of_groups(columns, bounds)


@dataclass(frozen=True, eq=False)
class NoisySums:
    """The sums of groups with noise, as floats, in units of the grid: arrays (n_groups, n_columns)."""

    counts: Floats
    position_sums: Floats
    # Sums of squares, from half the grid; without them, an empty array.
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
        """Add noise to `GroupSums.numbers`."""
        # One record changes each number of one group by at most `GRID`. So noise of the
        # density ``e**(-epsilon max|z| / GRID)`` gives epsilon-differential privacy for
        # all columns together: the K-norm mechanism of the maximum norm. All of D
        # numbers change by at most ``sqrt(D) * GRID`` in L2 norm, which is attained by
        # a record at the bounds: the sensitivity for Gaussian noise. Groups do not
        # share epsilon, as they have no record in common.
        exact = sums.numbers(squares=squares, shared_count=shared_count)
        noisy = clip_floats(exact + noise.draw_each(source, *exact.shape))
        n_counts = 1 if shared_count else len(sums.bounds)
        return cls.of(noisy, n_counts, squares=squares)

    @classmethod
    def of(cls, numbers: Floats, n_counts: int, *, squares: bool) -> NoisySums:
        """Split noisy `GroupSums.numbers`."""
        counts, sums = numbers[:, :n_counts], numbers[:, n_counts:]
        n_columns = sums.shape[1] // (2 if squares else 1)
        return cls(counts, sums[:, :n_columns], sums[:, n_columns:])


def clip_floats(numbers: NDArray[Any]) -> Floats:
    """Convert noisy integers to floats, clipped because noise of a tiny epsilon may exceed the largest float."""
    # NumPy 2.0 does not compare 64-bit integers with a larger limit.
    limit = MAX_NOISY_COUNT**2
    return np.clip(numbers.astype(object), -limit, limit).astype(float)


class Moments(NamedTuple):
    """Noisy means and variances, in half widths of the bounds from their middle, and standard errors."""

    # Errors are at most the half width and its square. A variance is at least its error;
    # where the error is too large, it is the variance of a uniform distribution.

    mean: Floats
    mean_error: Floats
    variance: Floats
    variance_error: Floats

    @property
    def is_noise(self) -> NDArray[np.bool_]:
        """True where the error of the variance is at least the variance of a uniform distribution."""
        return self.variance_error >= UNIFORM_VARIANCE


def moments_of(noisy: NoisySums, noise_error: Fraction) -> Moments:
    """Turn noisy sums with squares into moments: arrays (n_groups, n_columns)."""
    is_counted = noisy.counts > 0
    counts = np.where(is_counted, noisy.counts, 1.0)
    # Sums are clipped to their range without noise, so no quotient overflows.
    mean = np.where(is_counted, np.clip(noisy.position_sums / counts, -1, 1), 0.0)
    error = to_float(noise_error)
    relative_error = np.where(is_counted, np.minimum(error / counts, 1.0), 1.0)
    mean_error = np.minimum(relative_error * np.hypot(1, mean), 1.0)
    squares = (np.clip(noisy.squares / counts, -1, 1) + 1) / 2
    noisy_variance = np.maximum(squares - mean**2, 0)
    # The derivatives of the variance v with respect to the three sums are 1/2, 2 m and
    # m² - v + 1/2, with m the mean. Positions are rounded by up to half a step.
    slopes = np.sqrt(0.25 + (2 * mean) ** 2 + (mean**2 - noisy_variance + 0.5) ** 2)
    variance_error = np.minimum(relative_error * slopes + 1 / GRID, 1.0)
    variance_error = np.where(is_counted, variance_error, 1.0)
    is_known = variance_error < UNIFORM_VARIANCE
    variance = np.where(
        is_known, np.maximum(noisy_variance, variance_error), UNIFORM_VARIANCE
    )
    return Moments(mean, mean_error, variance, variance_error)


def mean_estimates(
    noisy: NoisySums, bounds: Floats, noise: Noise, level: float
) -> Estimate:
    """Estimate means between bounds, by Fieller's intervals of a quotient: arrays (n_groups, n_columns)."""
    # E. C. Fieller (1954). Some problems in interval estimation. JRSS B 16. With r the
    # margin of the noise over the count, the bounds x solve ``(mean - x)² = r² (1 +
    # x²)``.
    is_counted = noisy.counts > 0
    counts = np.where(is_counted, noisy.counts, 1.0)
    mean = np.where(is_counted, noisy.position_sums / counts, 0.0)
    mean = np.clip(mean, -MAX_NOISY_COUNT, MAX_NOISY_COUNT)
    noise_error = to_float(noise.error)
    error = np.where(is_counted, noise_error / counts * np.hypot(1, mean), 1.0)
    reach = to_float(noise.reach(level)) / counts
    is_known = is_counted & (reach < 1)
    reach = np.where(is_known, reach, 0.0)
    spread = np.sqrt(reach**2 * (1 - reach**2) + (reach * mean) ** 2)
    lower = np.where(is_known, (mean - spread) / (1 - reach**2), -np.inf)
    upper = np.where(is_known, (mean + spread) / (1 - reach**2), np.inf)
    return Estimate(
        to_values(mean, bounds),
        np.minimum(error, 1) / 2 * (bounds[:, 1] - bounds[:, 0]),
        to_values(lower, bounds),
        to_values(upper, bounds),
    )


def sum_estimates(
    noisy: NoisySums, bounds: Floats, noise: Noise, level: float
) -> Estimate:
    """Estimate sums between bounds: arrays (n_groups, n_columns)."""
    # A sum is ``half * positions + middle * count``.
    half = (bounds[:, 1] - bounds[:, 0]) / 2 / GRID
    middle = (bounds[:, 0] + bounds[:, 1]) / 2 / GRID
    norm = np.hypot(half, middle)
    value = half * noisy.position_sums + middle * noisy.counts
    error = np.broadcast_to(norm * to_float(noise.error), value.shape)
    reach = norm * to_float(noise.reach(level))
    return Estimate(value, error, value - reach, value + reach)


def shrunk_shifts(
    counts: Floats, excesses: Floats, *, of_row: float, of_noise: float, of_count: float
) -> Floats:
    """Return shrunk differences of the means of groups from the mean of all, given their excess sums."""
    # Empirical Bayes (B. Efron, C. Morris, 1973). The mean square of the difference d
    # of a group: excess = d n + the errors of the rows and the noise, with variances of
    # `of_row` for each row and of `of_noise`; `of_count` is the variance of the noise of n.
    n = np.maximum(counts, 0)
    n_squares = max((counts**2 - of_count).sum(), 1.0)
    spread = (excesses**2 - of_noise - of_row * n).sum() / n_squares
    spread = float(np.clip(spread, 0, 1))
    variance = spread * n**2 + of_row * n + of_noise
    shifts = np.zeros(n.shape)
    np.divide(spread * n * excesses, variance, out=shifts, where=variance > 0)
    return shifts


def sum_by_cells(
    rows: Batches,
    domain: Domain,
    cliques: Sequence[Sequence[int]],
    bounds: NDArray[np.float64],
    handle_unknown: str,
    name: str,
    *,
    missing: bool = False,
) -> list[GroupSums]:
    """Sum the last columns of a table by the cells of marginals of the first columns; () stands for all rows."""
    sums_of = partial(
        _sums_by_cells,
        domain=domain,
        cliques=cliques,
        bounds=bounds,
        handle_unknown=handle_unknown,
        missing=missing,
    )
    has_undeclared, *parts = rows.add_up(sums_of)
    for column, n in zip(domain.columns, has_undeclared, strict=True):
        if n:
            raise undeclared_error(
                column,
                domain[column],
                where=f"declared {name}",
            )
    size = len(parts) // len(cliques)
    starts = range(0, len(parts), size)
    return [GroupSums.read(parts[start : start + size], bounds) for start in starts]


def _sums_by_cells(
    table: Table,
    *,
    domain: Domain,
    cliques: Sequence[Sequence[int]],
    bounds: NDArray[np.float64],
    handle_unknown: str,
    missing: bool,
) -> list[NDArray[np.int64]]:
    """Return by column of the domain whether values are undeclared, and the sums of each marginal."""
    n_keys = len(domain.columns)
    keys = select_columns(table, table.names[:n_keys])
    numbers = select_columns(table, table.names[n_keys:])
    codes, undeclared = encode_columns(keys, domain, handle_unknown)
    values = (
        read_values(numbers)
        if missing
        else to_float_columns(numbers, allow_missing=True)
    )
    parts = [np.array([column in undeclared for column in domain.columns], np.int64)]
    for clique in cliques:
        if clique:
            part = part_of(domain, clique)
            groups = join_codes(part, [codes[column] for column in clique])
            parts += sums_of_groups(values, bounds, groups, part.size)
        else:
            parts += sums_of_groups(values, bounds)
    return parts
