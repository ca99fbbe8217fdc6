"""Private rows as vectors of integers with a bounded norm, centered at their noisy mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from skdp._arrays import Floats, Integers, Mask
from skdp.central._sums import slice_rows
from skdp.central.linear._products import NoisyProducts, append_constant
from skdp.central.statistics import Noise, to_float, warn_user
from skdp.privacy import PrivacyBudget, Split
from skdp.randomness import ByteSource

# Integer that represents the distance from the origin of a column to its farther bound.
UNIT = 1 << 14


def to_row_units(number: int | Fraction) -> float:
    """Convert a noisy sum of products of two integers to a float in units of `UNIT`**2."""
    return to_float(number) / UNIT**2


# Factors of squares and of products of two columns before Gaussian noise is added.
SQUARE_FACTOR, PAIR_FACTOR = 5, 7


def plan_product_noise(budget: PrivacyBudget, square: int) -> Noise:
    """Return Gaussian noise of sums of products, multiplied by their factors, of rows with a squared norm of `square`.

    The noise of products of two columns has about half of the variance of the noise of squares.
    """
    # The sum of 25 x_i**4 and of 49 (x_i x_j)**2 over i < j is at most 25 |x|**4, because
    # 49 < 2 * 25.
    return Noise.gaussian(budget, (SQUARE_FACTOR * square) ** 2)


def add_product_noise(
    sums: Integers,
    noise: Noise,
    source: ByteSource,
    factors: tuple[int, int] = (1, 1),
) -> Floats:
    """Add one draw of noise to each pair of a symmetric matrix of sums of products; return units of `UNIT`**2.

    Both entries of a pair get the same noise. The sums of squares and of products of two columns are multiplied by
    `factors` before noise is added.
    """
    pairs = np.triu_indices(len(sums))
    scales = np.where(pairs[0] == pairs[1], *factors)
    noisy = np.zeros(sums.shape)
    # Python's integers do not overflow.
    exact = sums[pairs].astype(object) * scales
    noisy[pairs] = noise.add_floats(source, exact) / (scales * UNIT**2)
    return noisy + np.triu(noisy, 1).T


def find_widths(bounds: Floats, starts: Floats) -> Floats:
    """Return the distance from the origin of each column to its farther bound; shape (n_columns,)."""
    return np.abs(bounds.T - starts).max(axis=0)


@dataclass(frozen=True, eq=False)
class Rows:
    """Private rows as vectors of integers with a bounded norm; they exist during `fit` only."""

    # The rounding of a sum of floats depends on all summands, so a row could change the
    # sum by more than its own value. All products and sums here are of integers below
    # 2**53, which floats represent exactly, in any order.

    # The values of each row as integers, in steps of 1 / `UNIT`; shape (n_rows, n_columns).
    # The values of a column are adjacent, so that NumPy's loops are long. After `rotate`,
    # they are integers below 2**26.
    positions: NDArray[np.int16 | np.int32]
    # The class of each row, or the position of its target.
    codes: NDArray[Any]
    # The square of the largest possible norm of a row.
    square: int
    # The value of 0 and the distance of `UNIT`; shape (n_columns,).
    starts: Floats
    units: Floats
    # The largest absolute value of each column.
    largest: int | Integers = UNIT
    # The square of a norm that most rows do not exceed: that of a row of values up to `UNIT`.
    usual_square: int = 0
    # True for columns with the bounds (0, 1), which may be indicators; (n_columns,).
    is_indicator: Mask | bool = False

    @classmethod
    def of(
        cls,
        columns: list[Floats],
        bounds: Floats,
        starts: Floats,
        codes: NDArray[Any],
        units: Floats | None = None,
    ) -> Rows:
        """Round values between bounds to integers, which exceed `UNIT` if a bound is farther than its unit.

        Parameters
        ----------
        columns : list of ndarray of shape (n_rows,)
            The values of each column. Values outside the bounds are clipped.
        bounds : ndarray of shape (n_columns, 2)
            The public bounds.
        starts : ndarray of shape (n_columns,)
            The values that are represented by 0.
        codes : ndarray of shape (n_rows,)
            The class or the target of each row.
        units : ndarray of shape (n_columns,), optional
            The distances that are represented by `UNIT`; by default `find_widths(bounds, starts)`.
        """
        units = find_widths(bounds, starts) if units is None else units
        scale = units / UNIT
        lows, highs = (np.trunc((numbers - starts) / scale) for numbers in bounds.T)
        largest = np.maximum(-lows, highs).astype(np.int64)
        dtype = np.int16 if (largest <= UNIT).all() else np.int32
        positions = np.empty((len(columns), len(codes)), dtype).T
        for block in slice_rows(*positions.shape):
            # Rows of a matrix are read while they are in the cache.
            values = np.array([column[block] for column in columns]).T
            with np.errstate(over="ignore"):
                values -= starts
                values /= scale
            # The conversion to integers truncates toward 0.
            positions[block] = np.clip(values, lows, highs, out=values)
        square = int((largest**2).sum())
        usual_square = int((np.minimum(largest, UNIT) ** 2).sum())
        is_indicator = (bounds == [0, 1]).all(axis=1)
        return cls(
            positions, codes, square, starts, units, largest, usual_square, is_indicator
        )

    @property
    def n_columns(self) -> int:
        """The number of values of a row."""
        return self.positions.shape[1]

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield the slice of each block of rows, and the rows as floats."""
        for rows in slice_rows(*self.positions.shape):
            yield rows, self.positions[rows].astype(float)

    @property
    def largest_square(self) -> int:
        """The square of the largest norm, or of a norm that only rotated rows and far values exceed."""
        return min(self.usual_square, self.n_columns * (2 * UNIT) ** 2)

    @cached_property
    def squares(self) -> Floats:
        """The squared norm of each row."""
        squares = np.empty(len(self.positions))
        for rows, part in self.blocks():
            np.einsum("ij,ij->i", part, part, out=squares[rows])
        return squares

    def factors(self, square: int) -> Floats:
        """Return the factor of each row, at most 1, that shortens it to a squared norm of at most `square`."""
        # Three roundings increase a factor by less than 2**-50. Products are truncated
        # toward 0, which does not increase the norm.
        factors = np.ones(len(self.squares))
        is_long = self.squares > square
        factors[is_long] = np.sqrt(square / self.squares[is_long]) * (1 - 2.0**-40)
        return factors

    @property
    def largest_factors(self) -> Floats:
        """The factor of each row, at most 1, that shortens its largest value to at most `UNIT`."""
        largest = np.abs(self.positions).max(axis=1, initial=UNIT)
        # As in `factors`.
        return np.where(largest > UNIT, UNIT / largest * (1 - 2.0**-40), 1.0)

    def clip(self, largest: int | Integers) -> Rows:
        """Clip the values of each column to at most `largest`."""
        if np.all(self.largest <= largest):
            return self
        positions = np.clip(self.positions, -largest, largest).astype(np.int32)
        largest = np.minimum(self.largest, largest)
        square = int((largest**2).sum())
        return replace(self, positions=positions, square=square, largest=largest)

    def total(self, square: int) -> Integers:
        """Sum the rows, (n_columns,); longer rows are shortened to the L2 norm whose square is `square`."""
        factors, total = self.factors(square), np.zeros(self.n_columns, np.int64)
        for block, part in self.blocks():
            shortened = np.trunc(part * factors[block, np.newaxis])
            total += shortened.sum(axis=0).astype(np.int64)
        return total

    def moments(self, factors: Floats, constant: int) -> Integers:
        """Return the sums over rows of the products of all pairs of columns and a constant.

        The values of a row and its constant are multiplied by its factor, at most 1. The shape is
        (n_columns + 1, n_columns + 1).
        """
        size = self.n_columns + 1
        total = np.zeros((size, size), np.int64)
        for block in slice_rows(*self.positions.shape):
            # Rows are columns here, so that NumPy's loops are long.
            shortened = np.empty((size, len(factors[block])))
            shortened[:-1] = self.positions[block].T
            shortened[-1] = constant
            shortened *= factors[block]
            np.trunc(shortened, out=shortened)
            # The routine of BLAS for a matrix and its transpose takes up to ten times as long
            # as the routine for two matrices.
            total += (shortened @ shortened.copy().T).astype(np.int64)
        return total

    def center(self, middle: NDArray[np.int16]) -> Rows:
        """Subtract a public row of integers, (n_columns,), with absolute values below `UNIT`."""
        # The differences of values up to `UNIT` are smaller than 2**15, so 16 bits are sufficient.
        shift = np.abs(middle.astype(np.int64))
        largest = (shift + self.largest).astype(np.int64)
        usual = shift + np.minimum(self.largest, UNIT)
        return replace(
            self,
            positions=self.positions - middle,
            square=int((largest**2).sum()),
            largest=largest,
            usual_square=int((usual**2).sum()),
        )

    def rotate(self, axes: Floats) -> Rows:
        """Multiply the rows by a public (n_columns, n_columns) matrix of `round_axes`, and round to integers.

        The matrix must not increase the norm of a row to 2**26 or more, so that its square is exact.
        """
        # Rounding changes each value by at most 1 / 2.
        norm, error = np.linalg.norm(axes, 2), math.sqrt(len(axes))
        square = int((math.sqrt(self.square) * norm + error) ** 2) + 1
        usual_square = int((math.sqrt(self.usual_square) * norm + error) ** 2) + 1
        positions = np.empty(self.positions.shape[::-1], np.int32).T
        for rows, part in self.blocks():
            # Faster than ``part @ axes`` for few columns.
            positions[rows] = np.rint(axes.T @ part.T).T
        return replace(
            self,
            positions=positions,
            square=square,
            largest=math.isqrt(square),
            usual_square=usual_square,
        )


