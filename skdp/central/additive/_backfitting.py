"""Private backfitting: the function of each column in turn, from noisy sums by bin that are averaged over epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from skdp._arrays import Floats, Integers
from skdp.central._logistic_regression import (
    LOGIT_UNIT,
    MAX_LOGIT,
    RESIDUAL_UNIT,
    BinaryLoss,
    SoftmaxLoss,
)
from skdp.central._rows import choose_residual_limit, count_by_size
from skdp.central.additive._smoothing import Bins, make_prior_covariances, smooth_sums
from skdp.central.statistics import (
    Noise,
    to_float,
)
from skdp.randomness import ByteSource

# Integer that represents the distance from the middle of the bounds of a numeric target to
# either bound. Floats represent sums of 2**32 residuals exactly.
TARGET_UNIT = 1 << 20


class Residuals(Protocol):
    """Computes the residuals of a model, as integers for each row and output."""

    # The square of the largest possible norm of the residuals of a row.
    square: int
    # The integers that represent a residual of 1 and a response of 1.
    unit: int
    response_unit: int
    # Variance of an estimate of the response from one row.
    row_variance: float
    # The largest change of the response in a step.
    max_step: float

    def measure(self, targets: NDArray[Any], responses: Integers) -> Floats:
        """Return the residuals of rows, given their responses; both of shape (n_outputs, n_rows)."""

    def linearize(self, means: Floats) -> tuple[Floats, Floats]:
        """Return the slopes and the variances of the residual of a row in each bin.

        A slope is the decrease of the residual per unit of the response: the second derivative of the loss. `means` are
        the mean responses of bins. All shapes are (n_bins, n_outputs).
        """


class ClassResiduals:
    """The gradient of the weighted logistic loss of `DPLogisticRegression`."""

    unit = RESIDUAL_UNIT
    response_unit = LOGIT_UNIT
    # The variance of a logit estimated from one row with two equally likely classes. A
    # larger variance for a rare class would allow effects that do not occur.
    row_variance = 4.0
    # Slopes change by a factor of less than 8 on the way of a step of 2.
    max_step = 2.0

    def __init__(self, n_classes: int) -> None:
        is_binary = n_classes == 2
        self._loss = BinaryLoss() if is_binary else SoftmaxLoss(n_classes)
        self.square = self._loss.square

    def measure(self, targets: NDArray[Any], responses: Integers) -> Floats:
        """Return the residuals of rows, (n_outputs, n_rows): minus the gradients of their losses."""
        logits = np.clip(responses, -MAX_LOGIT * LOGIT_UNIT, MAX_LOGIT * LOGIT_UNIT).T
        return -self._loss.residuals(logits, targets).T

    def linearize(self, means: Floats) -> tuple[Floats, Floats]:
        """Return the slopes and the variances of the residual of a row in each bin, see `Residuals`.

        `means` are the mean logits of bins. All shapes are (n_bins, n_outputs).
        """
        # The slope of a weighted residual is w p (1 - p), and its variance w**2 p (1 - p).
        # The weight w limits the largest possible norm of the residuals to the norm at
        # equal logits, which is the root of `square` in units of `RESIDUAL_UNIT`.
        if self._loss.n_outputs == 1:
            probabilities = expit(means)
            longest = np.maximum(probabilities, 1 - probabilities)
        else:
            probabilities = softmax(means, axis=1)
            norms = (probabilities**2).sum(axis=1, keepdims=True)
            smallest = probabilities.min(axis=1, keepdims=True)
            longest = np.sqrt(norms + 1 - 2 * smallest)
        weights = math.sqrt(self.square) / RESIDUAL_UNIT / longest
        variances = probabilities * (1 - probabilities)
        return weights * variances, weights**2 * variances


class NumberResiduals:
    """The difference of a number and its prediction, clipped to a bound; 1 is half the width of the target's bounds."""

    unit = TARGET_UNIT
    response_unit = TARGET_UNIT
    # Half of the width of the target.
    max_step = 1.0

    def __init__(self, bound: int, variance: float = 1.0) -> None:
        """Set the bound of residuals, in steps of 1 / `TARGET_UNIT`, and their mean square, not in steps."""
        self.bound = bound
        self.square = bound**2
        self.row_variance = variance

    def measure(self, targets: NDArray[Any], responses: Integers) -> Floats:
        """Return the differences, clipped to the bound; (n_outputs, n_rows)."""
        differences = np.clip(targets - responses, -self.bound, self.bound)
        return differences.astype(float)

    def linearize(self, means: Floats) -> tuple[Floats, Floats]:
        """Return slopes of 1, and variances that are equal in all bins."""
        return np.ones(means.shape), np.full(means.shape, self.row_variance)


