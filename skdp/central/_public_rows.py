"""Linear models of a private target with public columns, from noisy sums of features times the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from skdp.base import read_numbers
from skdp.central.statistics import UNIT, Batches, Noise, Rows, as_float, in_units
from skdp.privacy import Share
from skdp.randomness import ByteSource

Floats = NDArray[np.float64]

# The longest row, in steps of the grid: rounding changes a row by less than 2**-15 of it.
LENGTH = 1 << 16

# Rows at a time: floats add up their products with targets exactly, below 2**(16 + 15 +
# 17).
BLOCK = 1 << 17

# Smaller fractions of the variance belong to columns that follow from others.
MIN_VARIANCE = 1e-9

# Fraction of the rows that have the weight 1. On Adult, .1 to .5 give the same area.
WHOLE = 0.25

# Rounds in which weights and lengths of rows follow from each other. With one, the area
# of Adult is .83 instead of .86 at an epsilon of .5.
N_ROUNDS = 8

# Fraction of the budget for the sum of squares of the target.
SQUARE_PART = Fraction(1, 10)

# Spreads of coefficients to average over, as mean squares of predictions: from a
# tenth of the noise to 1.5 times the limit, which predictions exceed by chance.
N_SPREADS, MIN_SPREAD, MAX_SPREAD = 48, 0.1, 1.5

# Roots of penalties in floats: beyond this, a coefficient is 0.
MAX_ROOT = 2.0**200


def whiten(columns: Floats, weights: Floats, constant: bool) -> tuple[Floats, Floats]:
    """Return the weighted means of columns, and the matrix from centred columns to features without correlation."""
    total = max(float(weights.sum()), 1.0)
    middle = np.zeros(columns.shape[1])
    if constant:
        middle = weights @ columns / total
    centred = columns - middle
    products = (centred * weights[:, np.newaxis]).T @ centred / total
    values, vectors = np.linalg.eigh(products)
    is_seen = values > MIN_VARIANCE * max(values.max(initial=0.0), 2.0**-60)
    return middle, vectors[:, is_seen] / np.sqrt(values[is_seen])


class Shrinkage(NamedTuple):
    """The posterior of coefficients, given noisy sums: a mean over the spreads that coefficients may have."""

    # Orthonormal directions in which coefficients are independent.
    basis: Floats
    # The ratio of the posterior mean to the unshrunk estimate, and the posterior
    # variance, by direction.
    factors: Floats
    variances: Floats
    curvature: float

    @property
    def solve(self) -> Floats:
        """The matrix from sums to coefficients."""
        return (self.basis * self.factors) @ self.basis.T / self.curvature

    @property
    def penalty(self) -> Floats:
        """The P for which ``curvature * c + P @ c = sums`` has the solution `solve` @ sums."""
        ratios = self.curvature * (1 / self.factors - 1)
        return (self.basis * ratios) @ self.basis.T

    @property
    def covariance(self) -> Floats:
        return (self.basis * self.variances) @ self.basis.T


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Public rows as features without correlation; nothing here follows from the target."""

    # The weighted mean of each column, and one over the width: 0 for constant columns.
    middle: Floats
    units: Floats
    # From columns in these units to features: (n_columns, n_features).
    to_features: Floats
    # (n_rows, n_features), with a weighted mean of squares of 1 each, and a mean of 0 if
    # there is a constant.
    features: Floats
    has_constant: bool
    # At most 1, and less for long rows: (n_rows,).
    weights: Floats

    @classmethod
    def read(cls, batches: Batches, *, constant: bool) -> PublicRows:
        """Read the rows of a table in memory."""
        columns = read_public_numbers(batches)
        n_rows, n_columns = columns.shape
        low = columns.min(axis=0, initial=np.inf) if constant else np.zeros(n_columns)
        low = np.where(np.isfinite(low), low, 0.0)
        width = np.abs(columns - low).max(axis=0, initial=0.0)
        is_narrow = (width > 0) & (width < np.finfo(float).tiny)
        if is_narrow.any():
            raise ValueError(
                f"values of column {batches.names[int(np.argmax(is_narrow))]!r} differ by "
                f"less than {np.finfo(float).tiny:.1g}. Multiply it by a power of ten."
            )
        units = np.divide(1.0, width, out=np.zeros(n_columns), where=width > 0)
        scaled = (columns - low) * units
        # The noise is in proportion to the longest row, so long rows get a weight that
        # makes them as long as a quantile of all.
        weights = np.ones(n_rows)
        for _ in range(N_ROUNDS):
            shift, to_features = whiten(scaled, weights, constant)
            lengths = np.linalg.norm((scaled - shift) @ to_features, axis=1)
            limit = float(np.quantile(lengths, WHOLE)) if n_rows else 0.0
            weights = np.minimum(
                1.0, max(limit, 2.0**-60) / np.maximum(lengths, 2.0**-60)
            )
        shift, to_features = whiten(scaled, weights, constant)
        features = (scaled - shift) @ to_features
        middle = low + shift * width
        return cls(middle, units, to_features, features, constant, weights)

    @property
    def total_weight(self) -> float:
        return max(float(self.weights.sum()), 1.0)

    @property
    def inputs(self) -> Floats:
        """The features, after the constant if there is one."""
        if not self.has_constant:
            return self.features
        return np.hstack([np.ones((len(self.features), 1)), self.features])

    def place(self) -> tuple[NDArray[np.int64], float]:
        """Return the weighted inputs as integers, and the unit of these."""
        weighted = self.inputs * self.weights[:, np.newaxis]
        longest = float(np.linalg.norm(weighted, axis=1).max(initial=0.0))
        unit = max(longest, 2.0**-60) / LENGTH
        return np.rint(weighted / unit).astype(np.int64), unit

    def noise(self, share: Share, change: int, n_changed: int = 1) -> Noise:
        """Return the noise of sums of integer inputs times integers of the target.

        Another target of a row changes `n_changed` of these integers by `change` at most.
        """
        # Sums of integers are exact in any order, so that a target changes them by its
        # own row alone. The longest row is public.
        places, _ = self.place()
        sizes = np.abs(places)
        l1 = int(sizes.sum(axis=1).max(initial=1)) * change * n_changed
        square = int((sizes**2).sum(axis=1).max(initial=1)) * change**2 * n_changed
        noises = [Noise.of(share, l1, square)]
        if n_changed == 1 and places.shape[1]:
            largest = int(sizes.max(initial=1)) * change
            noises.append(Noise.joint(share, largest, places.shape[1]))
        return min(noises, key=lambda noise: noise.error)

    def noisy_sums(
        self, targets: NDArray[np.int64], noise: Noise, source: ByteSource
    ) -> Floats:
        """Return the sums of inputs times integers of the target, with noise: (n_inputs, n_integers)."""
        places, unit = self.place()
        sums = np.zeros((places.shape[1], targets.shape[1]), np.int64)
        for start in range(0, len(places), BLOCK):
            rows = slice(start, start + BLOCK)
            products = places[rows].T.astype(float) @ targets[rows].astype(float)
            sums += products.astype(np.int64)
        noisy = noise.add(source, sums.ravel().tolist())
        return unit * np.reshape([*map(as_float, noisy)], sums.shape)

    def noise_variance(self, noise: Noise) -> float:
        """Return the variance of the noise of each of `noisy_sums`."""
        _, unit = self.place()
        return (as_float(noise.error) * unit) ** 2

    def sample_variance(self) -> float:
        """Return the variance of a sum of weighted features times a column of variance 1, on average."""
        n_features = max(self.features.shape[1], 1)
        return float((self.weights**2 @ self.features**2).sum()) / n_features

    def shrink(
        self, sums: Floats, variance: float, curvature: float, limit: float
    ) -> Shrinkage:
        """Estimate coefficients from sums that are `curvature` times them, with errors of a variance.

        The sums are of shape (n_features, n_outputs); `limit` is a bound of the mean square of predictions.
        """
        # In units of the widths of columns, coefficients are independent and of one
        # size, before the sums are seen (empirical Bayes: C. Morris, 1983).
        size = self.to_features.shape[1]
        if size == 0:
            return Shrinkage(np.zeros((0, 0)), np.ones(0), np.zeros(0), curvature)
        values, basis = np.linalg.eigh(
            np.linalg.inv(self.to_features.T @ self.to_features)
        )
        values = np.maximum(values, 2.0**-60 * values.max()) / values.sum()
        # The mean square of predictions is the squared norm of the coefficients.
        of_noise = size * variance / curvature**2
        smallest = MIN_SPREAD * min(of_noise, limit / 10)
        spreads = np.geomspace(smallest, MAX_SPREAD * limit, N_SPREADS)
        signals = np.outer(spreads, values) * (curvature**2 / variance)
        numbers = basis.T @ sums / math.sqrt(variance)
        # The likelihood of each spread: numbers are normal, with mean 0.
        squares = (numbers**2).sum(axis=1)
        misfits = sums.shape[1] * np.log1p(signals) + squares / (1 + signals)
        probabilities = softmax(-misfits.sum(axis=1) / 2)
        ratios = signals / (1 + signals)
        factors = np.maximum(probabilities @ ratios, 2.0**-200)
        # The posterior variance given the spread, and the variance by the spread.
        spread_variances = np.maximum(probabilities @ ratios**2 - factors**2, 0.0)
        variances = factors + spread_variances * squares / sums.shape[1]
        return Shrinkage(basis, factors, variances * variance / curvature**2, curvature)