def round_axes(axes: Floats, largest: int) -> Floats:
    """Round a matrix such that floats represent its products with rows of integers up to `largest` exactly."""
    # A product of a row and all its partial sums are multiples of 1 / scale below
    # 2**53 / scale, so their order does not matter.
    n_bits = 52 - max(largest.bit_length(), 16)
    scale = 2.0 ** (n_bits - np.frexp(np.abs(axes).sum(axis=0).max())[1])
    return np.rint(axes * scale) / scale


def warn_of_few_rows(n_rows: float, error: float) -> bool:
    """Warn and return True if the noisy number of rows is below three standard deviations of its noise."""
    if is_noise := n_rows < 3 * error:
        warn_user(
            "The noise is about as large as the number of rows, so the fitted values "
            "are unreliable. Use more rows or a larger epsilon",
            "answers/which_epsilon",
        )
    return is_noise


# Largest distance of 0 or 1 from the mean of an indicator, in standard deviations, without more
# noise than other columns. A rare indicator with the same standard deviation as other columns
# has the longest rows, which would be shortened or would determine the noise of all columns.
# At 1.8 to 3.5, the errors of two columns are about equal: the noise of all coefficients together
# is smallest if no column has longer values than the others (M. J. Todd, 2016, chapter 1).
MAX_REACH = 2.5

