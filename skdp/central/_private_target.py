"""Linear models of a private target whose rows are public: its products with public columns, and its square."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.base import read_numbers
from skdp.central._public_rows import PublicRows, slopes_of_sums
from skdp.central.statistics import (
    UNIT,
    Batches,
    Noise,
    Rows,
    in_units,
    noisy_products,
    widths,
)
from skdp.privacy import Share
from skdp.randomness import ByteSource

Floats = NDArray[np.float64]

# The fraction of the budget for the sum of squares of the target. Half or twice as much
# changes R2 by less than its noise (4,000 and 20,000 rows, 25 fits).
_SQUARE_PART = Fraction(1, 10)

# Eigenvalues of sums of products, over the largest one: less is rounding, of columns that
# follow from others. Floats are exact to 2**-53, and rounding of thousands of products
# adds up.
_MIN_EIGENVALUE = 2.0**-40

# Penalties, over sums of squares: a larger one leaves less than a thousandth of a slope,
# and would hide small sums of products in the rounding of floats.
_LARGEST_PENALTY = 2.0**10

# The smallest sum of squares that public columns leave of the target, in standard errors.
_LEAST = 3.0


@dataclass(frozen=True, eq=False)
class PrivateTarget:
    """A target as integers between its bounds."""

    # (n_rows, 1), each at most `UNIT` in size.
    places: NDArray[np.int64]
    # The value that values are measured from, and the unit of places over `UNIT`.
    start: float
    unit: float
    # The largest change of a place by another value.
    largest_change: int

    @classmethod
    def of(cls, target: Batches, ends: Floats, *, centred: bool) -> PrivateTarget:
        """Place values between bounds, in units from their middle, or from 0."""
        # Sums of ends near the largest float would be infinite.
        starts = np.zeros(1)
        if centred:
            starts = ends[:, 0] + (ends[:, 1] - ends[:, 0]) / 2
        (numbers,) = read_numbers(target.table)
        # The ends are placed as two more rows: another value changes a place by at most
        # the distance between the places of the ends.
        with_ends = [np.append(numbers, ends[0])]
        # `Rows` have a code of their class, which nothing here reads.
        codes = np.zeros(len(with_ends[0]), int)
        places = Rows.of(with_ends, ends, starts, codes).places.astype(np.int64)
        largest_change = int(places[-1, 0] - places[-2, 0])
        unit = float(widths(ends, starts)[0])
        return cls(places[:-2], float(starts[0]), unit, largest_change)

    def noises(self, rows: PublicRows, share: Share) -> tuple[Noise, Noise]:
        """Return the noise of sums of products with public rows, and of the sum of squares."""
        # Another value of a row changes the first by its features times up to
        # `largest_change`, and the second by up to the square of `UNIT`.
        of_sums = rows.noise(share * (1 - _SQUARE_PART), self.largest_change)
        of_square = Noise.of(share * _SQUARE_PART, UNIT**2)
        return of_sums, of_square

    def draw(
        self, rows: PublicRows, noises: Sequence[Noise], source: ByteSource
    ) -> NoisyProducts:
        """Draw all noisy sums."""
        of_sums, of_square = noises
        sums = rows.noisy_sums(self.places, of_sums, source)
        # Squares count with the weight w of their row: they are those of the places times
        # sqrt(w). As w is at most 1, these are at most `UNIT` after rounding, too, which
        # is what the noise is for.
        roots = np.sqrt(rows.weights)[:, np.newaxis]
        weighted = np.rint(roots * self.places).astype(np.int64)
        products = noisy_products(weighted.T @ weighted, of_square, source)
        return NoisyProducts(
            sums=sums[:, 0] / UNIT,
            square=float(products[0, 0]),
            noise=rows.covariance(of_sums) / UNIT**2,
            # A value is placed on a grid, which is an error of up to a step.
            error=in_units(max(of_square.error, Fraction(1))),
        )


class NoisyProducts(NamedTuple):
    """Noisy sums of products, in units of the target."""

    # Of features and the target: (n_features,).
    sums: Floats
    # The sum of squares of the target.
    square: float
    # The covariance of the noise of the sums, and the standard deviation of the noise of
    # the square.
    noise: Floats
    error: float


class LinearFit(NamedTuple):
    """A linear model of the columns, with standard errors."""

    coefficients: Floats
    errors: Floats
    intercept: float
    intercept_error: float
    # What was added to the sums of squares: its mean, in units of half the widths.
    ridge: float


def penalties_in_floats(roots: Floats, largest: float) -> tuple[Floats, Floats]:
    """Return factors of columns of at most 1, and their penalties then: (n_columns,) each.

    Those of the columns themselves are the squares of `roots`, and their largest sum of
    squares is `largest`.
    """
    # Slopes that are penalised by much are measured in units that are larger by the
    # inverse of the factor.
    most = np.sqrt(_LARGEST_PENALTY * largest)
    roots = np.minimum(roots, 2.0**1000)
    factors = 1 / np.maximum(roots / most, 1.0)
    return factors, (roots * factors) ** 2


def linear_of_products(
    rows: PublicRows, target: PrivateTarget, noisy: NoisyProducts, alpha: float
) -> LinearFit:
    """Fit a linear model of a private target to public columns."""
    completed, ridge = _complete(rows, noisy)
    inputs, units = _inputs(rows)

    # Weights take the same part of the penalty as of the squares of features, of which
    # the weighted mean is 1.
    total_squares = max(float((rows.slopes**2).sum()), 1.0)
    of_weights = rows.total_weight * rows.slopes.shape[1] / total_squares
    with np.errstate(over="ignore"):  # the narrowest columns
        roots = math.sqrt(alpha) * math.sqrt(of_weights) * units
    factors, penalties = penalties_in_floats(roots, rows.total_weight)
    inputs = inputs * factors
    inverse = _inverse(inputs.T @ completed.sums @ inputs + np.diag(penalties))
    of_target = np.zeros(len(inputs))
    of_target[-1] = 1.0
    coefficients = inverse @ inputs.T @ completed.sums @ of_target

    residual = of_target - inputs @ coefficients
    square = max(float(residual @ completed.sums @ residual), noisy.error)
    spread = square / rows.n_free * completed.of_sample + completed.noise_of(residual)
    covariance = inverse @ inputs.T @ spread @ inputs @ inverse
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))

    intercept = intercept_error = 0.0
    first = int(rows.has_constant)
    if rows.has_constant:
        to_intercept = np.ones(len(units))
        to_intercept[first:] = -rows.middle * (units * factors)[first:]
        intercept = float(to_intercept @ coefficients) * target.unit + target.start
        variance = float(to_intercept @ covariance @ to_intercept)
        intercept_error = math.sqrt(max(variance, 0.0)) * target.unit
    with np.errstate(over="ignore"):  # a slope may be beyond all floats
        to_slopes = target.unit * (units * factors)[first:]
        slopes = to_slopes * coefficients[first:]
        slope_errors = to_slopes * errors[first:]
    return LinearFit(slopes, slope_errors, intercept, intercept_error, ridge)


def _inputs(rows: PublicRows) -> tuple[Floats, Floats]:
    """Return the constant, if any, and the columns as functions of features and the target, and their units.

    The functions have the shape (n_features + 1, n_inputs). A unit is one over the width
    of a column, and 0 for the constant.
    """
    first = int(rows.has_constant)
    n_features = first + rows.to_features.shape[1]
    to_columns = np.linalg.pinv(rows.to_features)  # (n_slopes, n_columns)
    inputs = np.zeros((n_features + 1, first + len(rows.middle)))
    inputs[:first, :first] = 1.0
    inputs[first:n_features, first:] = to_columns
    return inputs, np.append(np.zeros(first), rows.units)


def _inverse(products: Floats) -> Floats:
    """Return the inverse of sums of products, in the directions that columns have."""
    values, vectors = np.linalg.eigh(products)
    is_seen = values > _MIN_EIGENVALUE * values.max(initial=0.0)
    axes = vectors[:, is_seen]
    return np.asarray(axes / values[is_seen] @ axes.T, np.float64)


class _Completed(NamedTuple):
    """Sums of products of public features and the target, in this order."""

    sums: Floats
    # The covariance of sums of products with a residual of variance 1.
    of_sample: Floats
    # The covariance of the noise of the sums with the target: (n_features, n_features).
    # And the standard deviation of the noise of its square.
    noise: Floats
    error: float

    def noise_of(self, residual: Floats) -> Floats:
        """Return the covariance of the noise of the sums, times a column."""
        # Of features and the target, B, and of the target, C, noise changes the sums
        # times (u, v) by B v and B' u + C v.
        of_features, of_target = residual[:-1], residual[-1]
        spread = np.zeros_like(self.sums)
        spread[:-1, :-1] = of_target**2 * self.noise
        changes = self.noise @ of_features
        spread[-1, :-1] = spread[:-1, -1] = changes * of_target
        spread[-1, -1] = changes @ of_features + self.error**2 * of_target**2
        return spread


def _complete(rows: PublicRows, noisy: NoisyProducts) -> tuple[_Completed, float]:
    """Return all sums of products, as they are expected by the noisy ones, and the mean ridge of slopes."""
    # The target is a linear function of public features, and what these leave.
    n_rows = rows.total_weight
    n_features = len(noisy.sums)
    fit = slopes_of_sums(rows, noisy.sums, noisy.square, noisy.noise, noisy.error)
    slopes = fit.slopes[:, np.newaxis]
    of_public = n_rows * slopes.T @ slopes
    least = min(_LEAST * noisy.error, n_rows)
    left = np.clip(noisy.square - of_public, least, n_rows)

    sums = n_rows * np.eye(n_features + 1)
    sums[:-1, -1:] = n_rows * slopes
    sums[-1:, :-1] = n_rows * slopes.T
    sums[-1:, -1:] = of_public + left
    # What is left has the weights of the rows, and nothing to do with their features.
    to_all = np.hstack([np.eye(n_features), slopes])
    of_sample = to_all.T @ rows.of_sample @ to_all
    of_squares = float((rows.weights**2).sum()) / n_rows
    of_sample[-1:, -1:] += of_squares * left
    return _Completed(sums, of_sample, fit.noise, noisy.error), fit.ridge