def read_public_numbers(batches: Batches) -> Floats:
    """Read the numbers of public columns: (n_rows, n_columns)."""
    numbers = np.stack(read_numbers(batches.table), axis=1)
    with np.errstate(over="ignore"):
        if len(numbers) and not np.isfinite(np.ptp(numbers, axis=0)).all():
            raise ValueError("X holds numbers whose differences are beyond all floats")
    return numbers


# Linear regression


@dataclass(frozen=True, eq=False)
class PrivateTarget:
    """A target as integers between its bounds, of at most `UNIT` in size: (n_rows, 1)."""

    places: NDArray[np.int64]
    # The value of place 0, and the unit of places over `UNIT`.
    start: float
    unit: float
    # The largest change of a place by another value.
    largest_change: int

    @classmethod
    def read(cls, target: Batches, ends: Floats, *, centred: bool) -> PrivateTarget:
        """Place values between bounds, from their middle or from 0."""
        low, high = ends[0]
        start = low + (high - low) / 2 if centred else 0.0
        unit = max(high - start, start - low)
        (numbers,) = read_numbers(target.table)
        # The bounds are placed as two more rows: another value changes a place by at
        # most the distance between them.
        with_ends = np.append(numbers, ends[0])
        no_codes = np.zeros(len(with_ends), int)
        rows = Rows.of([with_ends], ends, np.array([start]), no_codes)
        places = rows.places.astype(np.int64)
        largest_change = int(places[-1, 0] - places[-2, 0])
        return cls(places[:-2], float(start), float(unit), largest_change)

    def noises(self, rows: PublicRows, share: Share) -> tuple[Noise, Noise]:
        """Return the noise of sums of products with public rows, and of the sum of squares."""
        of_sums = rows.noise(share * (1 - SQUARE_PART), self.largest_change)
        return of_sums, Noise.of(share * SQUARE_PART, UNIT**2)