# Fractions of the budget of `center_rows`.
CENTER_PARTS = Split(rest="means", norms=Fraction(1, 3))

# Fractions of the budget of a model for `whiten`: centering, sizes of the values of each column, norms
# of scaled rows, products of two columns, and norms of rotated rows.
WHITE_PARTS = Split(
    rest="model",
    center=Fraction(3, 32),
    sizes=Fraction(1, 32),
    scaled_norms=Fraction(1, 64),
    products=Fraction(3, 64),
    norms=Fraction(1, 32),
)

# Variance of the difference between the coefficients of weighted rows and of all rows, if the relation
# is curved: in sampling variances, for rows that are all shortened. With 6 in place of 0, 0.93 and 0.96
# in place of 0.90 and 0.93 of the intervals of linear and of logistic regressions at epsilon 1 cover, of
# 37 and 14 tables that benchmarks/ordinary_tables.py does not contain. Intervals are a tenth wider.
SHORTENED_VARIANCE = 6

# Number of limits of the norm that `choose_limit` compares.
_N_NORMS = 24


# Bins of the size of a value up to twice `UNIT`: successive powers of 2. Farther values have
# more bins.
_N_SIZES = 16


def count_sizes(rows: Rows) -> Integers:
    """Count the absolute values of each column between powers of 2; shape (n_columns, n_sizes)."""
    n_sizes = max(int(np.max(rows.largest)).bit_length() + 1, _N_SIZES)
    counts = np.zeros(rows.n_columns * n_sizes, np.int64)
    starts = np.arange(rows.n_columns) * n_sizes
    for block in slice_rows(*rows.positions.shape):
        sizes = np.frexp(rows.positions[block].astype(np.float32))[1]
        # In the order of the memory.
        counts += np.bincount((sizes + starts).ravel("K"), minlength=len(counts))
    return counts.reshape(rows.n_columns, n_sizes)


