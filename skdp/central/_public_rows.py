"""Models of a private target whose rows are public: one noisy vector of sums, and what is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import expit, softmax

from skdp.base import read_numbers
from skdp.central.statistics import Batches, Noise, as_float
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
_MIN_VARIANCE = 1e-9

# The share of the rows that have the weight 1. On Adult, ACS and generated tables, .1 to
# .5 give the same area at epsilons of .5 to 4, and .5 gives .002 less at .1.
_WHOLE = 0.25

# Of Newton's method, which needs about ten.
_MAX_STEPS = 100

# Of the variance that the model leaves, and the prior that follows from it: the third
# changes coefficients by less than a hundredth of their errors.
_N_VARIANCES = 3

# Of the norm of the gradient: the noise is larger than this by many powers of ten.
_PRECISION = 1e-7

# Of a logit in a step: from a logit of 0, the curvature falls to a fourteenth by 4.
_LARGEST_CHANGE = 4.0

# Spreads of coefficients that are tried: from a tenth of what noise hides, or of the
# smallest limit of the mean square of predictions if that is less, to more than that of
# the largest predictions, as columns that vary much may have smaller coefficients than
# others. With 1, 1.5 and 3 at an epsilon of .1, .74, .76 and .80 of
# intervals of 95 % hold (40 tables of 4,000 rows); R2 of COMPAS is .022, .012 and .003
# less than without a limit (5 splits, errors of .01), and that of the worst of 8
# generated tables of 1,000 rows -1.5, -6.7 and -26, where it was -96.
_N_SPREADS = 48
_MIN_SPREAD = 0.1
_LARGEST_SPREAD = 1.5

# Of signal in noise: above 0, so that no penalty is infinite, and such that its square is
# a float.
_MIN_SHARE = 2.0**-400

# Of numbers from -1 to 1, means of squares that are tried: the bounds are one to sixteen
# root mean squares from the middle. A step of a square root of 2 changes a root mean
# square by a fifth, less than a noisy mean of squares of some hundred rows can tell.
_SQUARES = 2.0 ** np.arange(-8, 0.5, 0.5)


def public_numbers(batches: Batches) -> Floats:
    """Read the numbers of public columns, of a table in memory: (n_rows, n_columns)."""
    if batches.large is not None:
        raise TypeError(
            "protect needs a table in memory, as skdp.engines only adds up: collect "
            "its columns first"
        )
    numbers = np.stack(read_numbers(batches.table), axis=1)
    if len(numbers):
        with np.errstate(over="ignore"):
            width = np.ptp(numbers, axis=0)
        if not np.isfinite(width).all():
            raise ValueError("X holds numbers whose differences are beyond all floats")
    return numbers


def _uncorrelated(
    columns: Floats, weights: Floats, constant: bool
) -> tuple[Floats, Floats, Floats]:
    """Return the weighted means of columns, the matrix from columns to features, and the features."""
    total = max(float(weights.sum()), 1.0)
    middle = np.zeros(columns.shape[1])
    if constant:
        middle = weights @ columns / total
    centred = columns - middle
    products = (centred * weights[:, np.newaxis]).T @ centred / total
    values, vectors = np.linalg.eigh(products)
    is_seen = values > _MIN_VARIANCE * max(values.max(initial=0.0), 2.0**-60)
    to_features = vectors[:, is_seen] / np.sqrt(values[is_seen])
    features = centred @ to_features
    if constant:
        features = np.hstack([np.ones((len(columns), 1)), features])
    return middle, to_features, features


def _inverse_widths(widths: Floats, names: Sequence[Any]) -> Floats:
    """Return one over the widths of columns, and 0 for constant ones."""
    is_narrow = (widths > 0) & (widths < np.finfo(float).tiny)
    if is_narrow.any():
        name = names[int(np.argmax(is_narrow))]
        raise ValueError(
            f"values of column {name!r} differ by so little (below "
            f"{np.finfo(float).tiny:.1g}) that floats hold few digits of that: multiply "
            "it by a power of ten"
        )
    return np.divide(1.0, widths, out=np.zeros(len(widths)), where=widths > 0)


def _row_weights(directions: Floats) -> Floats:
    """Return weights that make long rows as long as the quantile `_WHOLE` of all: (n_rows,)."""
    # The noise is in proportion to the longest row.
    lengths = np.sqrt((directions**2).sum(axis=1))
    if not (lengths > 0).any():
        return np.ones(len(directions))
    limit = np.quantile(lengths[lengths > 0], _WHOLE)
    return np.asarray(np.minimum(1.0, limit / np.maximum(lengths, limit)))


class Limits(NamedTuple):
    """Upper limits of a mean of squares, of which one is true, and how likely each is."""

    sizes: Floats
    log_probabilities: Floats


class Shrinkage(NamedTuple):
    """How far noisy sums are believed: the mean over spreads that coefficients may have."""

    curvature: float
    # From sums to numbers of which signal and noise are independent, the latter of
    # variance 1; and from these to coefficients: (n_coefficients, n_coefficients) each.
    to_numbers: Floats
    to_coefficients: Floats
    # The part of the variance of a number that is signal, for each pair of a spread and a
    # limit: (n_pairs, n_coefficients).
    factors: Floats
    # Of each pair, after the sums are seen: (n_pairs,).
    probabilities: Floats

    @property
    def mean_factors(self) -> Floats:
        return self.probabilities @ self.factors

    @property
    def solve(self) -> Floats:
        """The matrix from sums to coefficients."""
        return (self.to_coefficients * self.mean_factors) @ self.to_numbers

    @property
    def penalty(self) -> Floats:
        """The P for which the solution c of ``curvature * c + P @ c = sums`` is `solve` @ sums.

        It is not symmetric, as the noise has another shape than the coefficients.
        """
        # The inverse of `solve`, less the curvature: the matrices to numbers and to
        # coefficients are the inverses of each other but for the curvature.
        ratios = self.curvature**2 * (1 / self.mean_factors - 1)
        return (self.to_coefficients * ratios) @ self.to_numbers

    def covariance(self, sums: Floats, noise: Floats) -> Floats:
        """Return the covariance of the errors of coefficients by noise of the sums, and by shrinkage."""
        numbers = self.to_numbers @ sums
        noise_of_numbers = self.to_numbers @ noise @ self.to_numbers.T
        mean_products = (self.factors.T * self.probabilities) @ self.factors
        of_noise = mean_products * noise_of_numbers
        # Factors are not known for certain, and multiply the numbers.
        covariance_of_factors = mean_products - np.outer(
            self.mean_factors, self.mean_factors
        )
        of_factors = np.outer(numbers, numbers) * covariance_of_factors
        # Given the noise of variance 1, a factor f is that of a signal of variance
        # f / (1 - f), of which it loses (1 - f)**2 * f / (1 - f) = f - f**2.
        of_lost_signal = np.diag(self.mean_factors - np.diag(mean_products))
        covariance = of_noise + of_factors + of_lost_signal
        return np.asarray(self.to_coefficients @ covariance @ self.to_coefficients.T)


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Public rows, as features that are not correlated; and as integers, whose sums with the target get noise.

    Nothing here follows from the target.
    """

    # Of each column, the weighted mean and one over the width: constant ones have 0.
    middle: Floats
    units: Floats
    # From columns in these units to features: (n_columns, n_features).
    to_features: Floats
    # Whether there is a constant, which is the first feature.
    has_constant: bool
    # (n_rows, n_features), of which the weighted mean of squares is 1.
    features: Floats
    # At most 1, and less for long rows: (n_rows,).
    weights: Floats
    # The rows in directions in which noise is equally large, and the matrix from their
    # sums to those of features.
    directions: Floats
    to_sums: Floats

    @classmethod
    def of(cls, batches: Batches, *, constant: bool) -> PublicRows:
        """Read the rows of a table."""
        columns = public_numbers(batches)
        n_rows, n_columns = columns.shape
        middle = np.zeros(n_columns)
        width = np.zeros(n_columns)
        if n_rows and constant:
            middle = columns.min(axis=0)
            width = np.ptp(columns, axis=0)
        elif n_rows:
            width = np.abs(columns).max(axis=0)
        units = _inverse_widths(width, batches.names)
        if n_rows and constant:
            # The mean, as sums of values near the largest float would be infinite.
            middle += ((columns - middle) * units).mean(axis=0) * width
        scaled = (columns - middle) * units
        _, _, directions = _uncorrelated(scaled, np.ones(n_rows), constant)
        weights = _row_weights(directions)
        shift, to_features, features = _uncorrelated(scaled, weights, constant)
        # Features F are linear functions D @ M of the directions D. As D.T @ D / n is the
        # identity, M is D.T @ F / n, and M.T makes sums of features of those of D.
        to_sums = features.T @ directions / max(n_rows, 1)
        return cls(
            middle=middle + shift * width,
            units=units,
            to_features=to_features,
            has_constant=constant,
            features=features,
            weights=weights,
            directions=directions,
            to_sums=to_sums,
        )

    @property
    def n_rows(self) -> int:
        return len(self.features)

    @property
    def slopes(self) -> Floats:
        """The features but the constant."""
        return self.features[:, 1:] if self.has_constant else self.features

    @property
    def total_weight(self) -> float:
        """The sum of all weights, at least 1."""
        return max(float(self.weights.sum()), 1.0)

    @property
    def n_free(self) -> float:
        """The sum of all weights, less what coefficients take of it: at least 1."""
        taken = float(np.trace(self.of_sample)) / self.total_weight
        return max(self.total_weight - taken, 1.0)

    @cached_property
    def weighted(self) -> Floats:
        """The features times the weights of the rows."""
        return self.features * self.weights[:, np.newaxis]

    @cached_property
    def of_sample(self) -> Floats:
        """Sums of products of weighted features: the covariance of their sums with a target of variance 1."""
        return self.weighted.T @ self.weighted

    @property
    def _scale(self) -> float:
        """How long a step of the grid is."""
        lengths = np.sqrt((self.directions**2).sum(axis=1)) * self.weights
        return max(float(lengths.max(initial=0.0)), 2.0**-60) / _GRID

    @cached_property
    def places(self) -> Floats:
        """The weighted rows as integers, in directions in which noise is equally large."""
        return np.rint(self.directions * (self.weights / self._scale)[:, np.newaxis])

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
        # Joint noise is for the sums with a single integer of the target. Without a
        # constant, columns of zeros have no features, and there is nothing to draw.
        if n_changed > 1 or n_features == 0:
            return noise
        joint = Noise.joint(share, largest, n_features)
        is_joint = joint.kind == noise.kind and joint.error < noise.error
        return joint if is_joint else noise

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
        sums_of_places = np.reshape([*map(as_float, noisy)], sums.shape)
        return self._scale * self.to_sums @ sums_of_places

    def covariance(self, noise: Noise) -> Floats:
        """Return the covariance of the noise of sums of features."""
        error = as_float(noise.error) * self._scale
        return error**2 * self.to_sums @ self.to_sums.T

    def to_columns(self, coefficients: Floats) -> Floats:
        """Return the coefficients of columns, from those of features but the constant: the last axis."""
        return (self.to_features @ coefficients) * self.units[:, np.newaxis]

    def shrinkage(
        self, sums: Floats, error: Floats, curvature: float, limits: Limits
    ) -> Shrinkage:
        """Find how likely the noisy sums make each spread of coefficients.

        The sums of a column of `sums` are about ``curvature`` times the coefficients, with
        the covariance ``error`` of the sample and the noise.
        """
        # `limits` are those of the mean square of predictions, times the curvature of a row.
        # In units of the widths of columns, coefficients are independent and of one
        # size, before the sums are seen. In the basis of `eigh`, both this and the
        # error are diagonal.
        size = self.to_features.shape[1]
        if size == 0:
            none = np.zeros((0, 0))
            return Shrinkage(curvature, none, none, np.zeros((1, 0)), np.ones(1))
        spread = np.linalg.inv(self.to_features.T @ self.to_features)
        shares, basis = eigh(curvature**2 * spread, error)
        shares = np.maximum(shares, _MIN_SHARE)
        # The mean square of predictions is the square of the norm of the coefficients of
        # features: of the noise, at most, and of coefficients of the spread 1.
        of_noise = float(np.trace(error)) / curvature**2
        largest = limits.sizes * self.total_weight / curvature
        of_spread = float(np.trace(spread))
        least = _MIN_SPREAD * min(of_noise, float(largest.min()))
        # On a logarithmic scale, all spreads are equally likely: (n_spreads, n_limits).
        spreads = np.geomspace(least, _LARGEST_SPREAD * largest, _N_SPREADS) / of_spread
        log_priors = np.broadcast_to(limits.log_probabilities, spreads.shape).ravel()

        # Numbers are normal, with mean 0: how well each pair of a spread and a limit
        # explains them.
        numbers = basis.T @ sums
        signals = (spreads[..., np.newaxis] * shares).reshape(-1, size)
        variances = 1 + signals
        misfits = sums.shape[1] * np.log(variances)
        misfits += (numbers**2).sum(axis=1) / variances
        return Shrinkage(
            curvature=curvature,
            to_numbers=basis.T,
            to_coefficients=error @ basis / curvature,
            factors=signals / variances,
            probabilities=softmax(log_priors - misfits.sum(axis=1) / 2),
        )


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
    while n_steps < _MAX_STEPS:
        n_steps += 1
        logits = features @ coefficients
        if n_outputs == 1:
            probabilities = expit(logits)
        else:
            probabilities = softmax(logits, axis=1)
        # Of several classes, of each by itself; the largest curvature of all together
        # is at most twice as large.
        curvatures = probabilities * (1 - probabilities)
        gradient = rows.weighted.T @ probabilities - sums + penalties @ coefficients
        if np.linalg.norm(gradient) <= _PRECISION * scale:
            break
        step = np.zeros_like(coefficients)
        for output in range(n_outputs):
            weighted = rows.weighted * curvatures[:, [output]]
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