def sum_by_bin(codes: NDArray[Any], residuals: Floats, n_bins: int) -> Integers:
    """Sum residuals of shape (n_outputs, n_rows) by bin; shape (n_bins, n_outputs)."""
    # A row adds its residuals to one bin, so it changes the sums by the norm of its
    # residuals. Rows in no bin have the code `n_bins`.
    sums = []
    for row_residuals in residuals:
        sums.append(np.bincount(codes, row_residuals, n_bins + 1)[:n_bins])
    return np.stack(sums, axis=1).astype(np.int64)


# Numbers of epochs with much noise and with little noise, so that correlated columns
# converge. Half or twice as many of the former change R2 by less than 0.006
# (benchmarks/central_models.py).
MIN_EPOCHS, MAX_EPOCHS = 6, 12

# Differences beyond so many standard deviations of the noise are not noise.
MAX_ERRORS = 4


class Start(NamedTuple):
    """Noisy facts from which backfitting starts, and the remaining budget."""

    n_rows: float
    # The constant response, of shape (n_outputs,), and the variance of its noise.
    response: Floats
    response_variance: float
    residuals: Residuals
    # Noise of the counts from which bounds of numeric residuals are chosen; None for
    # classes.
    bound_noise: Noise | None
    # The budget for sums by bin.
    mu_squared: Fraction


# Epochs that begin with a new bound of the residuals. With a single bound, R2 of three
# tables at epsilon 0.1 decreases by 0.03 to 0.2 (benchmarks/central_models.py).
BOUND_EPOCHS = (0, 1, 2, 4)


def shrink_bound(
    residuals: Residuals,
    sizes: Floats,
    n_free: float,
    *,
    start: Start,
    source: ByteSource,
) -> Residuals:
    """Choose a smaller bound that few residuals of a numeric target exceed, and estimate their mean square.

    `sizes` are the absolute residuals of the rows, (n_rows,), and `n_free` is the effective number of parameters of the
    model. Their noisy counts determine the bound. `residuals` are returned if it would be larger.
    """
    assert start.bound_noise is not None
    error = to_float(start.bound_noise.std)
    counts = start.bound_noise.add_floats(source, count_by_size(sizes))
    counts = drop_small(counts, error)
    n_rows = start.n_rows
    # At most 2 % of the residuals are clipped.
    limit, mean_square = choose_residual_limit(counts, error, n_rows, 0.02 * n_rows)
    # Residuals of fitted rows are smaller than residuals of further rows.
    variance = mean_square * limit**2 / max(1 - n_free / n_rows, 1 / 4)
    before = math.sqrt(residuals.square) / TARGET_UNIT
    if counts.max() < MAX_ERRORS * error and limit < before / 2:
        # Such a small limit may be due to noise. Of a normal residual, it is 2.3 standard
        # deviations.
        limit, variance = before / 2, 0.2 * (before / 2) ** 2
    if limit >= before:
        return residuals
    return NumberResiduals(int(limit * TARGET_UNIT) + 1, variance)


def drop_small(counts: Floats, error: float) -> Floats:
    """Replace noisy counts of residuals by 0 that are much smaller than most residuals, if these may be noise."""
    if counts.max() >= 6 * error:
        return counts
    # Most residuals are in three adjacent counts, because their limits are powers of 2.
    sums = np.convolve(counts, np.ones(3))[: len(counts)]
    is_small = np.arange(len(counts)) < np.argmax(sums) - 3
    return np.where(is_small, 0.0, counts)


class _Constant:
    """The constant of the response, which follows from the noisy sums of all columns."""

    def __init__(self, start: Start) -> None:
        """Start with a noisy response."""
        self.response = start.response
        self.variance = start.response_variance
        self._n_rows = start.n_rows

    def round(self, unit: int) -> Integers:
        """Return the response as integers; shape (n_outputs, 1)."""
        return np.rint(self.response[:, np.newaxis] * unit).astype(np.int64)

    def update(
        self, total: Floats, row_slopes: Floats, max_step: float, error: float
    ) -> Floats:
        """Update the response by the noisy sum of the residuals of all rows, and return the change.

        `total`, and the mean `row_slopes` of the residual of a row, have the shape (n_outputs,); `error` is the
        standard deviation of the noise of the sum.
        """
        slopes = np.maximum(self._n_rows * row_slopes, np.abs(total) / max_step)
        shift = total / slopes
        noise_variance = float(np.mean((error / slopes) ** 2))
        known = self.variance + noise_variance
        drift = float(np.mean(shift**2))
        # Larger shifts follow from changes of the functions.
        prior = self.variance + (drift if drift > MAX_ERRORS**2 * known else 0.0)
        gain = prior / (prior + noise_variance)
        self.variance = min(gain * noise_variance, self.variance)
        self.response = self.response + gain * shift
        return gain * shift