def choose_scales(
    rows: Rows, n_rows: float, max_longer: float, noise: Noise, source: ByteSource
) -> tuple[Floats, Mask]:
    """Choose factors of centered columns by noisy counts of their values by size; shape (n_columns,).

    At most a fifth of the multiplied values exceeds ``UNIT / 2``, and at most `max_longer` exceed ``2 * UNIT``. The
    factor of a column is 1 if the counts are not certain, or if most values are of one size, as for an indicator. It is
    below 1 only if many values exceed ``2 * UNIT``. Also return True for columns whose far values are counted with
    certainty.
    """
    counts = noise.add_floats(source, count_sizes(rows))
    error = to_float(noise.std)
    columns = np.arange(len(counts))
    n_longer = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1] - counts
    chosen = np.argmax(n_longer <= 0.2 * n_rows, axis=1)
    # Interpolated within the bin, between a power of 2 and its half.
    n_in_bin = np.maximum(counts[columns, chosen], 1.0)
    part = np.clip((0.2 * n_rows - n_longer[columns, chosen]) / n_in_bin, 0.0, 1.0)
    widths = 2.0**chosen * (1 - part / 2)
    longest = np.argmax(n_longer <= max_longer, axis=1)
    # Far values of few rows would determine the limit of the norm.
    widths = np.maximum(widths, 2.0**longest / 4)
    n_sizes = counts.shape[1]
    is_certain = 2 * error * np.sqrt(n_sizes - chosen) < 0.2 * n_rows
    is_far_certain = 2 * error * math.sqrt(n_sizes - _N_SIZES + 2) < 0.2 * n_rows
    is_spread = counts.max(axis=1) + 2 * error < 0.75 * n_rows
    n_far = n_longer[:, _N_SIZES - 1]
    is_narrow = n_far > max(min(max_longer, 0.2 * n_rows), 3 * error)
    # The scaled rows must be shorter than 2**26, see `Rows.rotate`.
    largest = 2**11 / math.sqrt(len(counts)) / find_reach(rows)
    scales = np.minimum(UNIT / 2 / widths, largest)
    scales = np.where(is_narrow, scales, np.maximum(scales, 1.0))
    is_scaled = is_certain & (is_spread | is_narrow)
    return np.where(is_scaled, scales, 1.0), is_certain & is_far_certain


def find_reach(rows: Rows) -> float:
    """Return the largest value of centered rows in units of the distance between two bounds, at least 1."""
    return max(int(np.max(rows.largest)) / (2 * UNIT), 1.0)


