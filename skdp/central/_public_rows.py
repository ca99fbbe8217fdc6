"""Models of a private target whose rows are public: one noisy vector of sums, and what is made of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import expit, softmax

from skdp.base import read_numbers
from skdp.central.statistics import Batches, Noise
from skdp.privacy import Share
from skdp.randomness import ByteSource

Floats = NDArray[np.float64]

# Of the values of the longest row: a step of the grid changes a row by less than
# 2**-15 of it, which is far below the noise.
_GRID = 1 << 16

# Rows at a time: floats add up their products with targets exactly, below 2**(16 + 15 +
# 17).
_BLOCK = 1 << 17

# Directions with less of the variance than this are those of columns that follow from
# others, and rounding.
_LEAST_VARIANCE = 1e-9

# Steps of the design. On Adult and ACS, the longest row is then 8 % and 11 % above its
# least length in squares, at a tenth of the time of a full solution.
_DESIGN_STEPS = 20

# Of Newton's method, which needs about ten.
_MOST_STEPS = 100

# Of the variance that the model leaves, and the prior that follows from it: the third
# changes coefficients by less than a hundredth of their errors.
_N_VARIANCES = 3

# Of the norm of the gradient: the noise is larger than this by many powers of ten.
_PRECISION = 1e-7

_LARGEST_CHANGE = 4.0


def public_numbers(batches: Batches) -> Floats:
    """Read the numbers of public columns, of a table in memory: (n_rows, n_columns)."""
    if batches.large is not None:
        raise TypeError(
            "protect='target' needs a table in memory, as skdp.engines only adds "
            "up: collect it first"
        )
    numbers = np.stack(read_numbers(batches.table), axis=1)
    if len(numbers):
        with np.errstate(over="ignore"):
            width = np.ptp(numbers, axis=0)
        if not np.isfinite(width).all():
            raise ValueError("X holds numbers whose differences are beyond all floats")
    return numbers


def public_ranges(batches: Batches) -> Floats:
    """Return the ends of the values of public columns, of a constant one wider ends: (n_columns, 2)."""
    numbers = public_numbers(batches)
    if not len(numbers):
        return np.tile([0.0, 1.0], (numbers.shape[1], 1))
    low = numbers.min(axis=0)
    high = numbers.max(axis=0)
    is_constant = low == high
    # Towards 0, so that there is no width beyond all floats.
    distance = np.where(is_constant, np.maximum(np.abs(low) / 2, 1.0), 0.0)
    is_positive = low >= 0
    ends = [low - distance * is_positive, high + distance * ~is_positive]
    return np.column_stack(ends)


class Prior(NamedTuple):
    """What coefficients are expected to be, as the noisy sums say."""

    # Of coefficients in `PublicRows.features`.
    precision: Floats
    # What the penalty is: not symmetric, as the noise has another shape.
    penalty: Floats


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Public rows, as features that are not correlated; and as integers, whose sums with the target get noise.

    Nothing here follows from the target.
    """

    # Of each column, the middle and one over the width: constant ones have 0.
    middle: Floats
    units: Floats
    # From columns in these units to features: (n_columns, n_features).
    to_features: Floats
    # Whether there is a constant, which is the first feature.
    has_constant: bool
    # (n_rows, n_features), of which the mean of squares is 1.
    features: Floats

    @classmethod
    def of(cls, batches: Batches, *, constant: bool) -> PublicRows:
        """Read the rows of a table."""
        columns = public_numbers(batches)
        n_rows, n_columns = columns.shape
        middle = np.zeros(n_columns)
        width = np.zeros(n_columns)
        if n_rows and constant:
            middle = columns.mean(axis=0)
            width = np.ptp(columns, axis=0)
        elif n_rows:
            width = np.abs(columns).max(axis=0)
        units = np.divide(1.0, width, out=np.zeros(n_columns), where=width > 0)
        scaled = (columns - middle) * units
        values, vectors = np.linalg.eigh(scaled.T @ scaled / max(n_rows, 1))
        is_seen = values > _LEAST_VARIANCE * max(values.max(initial=0.0), 2.0**-60)
        to_features = vectors[:, is_seen] / np.sqrt(values[is_seen])
        features = scaled @ to_features
        if constant:
            features = np.hstack([np.ones((n_rows, 1)), features])
        return cls(middle, units, to_features, constant, features)

    @property
    def n_rows(self) -> int:
        return len(self.features)

    @property
    def slopes(self) -> Floats:
        """The features but the constant."""
        return self.features[:, 1:] if self.has_constant else self.features

    @cached_property
    def shape(self) -> Floats:
        """A matrix of which the product with its transpose is the shape of the noise.

        Its noise has the least volume of all that covers the rows: the ellipsoid of
        Loewner and John, which is a D-optimal design, by the steps of Titterington.
        """
        n_features = self.features.shape[1]
        weights = np.full(self.n_rows, 1 / max(self.n_rows, 1))
        root = np.eye(n_features)
        for _ in range(_DESIGN_STEPS if self.n_rows else 0):
            weighted = self.features * weights[:, np.newaxis]
            # Rounding may leave directions in which next to no row has weight.
            products = weighted.T @ self.features + 1e-12 * np.eye(n_features)
            root = np.linalg.cholesky(products)
            lengths = np.linalg.solve(root, self.features.T)
            weights *= (lengths**2).sum(axis=0)
            weights /= weights.sum()
        return root

    @cached_property
    def places(self) -> Floats:
        """The rows as integers, in directions in which noise is to be equally large."""
        rows = np.linalg.solve(self.shape, self.features.T).T
        longest = np.sqrt((rows**2).sum(axis=1).max(initial=0.0))
        return np.rint(rows * (_GRID / max(longest, 2.0**-60)))

    @cached_property
    def to_sums(self) -> Floats:
        """The matrix from sums of places to sums of features."""
        rows = np.linalg.solve(self.shape, self.features.T)
        longest = np.sqrt((rows**2).sum(axis=0).max(initial=0.0))
        return self.shape * (longest / _GRID)

    def noise(self, share: Share, change: int, n_changed: int = 1) -> Noise:
        """Return the noise of sums of places times integers of the target.

        Another target of a row changes `n_changed` of these integers by `change` at most.
        """
        # Sums of integers are exact in any order, so that a target changes them by its
        # own row alone. The longest row is public.
        n_features = self.places.shape[1]
        sizes = np.abs(self.places)
        l1 = int(sizes.sum(axis=1).max(initial=1.0)) * change * n_changed
        square = int((sizes**2).sum(axis=1).max(initial=1.0)) * change**2 * n_changed
        noise = Noise.of(share, l1, square)
        if noise.kind == "mu":
            return noise
        largest = int(sizes.max(initial=1.0)) * change
        joint = Noise.joint(share, largest, n_features)
        # Noise for the sums with one integer of the target is drawn by itself.
        is_joint = n_changed == 1 and joint.kind == noise.kind
        return joint if is_joint and joint.error < noise.error else noise

    def noisy_sums(
        self, targets: NDArray[np.int64], noise: Noise, source: ByteSource
    ) -> Floats:
        """Return the sums of features times integers of the target, with noise: (n_features, n_integers)."""
        n_features = self.places.shape[1]
        sums = np.zeros((n_features, targets.shape[1]), np.int64)
        for start in range(0, self.n_rows, _BLOCK):
            rows = slice(start, start + _BLOCK)
            products = self.places[rows].T @ targets[rows].astype(float)
            sums += products.astype(np.int64)
        noisy = noise.add(source, sums.ravel().tolist())
        return self.to_sums @ np.reshape(np.array(noisy, float), sums.shape)

    def covariance(self, noise: Noise) -> Floats:
        """Return the covariance of the noise of sums of features."""
        error = float(noise.error)
        return error**2 * self.to_sums @ self.to_sums.T

    def to_columns(self, coefficients: Floats) -> Floats:
        """Return the coefficients of columns, from those of features but the constant: the last axis."""
        return (self.to_features @ coefficients) * self.units[:, np.newaxis]

    def prior(
        self, sums: Floats, covariance: Floats, curvature: float, sample: float
    ) -> Prior:
        """Find the spread of coefficients that makes the noisy sums likeliest.

        The sums of a column of `sums` are about ``curvature`` times the coefficients,
        with the variance ``curvature * sample`` of the sample, and the noise.
        """
        # In units of the widths of columns, coefficients are independent and of one
        # size, before the sums are seen. In the basis of `eigh`, both this and the
        # noise are diagonal.
        size = self.to_features.shape[1]
        if size == 0:
            return Prior(np.zeros((0, 0)), np.zeros((0, 0)))
        spread = np.linalg.inv(self.to_features.T @ self.to_features)
        error = curvature * sample * np.eye(size) + covariance
        shares, basis = eigh(curvature**2 * spread, error)
        shares = np.maximum(shares, 0.0)
        squares = (basis.T @ sums) ** 2
        scale = float(np.trace(error)) / float(np.trace(curvature**2 * spread))
        sizes = scale * 2.0 ** np.arange(-12, 25, 0.5)
        likelihoods = []
        for number in sizes:
            variances = 1 + number * shares[:, np.newaxis]
            likelihoods.append(-(np.log(variances) + squares / variances).sum())
        best = float(sizes[int(np.argmax(likelihoods))])
        precision = self.to_features.T @ self.to_features / best
        # Then the coefficients are the best linear function of the sums: the solution
        # of ``curvature * c + penalty @ c = sums``.
        penalty = (sample * np.eye(size) + covariance / curvature) @ precision
        return Prior(precision, penalty)