class ColumnFunction:
    """The function of a column, and the averages over epochs from which it is estimated."""

    def __init__(self, bins: Bins, n_outputs: int) -> None:
        """Start with the value 0 in each bin, without any measured sum."""
        self.bins = bins
        self.sizes = bins.sizes
        self.covariances = make_prior_covariances(bins)
        shape = len(bins.counts), n_outputs
        self.values = np.zeros(shape)
        self.std_errors = np.zeros(shape)
        # The mean over rows; shape (n_outputs,).
        self.mean = np.zeros(n_outputs)
        # The values as integers, and 0 for rows in no bin.
        self.integer_values = np.zeros((shape[0] + 1, n_outputs), np.int64)
        # The effective number of parameters, and the log-likelihood ratio of the function.
        self.n_free = self.evidence = 0.0
        # Averages over epochs of the sums plus the current function times the slopes, and of
        # the slopes of sums in the values.
        self._mean_sums = np.zeros(shape)
        self._mean_slopes = np.zeros(shape)
        # The noise variance of an averaged sum, and the number of epochs.
        self._noise_variance = 0.0
        self._n_epochs = 0

    def std_errors_with_mean(self) -> Floats:
        """Return the standard errors of the values minus their mean over rows; shape (n_bins, n_outputs)."""
        # The mean is weighted by noisy sizes. An error e of a size changes it by
        # e * (value - mean) / n_rows.
        sizes = self.sizes
        variances = self.std_errors**2
        squares = (self.values - self.mean) ** 2 + variances
        mean_variances = self.bins.variances @ squares / sizes.sum() ** 2
        return np.sqrt(variances + mean_variances)

    def update(
        self, noisy: Floats, constant: _Constant, residuals: Residuals, error: float
    ) -> None:
        """Update the function and the constant by noisy sums of residuals of an epoch; shape (n_bins, n_outputs).

        `error` is the standard deviation of the noise. Residuals and responses are in units of 1 here, not in integer
        steps.
        """
        row_slopes, variances = residuals.linearize(self.values + constant.response)
        # A count that is too small would make the step too long.
        errors = np.sqrt(self.bins.variances)
        counts = np.maximum(self.sizes + errors / 2, errors)[:, np.newaxis]
        shift = constant.update(
            noisy.sum(axis=0),
            (counts * row_slopes).sum(axis=0) / counts.sum(),
            residuals.max_step,
            error * math.sqrt(len(noisy)),
        )
        # Slopes of the sums of residuals: of a row, times the number of rows.
        slopes = counts * row_slopes
        noisy = noisy - slopes * shift
        # Where the slope increases on the way, a longer step would be too long.
        slopes = np.maximum(slopes, np.abs(noisy) / residuals.max_step)
        sums = slopes * self.values + noisy
        weight = self._choose_weight(sums, slopes, error)
        self._mean_sums += weight * (sums - self._mean_sums)
        self._mean_slopes += weight * (slopes - self._mean_slopes)
        self._noise_variance *= (1 - weight) ** 2
        self._noise_variance += weight**2 * error**2
        values = self._smooth(variances, residuals.row_variance)
        step = np.clip(values - self.values, -residuals.max_step, residuals.max_step)
        # Larger responses are noise.
        self.values = _center_classes(np.clip(self.values + step, -64, 64))
        n_rows = self.sizes.sum()
        self.mean = self.sizes @ self.values / n_rows
        self.integer_values = self.integer_values.copy()
        self.integer_values[:-1] = np.rint(self.values * residuals.response_unit)

    def _choose_weight(self, sums: Floats, slopes: Floats, error: float) -> float:
        """Return the weight of the sums of an epoch in the averages over epochs.

        Earlier sums are about another function while the functions of other columns change: if the difference exceeds
        the noise, the weight is larger (R. Kalman, 1960).
        """
        self._n_epochs += 1
        if self._n_epochs == 1:
            return 1.0
        expected = slopes * self._mean_sums / self._mean_slopes
        known = self._noise_variance + error**2
        drift = float(((sums - expected) ** 2).mean())
        if drift < known * (1 + MAX_ERRORS * math.sqrt(2 / sums.size)):
            drift = 0.0
        # With equal noise, later epochs have larger weights: they are closer to the solution.
        kalman = (self._noise_variance + drift) / (known + drift)
        return max(kalman, 2 / (self._n_epochs + 1))

    def _smooth(self, variances: Floats, row_variance: float) -> Floats:
        """Return the posterior means of the values, and set their standard errors.

        `variances` are the variances of the residual of a row in each bin, of shape (n_bins, n_outputs), and
        `row_variance` is the variance of an estimate of the response from one row.
        """
        sizes = self.sizes
        # Subtracts the mean over rows from a function.
        centering = np.eye(sizes.size) - sizes / sizes.sum()
        # The remaining sum over all bins is the error of the constant.
        slopes = self._mean_slopes
        sums = self._mean_sums - slopes * (self._mean_sums.sum(0) / slopes.sum(0))
        values = np.zeros(self.values.shape)
        self.n_free = self.evidence = 0.0
        for output in range(self.values.shape[1]):
            smoothed = smooth_sums(
                sums[:, output],
                slopes[:, output],
                self._noise_variance + sizes * variances[:, output],
                self.covariances,
                row_variance,
            )
            values[:, output] = smoothed.mean
            self.n_free += smoothed.n_free
            self.evidence += smoothed.evidence
            errors = np.diag(centering @ smoothed.covariance @ centering.T)
            self.std_errors[:, output] = np.sqrt(np.maximum(errors, 0.0))
        return values