def whiten(
    rows: Rows, budget: PrivacyBudget, source: ByteSource
) -> tuple[Rows, int, NDArray[np.int16], Floats, Floats, Floats, float]:
    """Center, scale and rotate rows by noisy numbers, and choose a limit of their norm.

    The new columns are about uncorrelated and have a standard deviation of `UNIT` / 8, or less if the noise exceeds it,
    so the noise has about the same effect on all of them. `WHITE_PARTS` are the fractions of the budget.

    Return the new rows, the square of a norm that few of them exceed, the subtracted mean, the matrix by which the
    centered rows were multiplied, the noisy covariances of the new columns, and a part of these that may be noise, see
    `WeightedRows`; all three are (n_columns, n_columns). Last, return the fraction of the sum of squared norms that
    longer rows have after they are shortened.
    """
    n_columns = rows.n_columns
    # Longer rows change the sums by about as much as the noise. If twice as many rows are
    # shortened, they bias the coefficients of curved relations by more than the noise does;
    # if half as many are, the noise is larger.
    max_longer = 20 * math.sqrt((n_columns + 1) * Noise.gaussian(budget).scale)
    limits = {"max_fraction": 0.2, "max_longer": max_longer}
    # Clipping changes the center only, and the center does not change the coefficients.
    near = rows.clip(UNIT)
    _, middle, n_rows, error = center_rows(
        near, budget * WHITE_PARTS.center, source, **limits
    )
    # The distances of 0 and 1 from the mean of an indicator, in units.
    means = rows.starts + rows.units * (middle / UNIT)
    reaches = np.maximum(np.abs(means), np.abs(1 - means)) / rows.units
    rows = rows.center(middle)
    n_rows = max(n_rows, 3 * error, 1.0)

    size_noise = Noise.gaussian(budget * WHITE_PARTS.sizes, n_columns)
    scales, is_certain = choose_scales(rows, n_rows, max_longer, size_noise, source)
    # Without a certain scale, far values would shorten too many rows.
    rows = rows.clip(np.where(is_certain, rows.largest, 2 * UNIT))
    scaled = rows if (scales == 1).all() else rows.rotate(np.diag(scales))
    norm_noise = Noise.gaussian(budget * WHITE_PARTS.scaled_norms)
    square, *_ = choose_limit(
        scaled.squares, scaled.largest_square, norm_noise, source, **limits
    )
    noise = plan_product_noise(budget * WHITE_PARTS.products, square)
    exact = scaled.moments(scaled.factors(square), 0)[:-1, :-1]
    del scaled
    sums = add_product_noise(exact, noise, source, (SQUARE_FACTOR, PAIR_FACTOR))
    variances, vectors = np.linalg.eigh(sums / n_rows)
    variances = np.maximum(variances, 0) + n_columns * 2.0**-28
    # About the spectral norm of the noise, half of which a variance may be.
    error = to_row_units(noise.std) / PAIR_FACTOR / n_rows
    spectral_norm = 2 * math.sqrt(n_columns) * error
    covariance = (vectors * (variances + spectral_norm / 2)) @ vectors.T
    damped = covariance + spectral_norm * np.eye(n_columns)
    smallest = np.where(rows.is_indicator & (scales == 1), reaches / MAX_REACH, 0) ** 2
    damped += np.diag(np.maximum(smallest - np.diag(damped), 0))
    variances, vectors = np.linalg.eigh(64 * damped)
    rotation = (vectors / np.sqrt(variances)) @ vectors.T
    axes = scales[:, np.newaxis] * rotation
    # A centered row has at most two units in each column, or the reach times as many, so the
    # new norm is below 2**26.
    norm = float(np.linalg.norm(axes, 2)) * math.sqrt(n_columns) / 2**11
    norm = max(norm * find_reach(rows), 1.0)
    axes = round_axes(axes / norm, int(np.max(rows.largest)))
    rotation /= norm
    covariance = rotation @ covariance @ rotation
    uncertainty = spectral_norm / 2 * rotation @ rotation
    rows = rows.rotate(axes)
    norm_noise = Noise.gaussian(budget * WHITE_PARTS.norms)
    square, _, n_longer = choose_limit(
        rows.squares, rows.largest_square, norm_noise, source, **limits
    )
    total = n_rows * float(np.trace(covariance)) * UNIT**2
    shortened = min(n_longer * square / total, 1.0)
    return rows, square, middle, axes, covariance, uncertainty, shortened