def logistic_of_sums(rows: PublicRows, sums: Floats, noise: Floats) -> LogisticFit:
    """Fit a logistic model to sums of features over the rows of each class, with the covariance of their noise.

    Of two classes, `sums` has one column, of the second class; of more, one for each.
    """
    n_rows = rows.total_weight
    n_outputs = sums.shape[1]
    n_classes = max(n_outputs, 2)
    totals = rows.weighted.sum(axis=0)[:, np.newaxis]
    if n_outputs > 1:
        # All classes together have all rows, which are public.
        sums = sums + (totals - sums.sum(axis=1, keepdims=True)) / n_outputs
    shares = np.full(n_outputs, 1 / n_classes)
    first = int(rows.has_constant)
    if rows.has_constant:
        sums = sums.copy()
        shares = _class_shares(sums[0] / n_rows, noise[0, 0] / n_rows**2, n_rows)
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
    error = variance * rows.of_sample[first:, first:] + noise[first:, first:]
    # With small logits of variance v, ``variance**2 * v`` of the variance of indicators
    # is explained, which is at most all of it: ``variance * v`` is at most 1.
    limits = Limits(np.ones(1), np.zeros(1))
    shrinkage = rows.shrinkage(differences, error, n_rows * variance, limits)
    coefficients, constants, n_steps = minimise(rows, sums, shrinkage.penalty)
    columns = rows.to_columns(coefficients).T
    return LogisticFit(columns, constants - columns @ rows.middle, n_steps)