def backfit(
    codes: Sequence[NDArray[Any]],
    targets: NDArray[Any],
    bins: Sequence[Bins],
    start: Start,
    n_epochs: int,
    source: ByteSource,
) -> tuple[Floats, list[ColumnFunction]]:
    """Fit a function of each column in turn, from noisy sums of residuals by bin.

    An epoch measures each column once, with an equal part of the budget. Returns the
    constant for functions minus their means, and the functions.

    Parameters
    ----------
    codes : list of ndarray of shape (n_rows,)
        The bin of each row in each column; the number of bins for rows in no bin.
    targets : ndarray of shape (n_rows,)
        Integer targets: the class of each row, or its number in steps of 1 / `TARGET_UNIT`.
    bins : list of Bins
        The bins of each column.
    start : Start
        The constant response, and the remaining budget, of which `mu_squared` is the square of mu in Gaussian DP.
    n_epochs : int
        The number of epochs.
    source : ByteSource
        Random bits for the noise.
    """
    # The sums of residuals are approximately ``slopes * (f - function)``, where f is the
    # function that fits best, and a slope is the decrease of a sum per unit of the
    # function. So ``slopes * function + sums`` estimates ``slopes * f`` for any current
    # function. Its average over epochs has the noise of the whole budget, and is smoothed
    # once. In boosting, each step is shrunk separately, so the noise of bins with few rows
    # accumulates.
    # Targets, responses and residuals are integers, so the sums are exact, and so is the
    # change of a sum by one row.
    residuals = start.residuals
    n_outputs = len(start.response)
    functions = [ColumnFunction(column, n_outputs) for column in bins]
    constant = _Constant(start)
    unit = residuals.response_unit
    # The responses of the model to each row; shape (n_outputs, n_rows).
    responses = np.tile(constant.round(unit), len(targets))
    amount = start.mu_squared / (n_epochs * len(bins))
    for epoch in range(n_epochs):
        # Residuals of numbers become smaller in the first epochs, and so does their bound,
        # to which the noise is proportional.
        if start.bound_noise is not None and epoch in BOUND_EPOCHS:
            n_free = sum(function.n_free for function in functions)
            sizes = np.abs(targets - responses[0]) / unit
            residuals = shrink_bound(
                residuals, sizes, n_free, start=start, source=source
            )
        noise = Noise.gaussian(amount, residuals.square)
        # Residuals are rounded to integers.
        error = to_float(max(noise.std, Fraction(1))) / residuals.unit
        if n_outputs > 1:  # centering over classes reduces the noise
            error *= math.sqrt(1 - 1 / n_outputs)
        for column, function in enumerate(functions):
            # (n_outputs, n_rows); then all arrays have the shape (n_bins, n_outputs).
            row_residuals = residuals.measure(targets, responses)
            exact = sum_by_bin(codes[column], row_residuals, len(function.sizes))
            noisy = noise.add_floats(source, exact)
            before = function.integer_values
            constant_before = constant.round(unit)
            centered = _center_classes(noisy / residuals.unit)
            function.update(centered, constant, residuals, error)
            responses += (function.integer_values - before).T[:, codes[column]]
            responses += constant.round(unit) - constant_before
    function_means = [function.mean for function in functions]
    return constant.response + np.sum(function_means, axis=0), functions


def _center_classes(values: Floats) -> Floats:
    """Subtract the mean over several classes from values, (n_bins, n_outputs), so that its noise is removed.

    This does not change probabilities.
    """
    if values.shape[1] == 1:
        return values
    return values - values.mean(axis=1, keepdims=True)