def center_rows(
    rows: Rows,
    budget: PrivacyBudget,
    source: ByteSource,
    *,
    max_fraction: float,
    max_longer: float,
) -> tuple[Rows, NDArray[np.int16], float, float]:
    """Center rows at their noisy mean, with a budget that is divided by `CENTER_PARTS`.

    In this mean, at most `max_fraction` of the rows and at most `max_longer` rows are shortened, up to noise. Also
    return the subtracted mean, the noisy number of rows, and the standard deviation of its noise.
    """
    norm_noise = Noise.from_budget(budget * CENTER_PARTS.norms)
    square, n_rows, _ = choose_limit(
        rows.squares,
        rows.largest_square,
        norm_noise,
        source,
        max_fraction=max_fraction,
        max_longer=max_longer,
    )
    error = math.sqrt(_N_NORMS) * to_float(norm_noise.std)
    warn_of_few_rows(n_rows, error)
    # By the inequality of Cauchy and Schwarz, the L1 norm of a row is at most the root of
    # the number of columns times its L2 norm.
    l1_norm = math.isqrt(rows.n_columns * square) + 1
    mean_noise = Noise.from_budget(budget * CENTER_PARTS.means, l1_norm, square)
    sums = mean_noise.add_floats(source, rows.total(square))
    mean = np.rint(sums / max(n_rows, error, 1.0))
    middle = np.clip(mean, 1 - UNIT, UNIT - 1).astype(np.int16)
    return rows.center(middle), middle, n_rows, error


def choose_limit(
    squares: Floats,
    largest: int,
    noise: Noise,
    source: ByteSource,
    *,
    max_fraction: float = 1.0,
    max_longer: float,
) -> tuple[int, float, float]:
    """Choose the smallest limit of the norm that few rows exceed, by noisy counts of their squared norms, (n_rows,).

    At most `max_fraction` of the rows and at most `max_longer` rows exceed the limit, up to noise. The squares of the
    limits are `largest` divided by powers of 2**(1/3). Return the square of the limit, and the noisy numbers of all
    rows and of longer rows.
    """
    limits = [int(largest * 2 ** (-step / 3)) for step in reversed(range(_N_NORMS))]
    # A row is counted between two of the limits, or above the last but one, so adding it
    # changes one count by 1.
    within = [np.count_nonzero(squares <= limit) for limit in limits[:-1]]
    counts = noise.add(source, np.diff([0, *within, len(squares)]).tolist())
    n_rows = to_float(max(sum(counts), 0))
    n_longer = sum(counts) - np.cumsum(np.array(counts, object))
    is_rare = n_longer <= min(max_fraction * n_rows, max_longer)
    is_rare[-1] = True  # no row is longer than the largest limit
    chosen = int(np.argmax(is_rare))
    return limits[chosen], n_rows, to_float(max(n_longer[chosen], 0))