def _class_shares(shares: Floats, variance: float, n_rows: float) -> Floats:
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


class Slopes(NamedTuple):
    """Slopes of features, as noisy sums tell of them."""

    # (n_slopes,), of the constant first if there is one.
    slopes: Floats
    # The covariance of `n_rows` times their errors: of the noise, and of what the
    # penalty takes, on average over such coefficients as the sums tell of.
    noise: Floats
    # The mean of what is added to sums of squares, in units of half the widths (without
    # a constant, of the largest sizes).
    ridge: float


class _Level(NamedTuple):
    """The mean of a column of numbers from -1 to 1, as a noisy one says."""

    # As it was released, and the variance of its noise.
    noisy_mean: float
    variance: float
    # How far the noisy mean is believed: the mean, and the mean square.
    factor: float
    square_of_factor: float

    @classmethod
    def of(cls, noisy_mean: float, variance: float, limits: Limits) -> _Level:
        # A number that is uniform between -r and r has the variance r**2 / 3.
        variances = limits.sizes / 3
        factors = variances / (variances + variance)
        probabilities = softmax(limits.log_probabilities)
        factor = float(probabilities @ factors)
        return cls(noisy_mean, variance, factor, float(probabilities @ factors**2))

    @property
    def mean(self) -> float:
        return self.factor * self.noisy_mean

    @property
    def mean_square(self) -> float:
        """The square of the mean, on average over what is not known of it."""
        return self.mean**2 + self.error_variance

    @property
    def error_variance(self) -> float:
        # The factor f loses 1 - f of a mean of variance f / (1 - f) times that of the
        # noise: with f**2 of the noise, this is f of it. And f is not known for certain.
        variance_of_factor = self.square_of_factor - self.factor**2
        return self.factor * self.variance + variance_of_factor * self.noisy_mean**2