def minimise(
    rows: PublicRows, sums: Floats, penalty: Floats
) -> tuple[Floats, Floats, int]:
    """Return slopes, constants and the number of steps of a logistic model.

    The gradient of the loss of public rows, less the noisy `sums`, plus `penalty` times
    the slopes, becomes 0: (n_features, n_outputs) each. Of one output, it is the logit.
    """
    # Both have the first feature of the constant, if there is one.
    n_features, n_outputs = sums.shape
    features = rows.features
    n_slopes = len(penalty)
    penalties = np.zeros((n_features, n_features))
    penalties[n_features - n_slopes :, n_features - n_slopes :] = penalty
    coefficients = np.zeros((n_features, n_outputs))
    scale = max(float(np.linalg.norm(sums)), 1.0)
    n_steps = 0
    while n_steps < _MOST_STEPS:
        n_steps += 1
        logits = features @ coefficients
        if n_outputs == 1:
            probabilities = expit(logits)
            weights = probabilities * (1 - probabilities)
        else:
            probabilities = softmax(logits, axis=1)
            # Of each class by itself; the largest curvature of all together is at most
            # twice as large.
            weights = probabilities * (1 - probabilities)
        gradient = features.T @ probabilities - sums + penalties @ coefficients
        if np.linalg.norm(gradient) <= _PRECISION * scale:
            break
        step = np.zeros_like(coefficients)
        for output in range(n_outputs):
            weighted = features * weights[:, [output]]
            curvature = weighted.T @ features + penalties
            curvature += _PRECISION * max(len(features), 1) * np.eye(n_features)
            step[:, output] = np.linalg.solve(curvature, gradient[:, output])
        # A step that changes a logit by much leaves the region where the curvature is
        # known.
        largest = np.abs(features @ step).max(initial=0.0)
        factor = min(1.0, _LARGEST_CHANGE / max(largest, 1e-300))
        if n_outputs > 1:
            factor *= 0.5
        coefficients -= factor * step
    if not rows.has_constant:
        return coefficients, np.zeros(n_outputs), n_steps
    return coefficients[1:], coefficients[0], n_steps