def bound_products(square: int, largest: int) -> int:
    """Bound the squared norm of the products of all pairs of values of a row, each pair counted once.

    The squared norm of the row is at most `square`, and its values are at most `largest` in size.
    """
    # The sum of x_i**2 x_j**2 over i <= j is half of (sum of x_i**2)**2 plus half of the
    # sum of x_i**4, which is at most square * min(square, largest**2).
    return (square * (square + min(square, largest**2)) + 1) // 2


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Private rows with a constant, and weights that limit the effect of long rows."""

    # The weight of a row is the square of its factor: the product of its weight in the
    # sample, and of the factor that shortens it. Weights do not depend on the target, so
    # the expected gradient at the true coefficients remains 0. This would not hold for the
    # predictions of shortened rows.

    rows: Rows
    # Factor of each row, at most 1; shape (n_rows,).
    factors: Floats
    # Integer that is appended to each row.
    constant: int
    # The square of the largest possible norm of a shortened row with its constant.
    square: int
    # The expected covariances of the columns, in units, and the part of these that was added
    # because of noise; both (n_columns, n_columns). In a direction u, the standard deviation of
    # the noise of n columns is the root of 2 / n times ``u @ uncertainty @ u``.
    covariance: Floats
    uncertainty: Floats
    # The fraction of the sum of squared norms that shortened rows have.
    shortened: float

    @property
    def widening(self) -> float:
        """Factor of sampling variances, by which intervals also contain coefficients of rows that are not shortened."""
        return 1 + SHORTENED_VARIANCE * self.shortened

    @cached_property
    def squares(self) -> Floats:
        """The expected products of two columns, and of the constant, which is last; (n_columns + 1, n_columns + 1)."""
        return append_constant(self.covariance, (self.constant / UNIT) ** 2)

    def count_classes(self, n_classes: int) -> Integers:
        """Sum the weights of the rows of each class, in steps of 1 / `UNIT`."""
        weights = np.rint(UNIT * self.factors**2)
        sums = np.bincount(self.rows.codes, weights, n_classes)
        return sums.astype(np.int64)

    def sum_gradients(
        self, residuals: Iterable[tuple[Floats, Floats]], n_outputs: int
    ) -> Integers:
        """Return the exact sum over rows of the product of each row and its residuals; (n_columns + 1, n_outputs).

        `residuals` are blocks of rows with their weighted residuals, (n_rows_of_block, n_outputs), which are truncated
        to integers. The residuals of a row depend on this row only.
        """
        total = np.zeros((self.rows.n_columns + 1, n_outputs), np.int64)
        for values, weighted in residuals:
            weighted = np.trunc(weighted)
            total[:-1] += (values.T @ weighted).astype(np.int64)
            total[-1] += self.constant * weighted.sum(axis=0).astype(np.int64)
        return total

    def predict(self, coefficients: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
        """Yield blocks of rows: their slice, values, and products with coefficients in units of the columns.

        `coefficients` have the shape (n_columns + 1,) or (n_columns + 1, n_outputs), with the constant last.
        """
        # Coefficients are rounded such that the products are sums of integers, too.
        # Otherwise their rounding would depend on the position of a row in its block.
        longest = math.isqrt(self.rows.square + self.constant**2) + 1
        largest = float(np.linalg.norm(coefficients)) * longest + 1
        scale = 2.0 ** (50 - int(np.frexp(largest)[1]))
        weights = np.rint(coefficients * scale)
        for block, values in self.rows.blocks():
            products = values @ weights[:-1] + self.constant * weights[-1]
            products /= UNIT * scale
            yield block, values, products

    def measure_products(
        self, factors: Floats, noise: Noise, source: ByteSource, part: float = 1.0
    ) -> NoisyProducts:
        """Measure sums of products of all pairs of columns and the constant, multiplied by `part`.

        `factors` of the rows are at most `self.factors`. Gaussian noise is the noise of `plan_product_noise`.
        """
        exact = self.rows.moments(factors, self.constant)
        # Rounding of values to integers causes errors of up to one step.
        error = to_row_units(max(noise.std, Fraction(1))) * part
        scales = (SQUARE_FACTOR, PAIR_FACTOR) if noise.is_gaussian else (1, 1)
        sums = add_product_noise(exact, noise, source, scales) * part
        return NoisyProducts(sums, error / scales[1], error / scales[0])


# Ascending limits of residuals by size, in half widths of the bounds of a target.
RESIDUAL_LIMITS = 2.0 ** np.arange(-22, 2)


def count_by_size(sizes: Floats) -> Integers:
    """Count residuals between successive `RESIDUAL_LIMITS`; the last count includes larger residuals."""
    # The first bits of a float after its sign are its exponent, which is larger by 1,023. A
    # number after a power of 2 has its exponent, and the power itself has the one before.
    classes = np.asarray(sizes, float).view(np.int64) - 1
    classes >>= 52
    classes -= 1022 + round(math.log2(RESIDUAL_LIMITS[0]))
    np.clip(classes, 0, len(RESIDUAL_LIMITS) - 1, out=classes)
    return np.bincount(classes, minlength=len(RESIDUAL_LIMITS)).astype(np.int64)


def find_last_count(counts: Floats, error: float, *, is_gaussian: bool) -> int:
    """Return the index of the last noisy count of residuals, by size, beyond which no residuals are certain.

    `error` is the standard deviation of a count. Laplace noise has heavier tails than Gaussian noise.
    """
    # A limit above all residuals increases the noise. So the range of residuals is extended
    # by sums of adjacent counts that exceed their noise, the more the farther they are. By
    # single counts, predictions of a lognormal target at epsilon 1 are too small by 18 % in
    # place of 9 %, and 0.89 of the intervals cover in place of 0.93.
    totals, index = np.cumsum(counts), np.arange(len(counts))
    lengths = np.maximum(index + 1 - index[:, np.newaxis], 0)
    sums = np.where(lengths, totals - (totals - counts)[:, np.newaxis], 0)
    certainty = sums / (max(error, 2.0**-40) * np.sqrt(np.maximum(lengths, 1)))
    required = 2.5 + 0.2 * index
    # The quantiles of Laplace noise with the same probabilities, for single counts.
    added = 0 * required
    if not is_gaussian:
        added = -(math.log(2) + log_ndtr(-required)) / math.sqrt(2) - required
    roots = np.sqrt(np.maximum(lengths, 1))
    far = max(int(np.argmax(counts)), 2)
    while True:
        n_farther = len(counts) - far - 1
        excess = certainty[far + 1 :, far + 1 :] - required[:n_farther]
        excess -= added[:n_farther] / roots[far + 1 :, far + 1 :]
        is_certain = (excess >= 0).any(axis=0)
        if not is_certain.any():
            break
        far += 1 + int(np.argmax(is_certain))
    return far


def choose_residual_limit(
    counts: Floats,
    error: float,
    n_rows: float,
    n_clipped: float,
    *,
    is_gaussian: bool,
) -> tuple[float, float]:
    """Choose a limit of residuals, of at most the width of the target, from noisy counts between `RESIDUAL_LIMITS`.

    At most about `n_clipped` residuals exceed it, and their parts beyond it add up to a quarter of `n_clipped` limits.
    `error` is the standard deviation of a count. Also return the mean square of clipped residuals, in squared limits.
    """
    far = find_last_count(counts, error, is_gaussian=is_gaussian)
    counts = counts[: far + 1]
    # A Weibull distribution has these numbers of residuals beyond two limits. Its tail may
    # be heavy, so a normal distribution would clip too many large residuals.
    n_beyond = np.array([counts[-1], counts[-2:].sum()])
    log_far, log_near = np.log(n_rows / np.clip(n_beyond, 0.5, 0.8 * n_rows))
    exponent = 1.5
    if n_beyond[0] < 0.2 * n_rows:
        exponent = math.log2(max(log_far / log_near, 1.0))
        exponent = min(max(exponent, 0.5), 1.5)
    wanted = math.log(n_rows / max(n_clipped, 0.5))
    # The mean part of a residual beyond the limit is ``limit / (exponent * wanted)``.
    wanted -= math.log(min(exponent * wanted / 4, 1.0))
    near_limit, far_limit = RESIDUAL_LIMITS[far - 1 : far + 1]
    limit = float(near_limit) * (wanted / log_far) ** (1 / exponent)
    largest = min(1.4 * float(far_limit), 2.0)
    limit = float(np.clip(limit, RESIDUAL_LIMITS[0], largest))
    # Between b / 2 and b, the mean square is 0.46 b**2 if the density falls with the cube.
    squares = np.minimum(0.46 * (RESIDUAL_LIMITS[: far + 1] / limit) ** 2, 1.0)
    return limit, max(float(counts @ squares) / n_rows, 1 / 50)