def _limits_of(square: float, error: float) -> Limits:
    """Return what the mean of squares of numbers from -1 to 1 may be, by a noisy one."""
    # It is more than the variance, and so than that of predictions. A size stands for
    # all those up to the middle between it and the next one.
    spread = np.hypot(error, _SQUARES * (1 - 2**-0.25))
    misfits = ((np.clip(square, 0.0, 1.0) - _SQUARES) / spread) ** 2
    return Limits(_SQUARES, -misfits / 2 - np.log(spread))


def slopes_of_sums(
    rows: PublicRows, sums: Floats, square: float, noise: Floats, square_error: float
) -> Slopes:
    """Find slopes from sums of features times a column, with the covariance of noise, and from its square.

    The numbers of the column are from -1 to 1.
    """
    n_rows = rows.total_weight
    limits = _limits_of(square / n_rows, square_error / n_rows)
    slopes = np.zeros(len(sums))
    covariance = np.zeros(noise.shape)
    first = int(rows.has_constant)
    centred_square = square
    if rows.has_constant:
        noisy_mean = float(np.clip(sums[0] / n_rows, -1.0, 1.0))
        level = _Level.of(noisy_mean, float(noise[0, 0]) / n_rows**2, limits)
        slopes[0] = level.mean
        covariance[0, 0] = level.error_variance
        centred_square -= n_rows * level.mean_square
    least = min(max(square_error / n_rows, 2.0**-100), 1.0)
    feature_sums = sums[first:]
    of_noise = noise[first:, first:]
    shrinkage = _shrinkage_of_sums(
        rows, feature_sums, of_noise, centred_square, least, limits
    )
    solve = shrinkage.solve
    slopes[first:] = solve @ feature_sums
    covariance[first:, first:] = shrinkage.covariance(feature_sums, of_noise)
    # The noise of the constant's sum is correlated with that of the others.
    if first:
        across = noise[first:, :first] * level.factor / n_rows
        covariance[first:, :first] = solve @ across
        covariance[:first, first:] = covariance[first:, :first].T
    ridge = 0.0
    if len(feature_sums):
        # A column with a constant has the width 1, which is two halves.
        half_widths = 0.5 if rows.has_constant else 1.0
        penalties = half_widths**2 * rows.to_features.T @ rows.to_features
        ridge = float(np.trace(shrinkage.penalty) / np.trace(penalties))
    return Slopes(slopes, n_rows**2 * covariance, ridge)