class LogisticFit(NamedTuple):
    """A logistic model of the columns: (n_outputs, n_columns) and (n_outputs,)."""

    coefficients: Floats
    intercepts: Floats
    n_steps: int


def logistic_of_sums(rows: PublicRows, sums: Floats, covariance: Floats) -> LogisticFit:
    """Fit a logistic model to noisy sums of features over the rows of each class.

    Of two classes, `sums` has one column, of the second class; of more, one for each.
    """
    n_rows = max(rows.n_rows, 1)
    n_outputs = sums.shape[1]
    n_classes = max(n_outputs, 2)
    totals = rows.features.sum(axis=0)[:, np.newaxis]
    if n_outputs > 1:
        # All classes together have all rows, which are public.
        sums = sums + (totals - sums.sum(axis=1, keepdims=True)) / n_outputs
    shares = np.full(n_outputs, 1 / n_classes)
    first = int(rows.has_constant)
    if rows.has_constant:
        sums = sums.copy()
        shares = _class_shares(sums[0] / n_rows, covariance[0, 0] / n_rows**2, n_rows)
        sums[0] = n_rows * shares

    # Without slopes, each row has the shares as its probabilities: what the sums differ
    # by from that is what slopes are learnt from.
    differences = sums[first:] - totals[first:] * shares
    if n_outputs == 1:
        variance = float((shares * (1 - shares)).sum())
    else:
        variance = float(1 - (shares**2).sum()) / (n_outputs - 1)
        # Those of all classes add up to 0: n - 1 orthonormal directions are left.
        differences = differences @ _contrasts(n_outputs)
    noise = covariance[first:, first:]
    prior = rows.prior(differences, noise, n_rows * variance, 1.0)
    coefficients, constants, n_steps = minimise(rows, sums, prior.penalty)
    columns = rows.to_columns(coefficients).T
    return LogisticFit(columns, constants - columns @ rows.middle, n_steps)


