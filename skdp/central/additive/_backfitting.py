"""Private backfitting: functions of one column after another, from noisy sums by bin that are averaged over epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from skdp.central._logistic_regression import (
    CERTAIN,
    FINE,
    MAX_LOGIT,
    BinaryLoss,
    SoftmaxLoss,
)
from skdp.central.additive._smoothing import Bins, priors, smooth
from skdp.central.statistics import Floats, Noise, to_float
from skdp.randomness import ByteSource

Integers = NDArray[np.int64]

# Steps from the middle between the bounds of a numeric target to either of them. Floats
# hold the sums of 2**32 residuals exactly.
STEPS = 1 << 20


class Residuals(Protocol):
    """Residuals of a model: an integer for each row and output."""

    # The square of the largest norm of the residuals of a row.
    square: int
    # Integers that represent a residual of 1 and a response of 1.
    unit: int
    response_unit: int
    # Variance of the response estimated from one row.
    row_variance: float

    def measure(self, targets: NDArray[Any], responses: Integers) -> Floats:
        """Return the residuals of rows, given their responses: (n_outputs, n_rows) both."""

    def scales(self, means: Floats) -> tuple[Floats, Floats]:
        """Return slopes of residuals by the response, and their variances, at mean responses: (n_groups, n_outputs)."""


class ClassResiduals:
    """The gradient of the weighted logistic loss of `DPLogisticRegression`."""

    unit = CERTAIN
    response_unit = FINE
    # The variance of a logit of two equally likely classes. With a rare class it is
    # larger, but effects are not.
    row_variance = 4.0

    def __init__(self, n_classes: int) -> None:
        is_binary = n_classes == 2
        self._loss = BinaryLoss() if is_binary else SoftmaxLoss(n_classes)
        self.square = self._loss.square

    def measure(self, targets: NDArray[Any], responses: Integers) -> Floats:
        """Return the residuals of rows."""
        logits = np.clip(responses, -MAX_LOGIT * FINE, MAX_LOGIT * FINE).T
        return -self._loss.residuals(logits, targets).T

    def scales(self, means: Floats) -> tuple[Floats, Floats]:
        """Return slopes and variances at mean logits."""
        # The weight of a row limits its largest possible residuals to the norm at equal
        # logits, which is the root of `square` in units of `CERTAIN`.
        if self._loss.n_outputs == 1:
            probabilities = expit(means)
            longest = np.maximum(probabilities, 1 - probabilities)
        else:
            probabilities = softmax(means, axis=1)
            norms = (probabilities**2).sum(axis=1, keepdims=True)
            least = probabilities.min(axis=1, keepdims=True)
            longest = np.sqrt(norms + 1 - 2 * least)
        weights = math.sqrt(self.square) / CERTAIN / longest
        variances = probabilities * (1 - probabilities)
        return weights * variances, weights**2 * variances


class NumberResiduals:
    """The difference of a number and its prediction, cut at a bound."""

    unit = STEPS
    response_unit = STEPS

    def __init__(self, bound: int, variance: float = 1.0) -> None:
        self.bound = bound
        self.square = bound**2
        # The mean square of residuals, in squares of `unit`.
        self.row_variance = variance

    def measure(self, targets: NDArray[Any], responses: Integers) -> Floats:
        """Return the differences, cut at the bound."""
        differences = np.clip(targets - responses, -self.bound, self.bound)
        return differences.astype(float)

    def scales(self, means: Floats) -> tuple[Floats, Floats]:
        """Return slopes and variances, which are the same in all groups."""
        return np.ones(means.shape), np.full(means.shape, self.row_variance)


def bin_sums(codes: NDArray[Any], residuals: Floats, n_bins: int) -> Integers:
    """Add up residuals by bin: (n_bins, n_outputs)."""
    # A row adds its residuals to one bin, so that it changes the sums by their norm. The
    # last count is of rows in no bin.
    sums = []
    for row_residuals in residuals:
        sums.append(np.bincount(codes, row_residuals, n_bins + 1)[:n_bins])
    return np.stack(sums, axis=1).astype(np.int64)


def size_counts(residuals: Floats, limits: Integers) -> Integers:
    """Count residuals by size: each in the class of the smallest limit that it does not exceed."""
    classes = np.searchsorted(limits, np.abs(residuals[0]))
    return np.bincount(classes, minlength=len(limits))


# Epochs that begin with a new bound of the residuals. With a single bound, R2 of three tables at epsilon 0.1 falls by
# 0.03 to 0.2 (benchmarks/central_models.py).
BOUND_EPOCHS = (0, 1, 2, 4)


def find_residuals(
    targets: Integers,
    responses: Integers,
    n_rows: float,
    noise: Noise,
    source: ByteSource,
) -> NumberResiduals:
    """Find a bound that few numeric residuals exceed, and their variance, from noisy counts by size."""
    n_bounds = 32  # half octaves
    steps = np.arange(n_bounds)[::-1]
    bounds = (2 * STEPS * 2.0 ** (-steps / 2)).astype(np.int64)  # ascending
    residuals = NumberResiduals(int(bounds[-1])).measure(targets, responses)
    counts = noise.add_floats(source, size_counts(residuals, bounds))
    error = to_float(noise.error)
    # Cumulated from the largest size down, because this adds the noise of few counts.
    n_beyond = np.cumsum(counts[::-1])[::-1]
    n_added = np.arange(n_bounds, 0, -1)
    is_many = n_beyond > 0.02 * n_rows + error * np.sqrt(n_added)
    # The bound is the last size that many rows exceed. The True in front represents no
    # bound and shifts the positions by one.
    last_many = int(np.flatnonzero(np.append(True, is_many))[-1])
    index = max(last_many - 1, 0)
    inside = np.maximum(counts[: index + 1], 0.0)
    n_inside = inside.sum()
    # The mean square within a half octave is 0.72 times the square of its upper bound if the logarithm of the size is
    # uniform. The first class, which begins at 0, is treated in the same way.
    squares = 0.72 * (bounds[: index + 1] / STEPS) ** 2
    variance = squares[-1]
    if n_inside > 0:
        variance = max(float(inside @ squares) / n_inside, variance / 16)
    return NumberResiduals(int(bounds[index]), variance)


def count_epochs(mu_squared: Fraction, n_rows: float, n_columns: int) -> int:
    """Return the number of epochs: more if there is less noise."""
    # Half and twice as many change R2 by less than 0.006 (benchmarks/central_models.py).
    wanted = math.sqrt(mu_squared) * n_rows / (20 * n_columns)
    return int(np.clip(round(wanted), 2, 12))


class Start(NamedTuple):
    """First measurements of the target, and the remaining budget."""

    n_rows: float
    # The constant: (n_outputs,)
    response: Floats
    # Residuals of classes; the bounds of numbers are found by noisy counts.
    residuals: Residuals
    noise_of_bounds: Noise | None
    # The budget for sums.
    mu_squared: Fraction


class Shapes(NamedTuple):
    """Functions of bins whose mean over records is 0, and the constant, in units of the response."""

    # (n_outputs,)
    intercept: Floats
    # For each column: (n_bins, n_outputs)
    values: list[Floats]
    std_errors: list[Floats]
    n_epochs: int


class _AdditiveTerm:
    """The function of a column, and the average of its noisy sums."""

    def __init__(self, bins: Bins, n_outputs: int) -> None:
        self.bins = bins
        self.sizes = bins.sizes
        self.covariances = priors(bins)
        shape = len(bins.counts), n_outputs
        self.values = np.zeros(shape)
        self.std_errors = np.zeros(shape)
        # Over rows: (n_outputs,)
        self.mean = np.zeros(n_outputs)
        # The values in whole steps of the response unit, with a 0 for rows in no bin.
        self.integer_values = np.zeros((shape[0] + 1, n_outputs), np.int64)
        # Averages over epochs: of the expected sums at the best fit of this function, and of the slope of a sum in the
        # value of its bin.
        self._mean_sums = np.zeros(shape)
        self._mean_slopes = np.zeros(shape)
        # Noise variances of the averaged sums, and the weights of all epochs in them.
        self._noise_variances = np.zeros(shape)
        self._epoch_weights = np.zeros(shape)

    def std_errors_with_mean(self) -> Floats:
        """Return the standard errors of the values, less their mean by the noisy sizes: (n_bins, n_outputs)."""
        # A size that is wrong by e moves the mean by e * (value - mean) / n_rows.
        sizes = self.sizes
        variances = self.std_errors**2
        squares = (self.values - self.mean) ** 2 + variances
        of_mean = self.bins.variances @ squares / sizes.sum() ** 2
        return np.sqrt(variances + of_mean)

    def update(
        self,
        noisy: Floats,
        curvatures: Floats,
        variances: Floats,
        epoch: Epoch,
    ) -> None:
        """Update the function with the noisy sums of an epoch."""
        self._average(noisy, curvatures, epoch)
        values = self._smooth(variances, epoch.row_variance)
        # Only noise produces larger responses.
        self.values = _center_classes(np.clip(values, -64, 64))
        n_rows = self.sizes.sum()
        self.mean = self.sizes @ self.values / n_rows
        self.integer_values = self.integer_values.copy()
        self.integer_values[:-1] = np.rint(self.values * epoch.response_unit)

    def _average(self, noisy: Floats, curvatures: Floats, epoch: Epoch) -> None:
        """Update the averages of the noisy sums with the sums of an epoch."""
        # Too small a count would make the step too long.
        counts = np.maximum(self.sizes, np.sqrt(self.bins.variances))[:, np.newaxis]
        slopes = counts * curvatures
        self._epoch_weights += epoch.weight
        weight = epoch.weight / self._epoch_weights
        self._mean_sums += weight * (slopes * self.values + noisy - self._mean_sums)
        self._mean_slopes += weight * (slopes - self._mean_slopes)
        self._noise_variances *= (1 - weight) ** 2
        self._noise_variances += weight**2 * epoch.error**2

    def _smooth(self, variances: Floats, unit: float) -> Floats:
        """Return the posterior means of the values, and set their standard errors."""
        sizes = self.sizes
        centre = np.eye(sizes.size) - sizes / sizes.sum()
        values = np.zeros(self.values.shape)
        for output in range(self.values.shape[1]):
            values[:, output], covariance = smooth(
                self._mean_sums[:, output],
                self._mean_slopes[:, output],
                self._noise_variances[:, output] + sizes * variances[:, output],
                self.covariances,
                unit,
            )
            errors = np.diag(centre @ covariance @ centre.T)
            self.std_errors[:, output] = np.sqrt(np.maximum(errors, 0.0))
        return values


class Epoch(NamedTuple):
    """Measurement of the sums of an epoch."""

    # Standard deviation of the noise of a sum.
    error: float
    weight: float
    response_unit: int
    # See `Residuals`.
    row_variance: float


def backfit(
    codes: Sequence[NDArray[Any]],
    targets: NDArray[Any],
    bins: Sequence[Bins],
    start: Start,
    source: ByteSource,
) -> Shapes:
    """Fit a function of each column in turn, from noisy sums of residuals by bin."""
    # Sums are approximately ``slopes * (f - function)``, where f is the function that
    # fits best. So ``slopes * function + sums`` estimates ``slopes * f`` for any
    # function: its average over epochs has the noise of the whole budget, and is shrunk
    # once. In boosting, each step is shrunk separately, so the noise of bins with few
    # rows accumulates without a limit.
    residuals = start.residuals
    n_outputs = len(start.response)
    functions = [_AdditiveTerm(column, n_outputs) for column in bins]
    constant = np.rint(start.response * residuals.response_unit).astype(np.int64)
    # The responses of the model to each row: (n_outputs, n_rows).
    responses = np.tile(constant[:, np.newaxis], len(targets))
    n_epochs = count_epochs(start.mu_squared, start.n_rows, len(bins))
    amount = start.mu_squared / (n_epochs * len(bins))
    for number in range(n_epochs):
        if start.noise_of_bounds is not None and number in BOUND_EPOCHS:
            residuals = find_residuals(
                targets, responses, start.n_rows, start.noise_of_bounds, source
            )
        noise = Noise("mu", amount, residuals.square)
        error = to_float(noise.error) / residuals.unit
        error *= _centering_factor(n_outputs)
        # Later epochs are nearer to the solution, and epochs with little noise are better.
        epoch = Epoch(
            error=error,
            weight=(number + 1) / error**2,
            response_unit=residuals.response_unit,
            row_variance=residuals.row_variance,
        )
        for column, function in enumerate(functions):
            row_residuals = residuals.measure(targets, responses)
            exact = bin_sums(codes[column], row_residuals, len(function.sizes))
            noisy = noise.add_floats(source, exact)
            # The mean response in each bin, as of independent columns.
            other_means = [other.mean for other in functions if other is not function]
            means = function.values + start.response + sum(other_means)
            curvatures, residual_variances = residuals.scales(means)
            before = function.integer_values
            function.update(
                _center_classes(noisy / residuals.unit),
                curvatures,
                residual_variances,
                epoch,
            )
            responses += (function.integer_values - before).T[:, codes[column]]
    function_means = [function.mean for function in functions]
    return Shapes(
        intercept=start.response + np.sum(function_means, axis=0),
        values=[function.values - function.mean for function in functions],
        std_errors=[function.std_errors_with_mean() for function in functions],
        n_epochs=n_epochs,
    )


def _center_classes(values: Floats) -> Floats:
    """Subtract the mean over several classes, which is noise and changes no probability."""
    if values.shape[1] == 1:
        return values
    return values - values.mean(axis=1, keepdims=True)


def _centering_factor(n_outputs: int) -> float:
    """Return the ratio of the standard deviations of noise after and before centering over classes."""
    if n_outputs == 1:
        return 1.0
    return math.sqrt(1 - 1 / n_outputs)