def _shrinkage_of_sums(
    rows: PublicRows,
    sums: Floats,
    noise: Floats,
    centred_square: float,
    least: float,
    limits: Limits,
) -> Shrinkage:
    """Find how far noisy sums of features times a column are believed, by what the slopes leave of its squares."""
    n_rows = rows.total_weight
    first = int(rows.has_constant)
    of_sample = rows.of_sample[first:, first:]
    # At first, nothing of the variance of the column is explained.
    unexplained = float(np.clip(centred_square / n_rows, least, 1.0))
    for _ in range(_N_VARIANCES - 1):
        shrinkage = rows.shrinkage(
            sums[:, np.newaxis], unexplained * of_sample + noise, n_rows, limits
        )
        solve = shrinkage.solve
        slopes = solve @ sums
        left = centred_square - 2 * slopes @ sums + n_rows * slopes @ slopes
        # With noise e in the sums, the slopes hold solve @ e: what is left is too small by
        # the mean of 2 e @ solve @ e - n_rows |solve @ e|**2.
        left += 2 * np.trace(solve @ noise) - n_rows * np.trace(solve @ noise @ solve.T)
        unexplained = float(np.clip(float(left) / rows.n_free, least, 1.0))
    return rows.shrinkage(
        sums[:, np.newaxis], unexplained * of_sample + noise, n_rows, limits
    )