class LinearFit(NamedTuple):
    """A linear model of the columns, with standard errors."""

    coefficients: Floats
    errors: Floats
    intercept: float
    intercept_error: float
    # The mean of the penalty of squared coefficients, in units of half the widths.
    ridge: float


def fit_linear(
    rows: PublicRows,
    target: PrivateTarget,
    noises: Sequence[Noise],
    source: ByteSource,
    *,
    alpha: float,
) -> LinearFit:
    """Release the sums with the target, and fit a linear model."""
    of_sums, of_square = noises
    sums = rows.noisy_sums(target.places, of_sums, source)[:, 0] / UNIT
    # Squares have the weight of their row: with its root, places are at most `UNIT`.
    roots = np.sqrt(rows.weights)[:, np.newaxis]
    weighted = np.rint(roots * target.places).astype(np.int64)
    (square,) = of_square.add(source, [int((weighted**2).sum())])
    square_error = in_units(max(of_square.error, Fraction(1)))
    noise = rows.noise_variance(of_sums) / UNIT**2

    # The mean, shrunk toward the middle of the bounds as if it were uniform within the
    # root of the mean square.
    n_rows = rows.total_weight
    level = level_variance = 0.0
    first = int(rows.has_constant)
    smallest = min(max(square_error / n_rows, 2.0**-60), 1.0)
    mean_square = float(np.clip(in_units(square) / n_rows, smallest, 1.0))
    limit = _estimate_square(in_units(square) / n_rows, square_error / n_rows)
    if rows.has_constant:
        variance = (noise + mean_square * rows.weights @ rows.weights) / n_rows**2
        factor = limit / (limit + 3 * noise / n_rows**2)
        level = factor * float(np.clip(sums[0] / n_rows, -1.0, 1.0))
        level_variance = min(variance, 1 / 3)
    limit = max(limit - level**2, smallest)

    # The variance that the model leaves follows from the coefficients, and these from
    # it: the second round changes both by little.
    unexplained = float(np.clip(mean_square - level**2, smallest, 1.0))
    total = unexplained
    slope_sums = sums[first:]
    for _ in range(2):
        variance = unexplained * rows.sample_variance() + noise
        shrinkage = rows.shrink(slope_sums[:, np.newaxis], variance, n_rows, limit)
        slopes = shrinkage.solve @ slope_sums
        explained = (2 * slopes @ slope_sums - n_rows * slopes @ slopes) / n_rows
        # The slopes follow the noise, too.
        of_noise = variance * (2 - shrinkage.factors) @ shrinkage.factors / n_rows**2
        left = total - float(explained) + float(of_noise)
        unexplained = float(np.clip(left, smallest, 1.0))

    # Weights take the same part of the penalty as of the squares of features, of which
    # the weighted mean is 1.
    squares = max(float((rows.features**2).sum()), 1.0)
    alpha *= n_rows * rows.features.shape[1] / squares
    penalties, to_columns = _penalize(rows, alpha)
    shrunk = np.linalg.inv(np.eye(len(slopes)) + shrinkage.solve @ penalties)
    slopes = shrunk @ slopes
    covariance = shrunk @ shrinkage.covariance @ shrunk.T

    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # a slope may be beyond all floats
        units = target.unit * rows.units
        coefficients = units * (to_columns @ slopes)
        variances = ((to_columns @ covariance) * to_columns).sum(axis=1)
        errors = units * np.sqrt(np.maximum(variances, 0.0))
        intercept = intercept_error = 0.0
        if rows.has_constant:
            from_middle = rows.middle * rows.units @ to_columns
            intercept = target.start + target.unit * float(level - from_middle @ slopes)
            variance = level_variance + from_middle @ covariance @ from_middle
            intercept_error = target.unit * math.sqrt(max(float(variance), 0.0))
    ridge = 0.0
    if len(slopes):
        # A column with a constant has the width 1, which is two halves.
        half_width = 0.5 if rows.has_constant else 1.0
        penalty = half_width**2 * float((rows.to_features**2).sum())
        ridge = float(np.trace(shrinkage.penalty)) / penalty
    return LinearFit(coefficients, errors, intercept, intercept_error, ridge)


