"""Linear models of tables of which some columns are private: their products with public columns, and each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.base import DETERMINED, SURE_STD_ERRORS, level_of_the_caller, read_numbers
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
from skdp.pages import warn
from skdp.privacy import Share, WeakGuaranteeWarning
from skdp.randomness import ByteSource

Floats = NDArray[np.float64]

# Of the budget, for products of private columns with each other. With two private
# features, half or twice of this part changes R2 by .01, or by less than its noise (4,000
# and 20,000 rows, 25 fits). With the target private, too, twice is better at an epsilon
# of .5: .296 for .246 with 4,000 rows, with errors of .02, and .477 for .461 with 20,000.
_PRODUCTS_PART = Fraction(1, 10)

# Eigenvalues of sums of products, over the largest one: less is rounding, of columns that
# follow from others. Floats are exact to 2**-53, and rounding of thousands of products
# adds up.
_LEAST_EIGENVALUE = 2.0**-40

# Penalties, over sums of squares: a larger one leaves less than a thousandth of a slope,
# and would hide small sums of products in the rounding of floats.
_LARGEST_PENALTY = 2.0**10

# The least sum of squares that public columns leave of a private one, in errors. Of 1, 3
# and 6, 1 makes single models of small tables much worse at an epsilon of .1, and 6 none
# better.
_LEAST = 3.0

# Of a product of two columns, before it is seen: correlations are uniform on [-1, 1].
_CORRELATION_VARIANCE = 1 / 3


@dataclass(frozen=True, eq=False)
class PrivateColumns:
    """Private columns as integers between bounds."""

    # (n_rows, n_private), each at most `UNIT` in size.
    places: NDArray[np.int64]
    # What values are measured from, and the unit of places over `UNIT`: (n_private,).
    starts: Floats
    units: Floats
    # The most that another value changes a place.
    largest_change: int

    @classmethod
    def of(cls, columns: Batches, ends: Floats, *, centred: bool) -> PrivateColumns:
        """Place values between bounds, in units from their middle, or from 0."""
        # Sums of ends near the largest float would be infinite.
        starts = np.zeros(len(ends))
        if centred:
            starts = ends[:, 0] + (ends[:, 1] - ends[:, 0]) / 2
        numbers = read_numbers(columns.table)
        # The ends are placed as two more rows: another value changes a place by at most
        # the distance between the places of the ends.
        with_ends = []
        for column, column_ends in zip(numbers, ends, strict=True):
            with_ends.append(np.append(column, column_ends))
        # `Rows` have a code of their class, which nothing here reads.
        codes = np.zeros(len(with_ends[0]), int)
        places = Rows.of(with_ends, ends, starts, codes).places.astype(np.int64)
        largest_change = int((places[-1] - places[-2]).max())
        return cls(places[:-2], starts, widths(ends, starts), largest_change)

    @property
    def n_private(self) -> int:
        return self.places.shape[1]

    def noises(self, rows: PublicRows, share: Share) -> tuple[Noise, Noise]:
        """Return the noise of sums of products with public rows, and of products with each other."""
        # Other values of a row change the first by its features times up to
        # `largest_change`, in each private column.
        of_sums = rows.noise(
            share * (1 - _PRODUCTS_PART),
            self.largest_change,
            n_changed=self.n_private,
        )
        # Of p values of at most 1, of squares a_j and b_j before and after, half of
        #     |a|_1**2 + |b|_1**2 + |a - b|**2
        # is the most that the squares of the changes of all products add up to. It is
        # convex in a and b, and p**2 is the largest of its values where all of these are
        # 0 or 1. In size, a square changes by at most 1, and another product by 2.
        largest = self.n_private**2
        of_products = Noise.of(
            share * _PRODUCTS_PART, largest * UNIT**2, largest * UNIT**4
        )
        return of_sums, of_products

    def draw(
        self, rows: PublicRows, noises: Sequence[Noise], source: ByteSource
    ) -> NoisyProducts:
        """Draw all noisy sums."""
        of_sums, of_products = noises
        sums = rows.noisy_sums(self.places, of_sums, source)
        # Products of two columns count with the weight w of their row: they are those of
        # the places times sqrt(w). As w is at most 1, these are at most `UNIT` after
        # rounding, too, which is what the noise is for.
        roots = np.sqrt(rows.weights)[:, np.newaxis]
        weighted = np.rint(roots * self.places).astype(np.int64)
        products = noisy_products(weighted.T @ weighted, of_products, source)
        return NoisyProducts(
            sums=sums / UNIT,
            products=products,
            noise=rows.covariance(of_sums) / UNIT**2,
            # A value is placed on a grid, which is an error of up to a step.
            error=in_units(max(of_products.error, Fraction(1))),
        )


class NoisyProducts(NamedTuple):
    """Noisy sums of products, in units of the private columns."""

    # Of features and private columns: (n_features, n_private).
    sums: Floats
    # Of private columns: (n_private, n_private).
    products: Floats
    # The covariance of the noise of the sums with one column, and the standard
    # deviation of that of a product.
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


class _Inputs(NamedTuple):
    """The constant, if any, and the columns of a model, as functions of public features and private columns."""

    # (n_features + n_private, n_inputs), and of the target: (n_features + n_private,).
    inputs: Floats
    target: Floats
    # Of each input, one over the width: (n_inputs,), of which the constant has 0.
    units: Floats

    @classmethod
    def of(
        cls, rows: PublicRows, columns: PrivateColumns, *, has_target: bool
    ) -> _Inputs:
        """Return the columns in units of their widths, public ones first."""
        first = int(rows.has_constant)
        n_public = len(rows.middle) - has_target
        n_private = columns.n_private - (not has_target)
        n_features = first + rows.to_features.shape[1]
        n_known = first + n_public
        to_columns = np.linalg.pinv(rows.to_features)  # (n_slopes, n_columns)
        private = np.arange(n_private)

        inputs = np.zeros((n_features + columns.n_private, n_known + n_private))
        inputs[:first, :first] = 1.0
        inputs[first:n_features, first:n_known] = to_columns[:, :n_public]
        inputs[n_features + private, n_known + private] = 1.0
        target = np.zeros(len(inputs))
        target[-1] = 1.0
        if has_target:
            target[-1] = 0.0
            target[first:n_features] = to_columns[:, -1]

        units = np.zeros(n_known + n_private)
        units[first:n_known] = rows.units[:n_public]
        units[n_known:] = 1 / columns.units[:n_private]
        return cls(inputs, target, units)


def linear_of_products(
    rows: PublicRows,
    columns: PrivateColumns,
    noisy: NoisyProducts,
    alpha: float,
    *,
    has_target: bool,
) -> LinearFit:
    """Fit a linear model to public and private columns: first the public ones, then the private ones.

    The target is the last of `rows` if these have it, or else the last of `columns`.
    """
    completed, ridge = _complete(rows, noisy)
    inputs, target, units = _Inputs.of(rows, columns, has_target=has_target)

    # Weights take the same part of the penalty as of the squares of features, of which
    # the weighted mean is 1.
    total_squares = max(float((rows.slopes**2).sum()), 1.0)
    of_weights = rows.total_weight * rows.slopes.shape[1] / total_squares
    with np.errstate(over="ignore"):  # the narrowest columns
        roots = math.sqrt(alpha) * math.sqrt(of_weights) * units
    factors, penalties = penalties_in_floats(roots, rows.total_weight)
    inputs = inputs * factors
    inverse = _inverse(inputs.T @ completed.sums @ inputs + np.diag(penalties))
    coefficients = inverse @ inputs.T @ completed.sums @ target

    residual = target - inputs @ coefficients
    square = max(float(residual @ completed.sums @ residual), noisy.error)
    spread = square / rows.n_free * completed.of_sample + completed.noise_of(residual)
    covariance = inverse @ inputs.T @ spread @ inputs @ inverse
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))

    scale, shift = _target_unit(rows, columns, has_target=has_target)
    intercept = intercept_error = 0.0
    first = int(rows.has_constant)
    if rows.has_constant:
        n_public = len(rows.middle) - has_target
        n_private = len(units) - first - n_public
        middle = np.append(rows.middle[:n_public], columns.starts[:n_private])
        to_intercept = np.ones(len(units))
        to_intercept[first:] = -middle * (units * factors)[first:]
        intercept = float(to_intercept @ coefficients) * scale + shift
        variance = float(to_intercept @ covariance @ to_intercept)
        intercept_error = math.sqrt(max(variance, 0.0)) * scale
    with np.errstate(over="ignore"):  # a slope may be beyond all floats
        to_slopes = scale * (units * factors)[first:]
        slopes = to_slopes * coefficients[first:]
        slope_errors = to_slopes * errors[first:]
    return LinearFit(slopes, slope_errors, intercept, intercept_error, ridge)


def _inverse(products: Floats) -> Floats:
    """Return the inverse of sums of products, in the directions that columns have."""
    values, vectors = np.linalg.eigh(products)
    is_seen = values > _LEAST_EIGENVALUE * values.max(initial=0.0)
    axes = vectors[:, is_seen]
    return np.asarray(axes / values[is_seen] @ axes.T, np.float64)


def find_linear_functions(
    rows: PublicRows, noisy: NoisyProducts, n_columns: int
) -> list[int]:
    """Find those of the first private columns that surely are linear functions of public ones, by the noisy sums."""
    n_rows = rows.total_weight
    first = int(rows.has_constant)
    functions = []
    for column in range(n_columns):
        sums = noisy.sums[:, column]
        mean_squares, mean_error = _explained_squares(
            sums[:first], noisy.noise[:first, :first], n_rows
        )
        slope_squares, slope_error = _explained_squares(
            sums[first:], noisy.noise[first:, first:], n_rows
        )
        total = float(noisy.products[column, column]) - mean_squares
        # What is left has fewer degrees of freedom than rows.
        scale = n_rows / rows.n_free
        left = scale * (total - slope_squares)
        excess = (1 - DETERMINED) * total - left
        # This is ``scale * slope_squares - (scale - 1 + DETERMINED) * total``. Errors are
        # added, as they may be correlated.
        total_error = noisy.error + mean_error
        error = scale * slope_error + (scale - 1 + DETERMINED) * total_error
        if excess > SURE_STD_ERRORS * error:
            functions.append(column)
    return functions


def _explained_squares(
    sums: Floats, noise: Floats, n_rows: float
) -> tuple[float, float]:
    """Return the sum of squares of a column that features explain, and its standard error."""
    # Features have a weighted mean square of 1, so that sums S of their products with a
    # column explain S @ S / n_rows of its squares. Noise of the symmetric covariance C
    # adds the trace of C to S @ S, and an error of variance 4 S @ C @ S + 2 trace(C @ C).
    squares = float(sums @ sums - np.trace(noise))
    variance = float(4 * sums @ noise @ sums + 2 * (noise**2).sum())
    return squares / n_rows, math.sqrt(variance) / n_rows


def warn_linear_functions(names: Sequence[Any]) -> None:
    """Warn of private columns that follow from public ones."""
    # Post-processing of noisy sums: that there is a warning is released, too.
    if not names:
        return
    warn(
        f"by the noisy sums, the values of {', '.join(map(repr, names))} follow from "
        "public columns in nearly all rows. Nothing limits what these tell: protect "
        "them too, or drop them",
        WeakGuaranteeWarning,
        about="guarantees/named_columns#what-is-not-promised",
        stacklevel=level_of_the_caller(),
    )


def _target_unit(
    rows: PublicRows, columns: PrivateColumns, *, has_target: bool
) -> tuple[float, float]:
    """Return the unit of the target, and what it is measured from."""
    if not has_target:
        return float(columns.units[-1]), float(columns.starts[-1])
    unit = float(rows.units[-1])
    width = 1 / unit if unit > 0 else 1.0
    return width, float(rows.middle[-1])


class _Completed(NamedTuple):
    """Sums of products of public features and private columns, in this order."""

    sums: Floats
    # The covariance of sums of products with a residual of variance 1.
    of_sample: Floats
    # Of the sums with each private column, the covariance of the noise: (n_private,
    # n_features, n_features). And the standard deviation of a product of two.
    noises: Floats
    error: float

    def noise_of(self, residual: Floats) -> Floats:
        """Return the covariance of the noise of the sums, times a column."""
        # Of features and private columns, B, and of private columns, C, noise changes the
        # sums times (u, v) by B v and B' u + C v.
        n_features = self.noises.shape[1]
        of_features, of_columns = residual[:n_features], residual[n_features:]
        squares = of_columns**2
        spread = np.zeros_like(self.sums)
        spread[:n_features, :n_features] = np.einsum("j,jfg->fg", squares, self.noises)
        changes = self.noises @ of_features  # (n_private, n_features)
        spread[n_features:, :n_features] = changes * of_columns[:, np.newaxis]
        spread[:n_features, n_features:] = spread[n_features:, :n_features].T
        both = np.outer(of_columns, of_columns) - np.diag(squares)
        alone = changes @ of_features + self.error**2 * squares.sum()
        spread[n_features:, n_features:] = np.diag(alone) + self.error**2 * both
        return spread


def _complete(rows: PublicRows, noisy: NoisyProducts) -> tuple[_Completed, float]:
    """Return all sums of products, as they are expected by the noisy ones, and the mean ridge of slopes."""
    # Private columns are linear functions of public features, and what these leave.
    n_rows = rows.total_weight
    n_features, n_private = noisy.sums.shape
    fits = []
    for column in range(n_private):
        fit = slopes_of_sums(
            rows,
            noisy.sums[:, column],
            float(noisy.products[column, column]),
            noisy.noise,
            noisy.error,
        )
        fits.append(fit)
    slopes = np.stack([fit.slopes for fit in fits], axis=1)
    of_public = n_rows * slopes.T @ slopes
    left = _settled(noisy.products - of_public, noisy.error, n_rows)

    sums = n_rows * np.eye(n_features + n_private)
    sums[:n_features, n_features:] = n_rows * slopes
    sums[n_features:, :n_features] = n_rows * slopes.T
    sums[n_features:, n_features:] = of_public + left
    # What is left has the weights of the rows, and nothing to do with their features.
    to_all = np.hstack([np.eye(n_features), slopes])
    of_sample = to_all.T @ rows.of_sample @ to_all
    of_squares = float((rows.weights**2).sum()) / n_rows
    of_sample[n_features:, n_features:] += of_squares * left
    noises = np.stack([fit.noise for fit in fits])
    completed = _Completed(sums, of_sample, noises, noisy.error)
    return completed, float(np.mean([fit.ridge for fit in fits]))


def _settled(products: Floats, error: float, n_rows: float) -> Floats:
    """Return noisy products of columns that are at most 1 as ones that may be."""
    least = min(_LEAST * error, n_rows)
    squares = np.clip(np.diag(products), least, n_rows)
    # Products with each other are drawn towards 0 as far as noise hides them.
    most = _CORRELATION_VARIANCE * np.outer(squares, squares)
    variances = np.clip(products**2 - error**2, 0.0, most)
    settled = products * variances / (variances + error**2)
    np.fill_diagonal(settled, squares)
    values, vectors = np.linalg.eigh(settled)
    return np.asarray(vectors * np.maximum(values, least) @ vectors.T, np.float64)