def _class_shares(shares: Floats, variance: float, n_rows: int) -> Floats:
    """Return the shares of classes, from noisy ones and, as far as these are noise, equal ones."""
    n_classes = max(len(shares), 2)
    # A share that is uniform on [0, 1] has the variance of a twelfth.
    weight = 1 / (1 + 12 * variance)
    least = 0.5 / max(n_rows, n_classes)
    shares = np.clip(weight * shares + (1 - weight) / n_classes, least, 1 - least)
    return shares if len(shares) == 1 else shares / shares.sum()


def _contrasts(n_classes: int) -> Floats:
    """Return an orthonormal basis of differences of classes: (n_classes, n_classes - 1)."""
    centred = np.eye(n_classes) - 1 / n_classes
    return np.asarray(np.linalg.svd(centred)[0][:, :-1], np.float64)


class LinearFit(NamedTuple):
    """A linear model of the columns, with standard errors."""

    coefficients: Floats
    errors: Floats
    intercept: float
    intercept_error: float
    # What was added to the sums of squares: its mean, in units of the widths.
    ridge: float


def linear_of_sums(
    rows: PublicRows,
    sums: Floats,
    square: float,
    covariance: Floats,
    square_error: float,
    alpha: float,
) -> LinearFit:
    """Fit a linear model to noisy sums of features times the target, and of its square."""
    n_rows = max(rows.n_rows, 1)
    first = int(rows.has_constant)
    mean = float(sums[0]) / n_rows if rows.has_constant else 0.0
    feature_sums = sums[first:]
    noise = covariance[first:, first:]
    n_slopes = len(feature_sums)
    # Takes slopes of features to those of columns: (n_columns, n_slopes).
    slopes_to_columns = rows.to_features * rows.units[:, np.newaxis]
    identity = np.eye(n_slopes)
    # The variance of the target, and then of what the model leaves of it.
    least = max(square_error / n_rows, 2.0**-100)
    unexplained = max(square / n_rows - mean**2, least)
    solve = np.zeros((n_slopes, n_slopes))
    prior = Prior(solve, solve)
    for _ in range(_N_VARIANCES):
        prior = rows.prior(feature_sums[:, np.newaxis], noise, n_rows, unexplained)
        penalty = prior.penalty + alpha * slopes_to_columns.T @ slopes_to_columns
        solve = np.asarray(np.linalg.inv(n_rows * identity + penalty), np.float64)
        slopes = solve @ feature_sums
        error = square - n_rows * mean**2 - 2 * slopes @ feature_sums
        error += n_rows * slopes @ slopes
        # With noise e in the sums, the slopes hold solve @ e: the error is too small by
        # the mean of 2 e @ solve @ e - n_rows |solve @ e|**2.
        hidden_by_noise = 2 * np.trace(solve @ noise)
        hidden_by_noise -= n_rows * np.trace(solve @ noise @ solve.T)
        n_free = max(n_rows - n_slopes - first, 1)
        unexplained = max(float(error + hidden_by_noise) / n_free, least)
    slopes = solve @ feature_sums
    # Of the sample and the noise; and what the penalty takes, on average over such
    # coefficients as the sums tell of.
    moved = identity - n_rows * solve
    spread = solve @ (n_rows * unexplained * identity + noise) @ solve.T
    if n_slopes:
        spread += moved @ np.linalg.inv(prior.precision) @ moved.T
    columns = rows.to_columns(slopes[:, np.newaxis])[:, 0]
    of_columns = slopes_to_columns @ spread @ slopes_to_columns.T
    intercept = intercept_error = 0.0
    if rows.has_constant:
        intercept = float(mean - columns @ rows.middle)
        of_mean = unexplained / n_rows + float(covariance[0, 0]) / n_rows**2
        of_middle = float(rows.middle @ of_columns @ rows.middle)
        intercept_error = math.sqrt(max(of_mean + of_middle, 0.0))
    penalties = rows.to_features.T @ rows.to_features
    # Of the prior alone, without alpha, in units of the widths.
    ridge = 0.0
    if n_slopes:
        ridge = float(np.trace(prior.penalty) / np.trace(penalties))
    return LinearFit(
        columns,
        np.sqrt(np.maximum(np.diag(of_columns), 0.0)),
        intercept,
        intercept_error,
        ridge,
    )