def _estimate_square(noisy: float, error: float) -> float:
    """Estimate the mean square of numbers from -1 to 1."""
    # All of these sizes are equally likely, before the noisy one is seen.
    sizes = 2.0 ** np.arange(-8, 0.5, 0.5)
    spread = np.hypot(error, sizes / 6)
    misfits = ((np.clip(noisy, 0.0, 1.0) - sizes) / spread) ** 2
    probabilities = softmax(-misfits / 2 - np.log(spread))
    return float(np.exp(probabilities @ np.log(sizes)))


def _penalize(rows: PublicRows, alpha: float) -> tuple[Floats, Floats]:
    """Return the penalty of features, and the matrix to coefficients of columns in units of the widths."""
    if not alpha or not rows.features.shape[1]:
        return np.zeros((rows.features.shape[1],) * 2), rows.to_features
    # Of all coefficients with the same features, those with the smallest squares in the
    # columns' own units: if columns follow from others, there are many.
    is_varying = rows.units > 0
    widths = np.zeros(len(rows.units))
    widths[is_varying] = rows.units[is_varying].min() / rows.units[is_varying]
    to_features = np.linalg.pinv(rows.to_features) * widths
    products = np.linalg.pinv(to_features @ to_features.T, hermitian=True)
    root = min(math.sqrt(alpha) * float(rows.units[is_varying].min()), MAX_ROOT)
    to_columns = widths[:, np.newaxis] * (to_features.T @ products)
    return root**2 * products, to_columns


# Logistic regression


class LogisticFit(NamedTuple):
    """A logistic model of the columns: (n_outputs, n_columns) and (n_outputs,)."""

    coefficients: Floats
    intercepts: Floats
    n_steps: int


def fit_logistic(rows: PublicRows, sums: Floats, noise: float) -> LogisticFit:
    """Fit a logistic model to sums of inputs over the rows of each class, with noise of a variance.

    Of two classes, `sums` has one column, of the second class; of more, one for each.
    """
    n_rows = rows.total_weight
    n_outputs = sums.shape[1]
    inputs = rows.inputs
    totals = (rows.weights @ inputs)[:, np.newaxis]
    if n_outputs > 1:
        # All classes together have all rows, which are public.
        sums = sums + (totals - sums.sum(axis=1, keepdims=True)) / n_outputs
    first = int(rows.has_constant)
    proportions = np.full(n_outputs, 1 / max(n_outputs, 2))
    if rows.has_constant:
        proportions = _estimate_proportions(sums[0], noise, n_rows)
        sums = np.vstack([n_rows * proportions, sums[1:]])

    # Without slopes, each row has the proportions as its probabilities.
    differences = sums[first:] - totals[first:] * proportions
    variance = float((proportions * (1 - proportions)).sum())
    if n_outputs > 1:
        # Differences of all classes add up to 0: n - 1 directions are left.
        variance /= n_outputs - 1
        centred = np.eye(n_outputs) - 1 / n_outputs
        differences = differences @ np.linalg.svd(centred)[0][:, :-1]
    # With small logits of variance v, ``variance**2 * v`` of the variance of indicators
    # is explained, which is at most all of it.
    shrinkage = rows.shrink(
        differences,
        variance * rows.sample_variance() + noise,
        n_rows * variance,
        1 / variance,
    )
    # Slopes in units in which the loss has about the same curvature in all directions.
    to_inputs = np.eye(len(sums))
    to_inputs[first:, first:] = shrinkage.basis * np.sqrt(shrinkage.factors)
    penalties = np.zeros((len(sums), 1))
    penalties[first:, 0] = shrinkage.curvature * (1 - shrinkage.factors)
    scaled_inputs = inputs @ to_inputs
    scaled_sums = to_inputs.T @ sums

    def loss(flat: Floats) -> tuple[float, Floats]:
        """Return the penalized loss of a row and its gradient."""
        scaled = flat.reshape(sums.shape)
        logits = scaled_inputs @ scaled
        if n_outputs == 1:
            logits = np.hstack([logits, np.zeros_like(logits)])
        partition = logsumexp(logits, axis=1)
        probabilities = np.exp(logits - partition[:, np.newaxis])[:, :n_outputs]
        weighted = rows.weights[:, np.newaxis] * probabilities
        change = penalties * scaled
        value = rows.weights @ partition + (scaled * (change / 2 - scaled_sums)).sum()
        gradient = scaled_inputs.T @ weighted - scaled_sums + change
        return float(value) / n_rows, gradient.ravel() / n_rows

    found = minimize(loss, np.zeros(sums.size), jac=True, method="L-BFGS-B")
    coefficients = to_inputs @ found.x.reshape(sums.shape)
    columns = (rows.units[:, np.newaxis] * (rows.to_features @ coefficients[first:])).T
    constants = coefficients[0] if first else np.zeros(n_outputs)
    return LogisticFit(columns, constants - columns @ rows.middle, int(found.nit))


def _estimate_proportions(sums: Floats, noise: float, n_rows: float) -> Floats:
    """Return the proportions of classes, shrunk toward equal ones as far as they are noise."""
    n_classes = max(len(sums), 2)
    # A proportion that is uniform on [0, 1] has the variance of a twelfth.
    weight = 1 / (1 + 12 * noise / n_rows**2)
    smallest = 0.5 / max(n_rows, n_classes)
    proportions = weight * sums / n_rows + (1 - weight) / n_classes
    proportions = np.clip(proportions, smallest, 1 - smallest)
    return proportions if len(sums) == 1 else proportions / proportions.sum()
