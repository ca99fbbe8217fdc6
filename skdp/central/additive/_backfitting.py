"""Bins of columns, smooth functions of them, and additive models that are fitted to noisy sums of residuals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import expit, ndtri, softmax

from skdp._arrays import Floats, Indices, Integers
from skdp.central._rows import (
    RESIDUAL_LIMITS,
    choose_residual_limit,
    count_by_size,
)
from skdp.central.linear._losses import (
    LOGIT_UNIT,
    MAX_LOGIT,
    RESIDUAL_UNIT,
    BinaryLoss,
    SoftmaxLoss,
)
from skdp.central.statistics import (
    Noise,
    add_drawn,
    is_ordered,
    to_float,
    warn_user,
)
from skdp.domain import Categories, Domain, Interval
from skdp.privacy import PrivacyBudget, Split
from skdp.randomness import ByteSource

# Half and twice of each constant change AUC and R2 of additive models of nine tables at epsilon 1 by less than 0.01
# (benchmarks/central_models.py).

# Smallest number of records of a bin, in standard deviations of the noise of a cell.
MIN_BIN_ERRORS = 2.5

# Numbers of bins with much noise and with little noise. The latter separates years, and most
# identifiers; histogram trees have as many bins.
MIN_BINS, MAX_BINS = 24, 256

# Numbers of cells of equal width with much noise and with little noise: powers of 2.
MIN_FINE_CELLS, MAX_FINE_CELLS = 64, 4096


@dataclass(frozen=True, eq=False)
class Bins:
    """The bins of a column, and their noisy counts."""

    attribute: Categories | Interval
    # The bin of each counted cell. The last entry, n_bins, is for rows outside all cells.
    bins_of_cells: Indices
    # Counts of the bins, and the variances of their noise; shape (n_bins,).
    counts: Floats
    variances: Floats

    @property
    def sizes(self) -> Floats:
        """The counts of bins, each at least half of the standard deviation of its noise."""
        return np.maximum(self.counts, np.sqrt(self.variances) / 2)


def choose_sizes(n_rows: float, error: float) -> tuple[int, int]:
    """Choose the numbers of bins and of cells by the noisy number of rows and the noise `error` of the count of a cell.

    The sampling error of a count of `error**2` rows is as large as its noise.
    """
    # The noise of a cell is at most its sampling error, and of a bin at most a half of it.
    n_cells = n_rows / max(error, 2.0**-20) / max(error, 2.0**-20)
    n_bins = int(np.clip(n_cells / 4, MIN_BINS, MAX_BINS))
    return n_bins, 1 << int(np.log2(np.clip(n_cells, MIN_FINE_CELLS, MAX_FINE_CELLS)))


@lru_cache(maxsize=32)  # columns often have equal bounds
def cut_to_cells(low: float, high: float) -> Interval:
    """Cut an interval into public cells, see `find_edges`."""
    return make_cells(find_edges(low, high, MAX_FINE_CELLS))


def find_edges(low: float, high: float, n_cells: int) -> Floats:
    """Return the edges of public cells: of equal width, and smaller toward the point that is nearest to 0.

    The edges of fewer cells, with a power of 2 as their number, are edges of more cells.
    """
    fractions = np.arange(n_cells + 1) / n_cells
    even = low * (1 - fractions) + high * fractions
    near = float(np.clip(0.0, low, high))
    # For skewed numbers, two edges per octave, down to a distance of 2**-24.5 of the width.
    octaves = 2.0 ** -np.arange(0.5, 24.6, 0.5)
    skewed = near + np.outer([high - near, low - near], octaves)
    return np.unique(np.clip(np.append(even, skewed), low, high))


def make_cells(edges: Floats) -> Interval:
    """Return an `Interval` of real numbers with these edges and a cell for missing values."""
    return Interval(edges=edges.tolist(), missing=True, real=True)


def merge_to_bins(
    domain: Domain,
    numbers: Sequence[Any],
    cell_counts: Sequence[Integers],
    sizes: tuple[int, int],
    noise: Noise,
    source: ByteSource,
) -> list[Bins]:
    """Merge the cells of columns into bins, by noisy counts.

    Parameters
    ----------
    domain : Domain
        The narrowest cells of each column.
    numbers : list of column names
        The columns whose neighboring cells are merged. The cells of other columns are bins.
    cell_counts : list of ndarray of shape (n_cells,)
        The exact counts of each column.
    sizes : pair of int
        The numbers of bins and of counted cells, see `choose_sizes`.
    noise : Noise
        The noise of a count.
    source : ByteSource
        Random bits for the noise.
    """
    # Without noise, each cell would be a bin.
    error = to_float(max(noise.std, Fraction(1, 4)))
    n_bins, n_cells = sizes
    # The first of the narrow cells in each counted cell.
    starts: list[Indices] = []
    for name, exact_counts in zip(domain.columns, cell_counts, strict=True):
        attribute: Any = domain[name]
        if name in numbers:
            edges = attribute.edges
            counted = find_edges(edges[0], edges[-1], n_cells)
            # The last cell has the missing numbers.
            starts.append(np.searchsorted(edges, counted))
        else:
            starts.append(np.arange(len(exact_counts)))
    exact = list(map(np.add.reduceat, cell_counts, starts))
    noisy = noise.add_floats(source, np.concatenate(exact))
    column_ends = np.cumsum(list(map(len, exact)))[:-1]
    bins = []
    for name, first_cells, counts in zip(
        domain.columns, starts, np.split(noisy, column_ends), strict=True
    ):
        attribute = domain[name]
        firsts: Indices = np.arange(len(counts))
        if name in numbers:
            # The missing numbers are a bin.
            min_count = max(counts[:-1].sum() / n_bins, MIN_BIN_ERRORS * error)
            joined = _merge_neighbors(counts[:-1], min_count, error)
            firsts = np.append(joined, len(counts) - 1)
            attribute = make_cells(np.array(attribute.edges)[first_cells[firsts]])
        narrow = np.arange(len(domain[name]))
        bin_of_cell = np.searchsorted(first_cells[firsts], narrow, "right") - 1
        bins.append(
            Bins(
                attribute,
                np.append(bin_of_cell, len(firsts)),
                np.add.reduceat(counts, firsts),
                np.diff(firsts, append=len(counts)) * error**2,
            )
        )
    return bins


def _merge_neighbors(counts: NDArray[Any], min_count: float, error: float) -> list[int]:
    """Merge neighboring cells into bins with noisy counts of about `min_count`; return the first cell of each bin.

    `error` is the standard deviation of the noise of a cell.
    """
    firsts = [0]
    n_records = 0.0
    for cell, count in enumerate(counts):
        # A cell with enough records, such as the cell of zeros, begins a new bin if the bin
        # before it has at least half of the smallest count.
        if cell > firsts[-1] and count >= min_count and n_records >= min_count / 2:
            firsts.append(cell)
            n_records = 0.0
        n_records += count
        if n_records >= min_count:
            firsts.append(cell + 1)
            n_records = 0.0
    # The last bin is merged with the previous bin unless its count exceeds the noise,
    # because the sum of many empty cells with noise may exceed the smallest count.
    noise = MIN_BIN_ERRORS * error * math.sqrt(len(counts) - firsts[-1])
    if len(firsts) > 1 and n_records < max(min_count / 2, noise, 1.0):
        firsts.pop()
    return firsts


# Candidate prior variances of a function, relative to the variance of an estimate from one
# record. Half or twice as many, or a range from 1e-8 to 1e8, changes AUC by less than 0.001.
_RELATIVE_VARIANCES = np.geomspace(1e-4, 1e4, 17)

# The standard deviation s of a function has a half-Cauchy prior (A. Gelman, 2006), with a
# density proportional to 1 / (1 + s**2 / a**2). On a logarithmic grid, its weights are s times
# this density. The scale a is a quarter of the standard deviation of an estimate from one
# record: half a logit for classes. With a uniform prior, noise is fitted as functions of many
# logits.
_LOG_PRIORS = np.log(_RELATIVE_VARIANCES) / 2 - np.log1p(_RELATIVE_VARIANCES / 0.25**2)


def make_prior_covariances(bins: Bins) -> list[Floats]:
    """Return candidates of the prior covariance of the values of a function of bins, of shape (n_bins, n_bins).

    The variances are about 1, except for a small variance of the mean of the function. Functions of three or more
    ordered bins are smooth or, in the second candidate, rough; the values of other bins are independent.
    """
    counts = bins.sizes
    covariances = [np.eye(len(counts))]
    ordered = list_ordered_bins(bins.attribute)
    if len(ordered) > 2:
        # Missing values are not similar to any other value.
        sizes = counts[ordered]
        # Normal scores of the middles of the bins are independent of the scale of the column.
        scores = ndtri((np.cumsum(sizes) - sizes / 2) / sizes.sum())
        distances = np.abs(scores[:, np.newaxis] - scores)
        # A Gaussian process, and an Ornstein-Uhlenbeck process for identifiers and spikes.
        # One of them alone predicts worse (benchmarks/central_models.py).
        covariances = [np.eye(len(counts)), np.eye(len(counts))]
        for covariance, exponents in zip(
            covariances, (distances**2 / 2, distances), strict=True
        ):
            correlations = np.exp(-exponents) + 0.01 * np.eye(len(ordered))
            covariance[np.ix_(ordered, ordered)] = correlations
    # Subtracts the mean over records from a function. The prior variance of the mean is
    # small because the model has an intercept.
    centering = np.eye(len(counts)) - counts / counts.sum()
    return [centering @ matrix @ centering.T + 0.05 for matrix in covariances]


def list_ordered_bins(attribute: Categories | Interval) -> list[int]:
    """Return the indices of the bins that have an order, without missing values."""
    if isinstance(attribute, Interval):
        return list(range(len(attribute.edges) - 1))
    if not is_ordered(attribute):
        return []
    values = attribute.values
    return [index for index, value in enumerate(values) if value is not None]


class Smoothed(NamedTuple):
    """The posterior distribution of a function of bins."""

    # The log-likelihood of the function minus the log-likelihood of the function 0.
    evidence: float
    # The prior covariance is `variance` times `covariance`, (n_bins, n_bins).
    covariance: Floats
    variance: float
    # In the eigenvectors of the covariance of the signal, (n_bins, n_bins), times the weights
    # of bins, sums are independent with these variances of signal plus noise, (n_bins,).
    vectors: Floats
    sums: Floats
    variances: Floats

    @property
    def n_free(self) -> float:
        """The effective number of parameters."""
        return float((1 - 1 / self.variances).sum())

    def compute_mean(self) -> Floats:
        """Return the posterior means of the values; shape (n_bins,)."""
        factors = self.variance / self.variances
        return self.covariance @ self.vectors @ (factors * self.sums)

    def compute_covariance(self) -> Floats:
        """Return the posterior covariance of the values; shape (n_bins, n_bins)."""
        to_function = self.covariance @ self.vectors
        factors = self.variance * (self.variance / self.variances)
        explained = (to_function * factors) @ to_function.T
        return self.variance * self.covariance - explained


def smooth_sums(
    sums: Floats,
    weights: Floats,
    variances: Floats,
    covariances: Sequence[Floats],
    row_variance: float,
) -> Smoothed:
    """Estimate a function f of bins from sums that are ``weights * f`` plus noise.

    Parameters
    ----------
    sums, weights, variances : ndarray of shape (n_bins,)
        The sums, their weights, and the variances of their noise.
    covariances : list of ndarray of shape (n_bins, n_bins)
        Candidates of the prior covariance of f, with variances of about 1.
    row_variance : float
        Variance of an estimate of f from one record, the unit of the prior variances.
    """
    # Divided by the standard deviation of their noise, the sums have noise of variance 1
    # and these weights.
    deviations = np.sqrt(variances)
    unit_sums, unit_weights = sums / deviations, weights / deviations
    smoothed = [
        _smooth_by_prior(unit_sums, unit_weights, covariance, row_variance)
        for covariance in covariances
    ]
    return max(smoothed, key=attrgetter("evidence"))


def _smooth_by_prior(
    sums: Floats, weights: Floats, covariance: Floats, row_variance: float
) -> Smoothed:
    """Estimate a function of bins with a prior covariance, from sums with noise of variance 1."""
    prior_variances = row_variance * _RELATIVE_VARIANCES
    columns = weights[:, np.newaxis]
    values, vectors = np.linalg.eigh(columns * covariance * weights)
    rotated_sums = vectors.T @ sums
    # Variances of signal plus noise, of shape (n_scales, n_bins).
    variances = 1 + np.outer(prior_variances, np.maximum(values, 0.0))
    squares = rotated_sums**2
    likelihoods = -(np.log(variances) + squares / variances).sum(axis=1) / 2
    # The scale with the largest posterior probability (empirical Bayes: C. Morris, 1983).
    best = int(np.argmax(_LOG_PRIORS + likelihoods))
    return Smoothed(
        evidence=float(likelihoods[best] + squares.sum() / 2),
        covariance=covariance,
        variance=prior_variances[best],
        vectors=columns * vectors,
        sums=rotated_sums,
        variances=variances[best],
    )


# Integer that represents the distance from the middle of the bounds of a numeric target to
# either bound. Floats represent sums of 2**32 residuals exactly.
TARGET_UNIT = 1 << 20


class ClassResiduals:
    """The gradient of the weighted logistic loss of `DPLogisticRegression`, as integers for each row and output."""

    # The integers that represent a residual of 1 and a response of 1. `square` is the square
    # of the largest possible norm of the residuals of a row.
    unit = RESIDUAL_UNIT
    response_unit = LOGIT_UNIT
    # The variance of a logit estimated from one row with two equally likely classes. A
    # larger variance for a rare class would allow effects that do not occur.
    row_variance = 4.0
    # The largest change of the response in a step: on the way, slopes change by a factor of
    # less than 8.
    max_step = 2.0
    dtype = np.int64
    is_guessed = False

    def __init__(self, n_classes: int) -> None:
        self._is_binary = n_classes == 2
        self._loss = BinaryLoss() if self._is_binary else SoftmaxLoss(n_classes)
        self.square = self._loss.square

    def measure(self, targets: NDArray[Any], responses: NDArray[Any]) -> NDArray[Any]:
        """Return the residuals of rows, (n_outputs, n_rows): minus the gradients of their losses."""
        largest = MAX_LOGIT * LOGIT_UNIT
        logits = np.clip(responses.T, -largest, largest)
        return -self._loss.residuals(logits, targets).T

    def linearize(self, means: Floats, others: Floats) -> tuple[Floats, Floats]:
        """Return the mean slopes and variances of the residuals of the rows in each bin.

        A slope is the decrease of the residual per unit of the response: the second derivative of the loss. `means` are
        the mean logits of bins. All shapes are (n_bins, n_outputs). `others` are changes of the logits by the other
        columns, (n_rows, n_outputs).
        """
        slopes, variances = self._differentiate(means[:, np.newaxis] + others)
        # With columns that depend on each other, `others` may be too large, and the steps too
        # long.
        smallest = MIN_SLOPE * self._differentiate(means)[0]
        return np.maximum(slopes.mean(axis=1), smallest), variances.mean(axis=1)

    def _differentiate(self, logits: Floats) -> tuple[Floats, Floats]:
        """Return the slopes and variances of residuals at logits of shape (..., n_outputs)."""
        # The slope of a weighted residual is w p (1 - p), and its variance w**2 p (1 - p).
        # The weight w limits the largest possible norm of the residuals to the norm at
        # equal logits, which is the root of `square` in units of `RESIDUAL_UNIT`.
        if self._is_binary:
            probabilities = expit(logits)
            longest = np.maximum(probabilities, 1 - probabilities)
        else:
            probabilities = softmax(logits, axis=-1)
            norms = (probabilities**2).sum(axis=-1, keepdims=True)
            smallest = probabilities.min(axis=-1, keepdims=True)
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
    # Represents the integers exactly, and is faster than conversions in each step.
    dtype = np.float64

    def __init__(
        self,
        bound: int,
        variance: float = 1.0,
        slope: float = 1.0,
        *,
        is_guessed: bool = False,
    ) -> None:
        """Set the bound of residuals, in steps of 1 / `TARGET_UNIT`.

        `variance` is the mean square of the clipped residuals, not in steps. `slope` is the proportion of residuals
        within the bound. `is_guessed` states that noise exceeded the counts of residuals, from which they follow.
        """
        self.bound = bound
        self.square = bound**2
        self.variance = variance
        self.slope = slope
        self.row_variance = variance / slope**2
        self.is_guessed = is_guessed

    def measure(self, targets: NDArray[Any], responses: NDArray[Any]) -> Floats:
        """Return the differences, clipped to the bound; (n_outputs, n_rows)."""
        differences = targets - responses
        return np.clip(differences, -self.bound, self.bound, out=differences)

    def linearize(self, means: Floats, others: Floats) -> tuple[Floats, Floats]:
        """Return slopes and variances that are equal in all bins."""
        # A change of the response changes the residuals within the bound (P. J. Huber, 1964).
        return np.full(means.shape, self.slope), np.full(means.shape, self.variance)


Residuals = ClassResiduals | NumberResiduals


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
    """Noisy facts from which backfitting starts, and the budget."""

    n_rows: float
    # The constant response, of shape (n_outputs,), and the variance of its noise.
    response: Floats
    response_variance: float
    residuals: Residuals
    # The whole budget, and its fractions: `sums` by bin, and, for a numeric target, `bounds` of
    # residuals and the `gain` over a constant.
    budget: PrivacyBudget
    parts: Split


# Epochs that begin with a new bound of the residuals. With a single bound, R2 of three
# tables at epsilon 0.1 decreases by 0.03 to 0.2 (benchmarks/central_models.py).
BOUND_EPOCHS = (0, 1, 2, 4)


class EpochWeights:
    """Weights of the measurements of epochs in their average, and the noise variance of the average."""

    def __init__(self) -> None:
        self.variance = 0.0
        self._n_epochs = 0

    def choose(self, changes: Floats, variance: float) -> float:
        """Return the weight of the measurements of a new epoch.

        `changes` are their differences from the average, and `variance` is their noise variance. Earlier measurements
        are about other functions: if the changes exceed the noise, the weight is larger (R. Kalman, 1960).
        """
        self._n_epochs += 1
        known = self.variance + variance
        drift = float((changes**2).mean())
        if drift < known * (1 + MAX_ERRORS * math.sqrt(2 / changes.size)):
            drift = 0.0
        # With equal noise, later epochs have larger weights: they are closer to the solution.
        weight = max(
            (self.variance + drift) / (known + drift), 2 / (self._n_epochs + 1)
        )
        self.variance = (1 - weight) ** 2 * self.variance + weight**2 * variance
        return weight


class ResidualSizes:
    """Noisy counts of the residuals of a numeric target by size, and their averages over epochs."""

    def __init__(self, noise: Noise, n_rows: float) -> None:
        """Start without counts. `noise` is for the counts of an epoch, and `n_rows` is the noisy number of rows."""
        self._noise = noise
        self._n_rows = n_rows
        self._counts = np.zeros(len(RESIDUAL_LIMITS))
        self._weights = EpochWeights()

    def shrink_bound(
        self, before: NumberResiduals, sizes: Floats, n_free: float, source: ByteSource
    ) -> NumberResiduals:
        """Count residuals, and choose a bound that few of them exceed, at most the bound `before`.

        `sizes` are the absolute residuals of the rows, (n_rows,), and `n_free` is the effective number of parameters of
        the model.
        """
        # Counts are integers, so they have the error of rounding at a huge epsilon, too.
        error = to_float(max(self._noise.std, Fraction(1, 2)))
        counts = self._noise.add_floats(source, count_by_size(sizes))
        # At most 2 % of the residuals are clipped.
        limit, _ = choose_residual_limit(
            counts,
            error,
            self._n_rows,
            0.02 * self._n_rows,
            is_gaussian=self._noise.is_gaussian,
        )
        largest = before.bound / TARGET_UNIT
        is_guessed = bool(counts.max() < MAX_ERRORS * error)
        is_small = is_guessed and limit < largest / 2
        # The bound is the smallest of several, so its counts are too small beyond it, and
        # errors that follow from them alone, too.
        changes = counts - self._counts
        self._counts += self._weights.choose(changes, error**2) * changes
        # If noise exceeds the counts, a small limit may be due to noise. For normal residuals, the
        # limit is 2.3 standard deviations, and 0.2 is the mean square in squared limits.
        limit = largest / 2 if is_small else min(limit, largest)
        square, slope = (0.2, 1.0) if is_small else self._estimate_square(limit)
        # Residuals of fitted rows are smaller than residuals of further rows.
        square /= max(1 - n_free / self._n_rows, 1 / 4)
        return NumberResiduals(
            min(int(limit * TARGET_UNIT) + 1, before.bound),
            square * limit**2,
            slope,
            is_guessed=is_guessed,
        )

    def _estimate_square(self, limit: float) -> tuple[float, float]:
        """Estimate the mean square of residuals clipped to `limit`, in squared limits, and the proportion within it."""
        counts, n_rows, error = (
            self._counts,
            self._n_rows,
            math.sqrt(self._weights.variance),
        )
        sizes = RESIDUAL_LIMITS / limit
        # In the class of the limit and the next one, the density falls with the cube.
        beyond = np.clip((sizes**2 - 1) / 3, 0, 1)
        # Relative to its upper limit, the mean square of a class is 7/12 for a uniform
        # density, which has twice as many residuals as the class below, and about 5/12 for
        # a tail.
        ratios = np.append(2.0, counts[1:] / np.maximum(counts[:-1], error))
        squares = np.minimum((5 + np.clip(ratios, 0, 2)) / 12 * sizes**2, 1.0)
        # Farther counts are mostly noise.
        beyond[sizes > 4] = squares[sizes > 4] = 0.0
        slope = float(np.clip(1 - counts @ beyond / n_rows, 0.5, 1.0))
        square = max(float(counts @ squares) / n_rows, 1 / 50)
        # The quantile of a t-distribution exceeds a normal one, by a relative variance v
        # of the variance of an estimate: its square by about 1.2 v at 0.95.
        gradient = squares / square + 2 * beyond / slope
        spread = float(gradient @ gradient) * (error / n_rows) ** 2
        return square * (1 + 1.2 * spread), slope


# Number of public rows that represent the other columns of a class, and the smallest mean
# slope of rows in a bin, in slopes of a row with their mean logit. Without the latter, a fit
# of five classes at epsilon 10,000 has a log loss of 1.05 in place of 0.79.
N_PUBLIC_ROWS, MIN_SLOPE = 16, 0.7


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

    def __init__(
        self, bins: Bins, n_outputs: int, quantiles: Floats, direction: int
    ) -> None:
        """Start with the value 0 in each bin, without any measured sum.

        `quantiles` are the positions of public rows in the column, from 0 to 1. A `direction` of 1 is for increasing
        functions, -1 for decreasing functions, and 0 for all functions.
        """
        self.bins = bins
        self._direction = direction
        self.sizes = bins.sizes
        self.covariances = make_prior_covariances(bins)
        shape = len(bins.counts), n_outputs
        self.values = np.zeros(shape)
        # The mean over rows; shape (n_outputs,).
        self.mean = np.zeros(n_outputs)
        # The values as integers, and 0 for rows in no bin.
        self.integer_values = np.zeros((shape[0] + 1, n_outputs), np.int64)
        # The bins of public rows, and the values there minus their mean.
        ends = self.sizes.cumsum() / self.sizes.sum()
        self._public_bins = np.searchsorted(ends[:-1], quantiles)
        self.public_values = np.zeros((len(quantiles), n_outputs))
        # The posterior distribution of the values of each output.
        self.posteriors: list[Smoothed] = []
        # Averages over epochs of the sums plus the current function times the slopes, and of
        # the slopes of sums in the values.
        self._mean_sums = np.zeros(shape)
        self._mean_slopes = np.zeros(shape)
        self._weights = EpochWeights()

    def compute_std_errors(self) -> Floats:
        """Return the standard errors of the values minus their mean over rows; shape (n_bins, n_outputs)."""
        sizes = self.sizes
        # Subtracts the mean over rows from a function.
        centering = np.eye(sizes.size) - sizes / sizes.sum()
        variances = np.empty(self.values.shape)
        for output, posterior in enumerate(self.posteriors):
            covariance = centering @ posterior.compute_covariance() @ centering.T
            variances[:, output] = np.maximum(np.diag(covariance), 0.0)
        # The mean is weighted by noisy sizes. An error e of a size changes it by
        # e * (value - mean) / n_rows.
        squares = (self.values - self.mean) ** 2 + variances
        mean_variances = self.bins.variances @ squares / sizes.sum() ** 2
        return np.sqrt(variances + mean_variances)

    def update(
        self,
        noisy: Floats,
        constant: _Constant,
        residuals: Residuals,
        error: float,
        others: Floats,
    ) -> None:
        """Update the function and the constant by noisy sums of residuals of an epoch; shape (n_bins, n_outputs).

        `error` is the standard deviation of the noise, and `others` are the sums of other functions, minus their means,
        in public rows. Residuals and responses are in units of 1 here, not in integer steps.
        """
        means = self.values + constant.response
        row_slopes, variances = residuals.linearize(means, others)
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
        mean_slopes = np.maximum(self._mean_slopes, np.finfo(float).tiny)
        changes = sums - slopes * self._mean_sums / mean_slopes
        weight = self._weights.choose(changes, error**2)
        self._mean_sums += weight * (sums - self._mean_sums)
        self._mean_slopes += weight * (slopes - self._mean_slopes)
        values = self._smooth(variances, residuals.row_variance)
        step = np.clip(values - self.values, -residuals.max_step, residuals.max_step)
        # Larger responses are noise.
        self.values = _center_classes(np.clip(self.values + step, -64, 64))
        if self._direction:
            self._make_monotone()
        n_rows = self.sizes.sum()
        self.mean = self.sizes @ self.values / n_rows
        self.public_values = (self.values - self.mean)[self._public_bins]
        integers = np.rint(self.values * residuals.response_unit).astype(np.int64)
        self.integer_values = np.pad(integers, ((0, 1), (0, 0)))

    def _make_monotone(self) -> None:
        """Replace the values by the nearest monotone values: weighted by bin sizes, their mean remains."""
        ordered = list_ordered_bins(self.bins.attribute)
        fitted = isotonic_regression(
            self.values[ordered, 0],
            weights=self.sizes[ordered],
            increasing=self._direction > 0,
        )
        self.values[ordered, 0] = fitted.x

    def _smooth(self, variances: Floats, row_variance: float) -> Floats:
        """Return the posterior means of the values, and keep their posterior distributions.

        `variances` are the variances of the residual of a row in each bin, of shape (n_bins, n_outputs), and
        `row_variance` is the variance of an estimate of the response from one row.
        """
        # The mean of all bins is an error of the constant, so it is subtracted.
        slopes = self._mean_slopes
        sums = self._mean_sums - slopes * (self._mean_sums.sum(0) / slopes.sum(0))
        noise = self._weights.variance + self.sizes[:, np.newaxis] * variances
        self.posteriors = [
            smooth_sums(*column, self.covariances, row_variance)
            for column in zip(sums.T, slopes.T, noise.T, strict=True)
        ]
        means = [posterior.compute_mean() for posterior in self.posteriors]
        return np.stack(means, axis=1)


def backfit(
    codes: Sequence[NDArray[Any]],
    targets: NDArray[Any],
    bins: Sequence[Bins],
    directions: Sequence[int],
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
    directions : list of int
        1 or -1 for each column whose function increases or decreases, otherwise 0.
    start : Start
        The constant response, and the budget.
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
    # Public rows with independent columns.
    order, functions = np.random.default_rng(0), []
    for one, direction in zip(bins, directions, strict=True):
        quantiles = (order.permutation(N_PUBLIC_ROWS) + 0.5) / N_PUBLIC_ROWS
        functions.append(ColumnFunction(one, n_outputs, quantiles, direction))
    constant = _Constant(start)
    unit = residuals.response_unit
    targets = targets.astype(residuals.dtype, copy=False)
    # The responses of the model to each row; shape (n_outputs, n_rows).
    responses = np.tile(constant.round(unit).astype(residuals.dtype), len(targets))
    public_values = np.zeros((N_PUBLIC_ROWS, n_outputs))
    of_sums = start.budget * start.parts.sums / (n_epochs * len(bins))
    sizes = None
    if isinstance(residuals, NumberResiduals):
        bound_part = start.budget * start.parts.bounds / len(BOUND_EPOCHS)
        sizes = ResidualSizes(Noise.gaussian(bound_part), start.n_rows)
    ends = np.cumsum([function.values.size for function in functions])
    for epoch in range(n_epochs):
        # Residuals of numbers become smaller in the first epochs, and so does their bound,
        # to which the noise is proportional.
        if isinstance(residuals, NumberResiduals) and sizes and epoch in BOUND_EPOCHS:
            n_free = sum(
                posterior.n_free
                for function in functions
                for posterior in function.posteriors
            )
            row_sizes = np.abs(targets - responses[0]) / unit
            residuals = sizes.shrink_bound(residuals, row_sizes, n_free, source)
        noise = Noise.gaussian(of_sums, residuals.square)
        # Residuals are rounded to integers.
        error = to_float(max(noise.std, Fraction(1))) / residuals.unit
        if n_outputs > 1:  # centering over classes reduces the noise
            error *= math.sqrt(1 - 1 / n_outputs)
        # One draw for all columns takes a third of the time of a draw for each.
        drawn = np.split(noise.draw(source, int(ends[-1])), ends[:-1])
        for column, function in enumerate(functions):
            rows = codes[column].astype(np.intp)  # faster than several conversions
            # (n_outputs, n_rows); then all arrays have the shape (n_bins, n_outputs).
            row_residuals = residuals.measure(targets, responses)
            exact = sum_by_bin(rows, row_residuals, len(function.sizes))
            noisy = add_drawn(exact, drawn[column].reshape(exact.shape))
            before = function.integer_values
            constant_before = constant.round(unit)
            centered = _center_classes(noisy / residuals.unit)
            others = public_values - function.public_values
            function.update(centered, constant, residuals, error, others)
            public_values = others + function.public_values
            changes = (function.integer_values - before).T
            changes += constant.round(unit) - constant_before
            changes = changes.astype(residuals.dtype)
            for response, change in zip(responses, changes, strict=True):
                response += change.take(rows)
    function_means = [function.mean for function in functions]
    intercept = constant.response + np.sum(function_means, axis=0)
    if isinstance(residuals, NumberResiduals):
        is_better = _explains_squares(
            targets, responses[0], float(intercept[0]), residuals, start, source
        )
    else:
        # Each column has one estimated variance (H. Akaike, 1974).
        evidence = sum(
            posterior.evidence
            for function in functions
            for posterior in function.posteriors
        )
        is_better = evidence >= len(functions)
    _warn_of_noise(residuals, is_better=is_better)
    return intercept, functions


def _explains_squares(
    targets: Floats,
    responses: Floats,
    intercept: float,
    residuals: NumberResiduals,
    start: Start,
    source: ByteSource,
) -> bool:
    """Return True if the noisy sum of squared residuals is clearly smaller than with the best constant."""
    # The evidence of a function cannot replace this test, because it is conditional on the other
    # functions.
    bound = residuals.bound
    center = round(intercept * TARGET_UNIT)
    fitted = np.clip(responses, -TARGET_UNIT, TARGET_UNIT)
    before = np.clip(targets - center, -bound, bound)
    after = np.clip(targets - fitted, -bound, bound)
    # A row adds at most the bound to each sum.
    gains = (before**2 - after**2) // bound
    exact = np.array([before.sum(), gains.sum()]).astype(np.int64)
    noise = Noise.gaussian(start.budget * start.parts.gain, 2 * bound**2)
    total, gain = noise.add_floats(source, exact).tolist()
    error = to_float(max(noise.std, Fraction(1)))
    # The best constant is not the intercept.
    of_constant = max(total**2 - error**2, 0.0) / bound / start.n_rows
    # Noise alone exceeds 1.5 standard deviations in 7 % of the fits. With 2 in place of 1.5,
    # more warnings are of models of few rows that explain much.
    return bool(gain - of_constant > 1.5 * error)


def _warn_of_noise(residuals: Residuals, *, is_better: bool) -> None:
    """Warn if the size of residuals is a guess, or if the functions fit no better than a constant does."""
    # Noise is proportional to the limits of a numeric target.
    is_number = isinstance(residuals, NumberResiduals)
    remedy = (
        ", fewer columns, narrower `target_bounds`" if is_number else ", fewer columns"
    )
    if residuals.is_guessed:
        text = "numbers of residuals by size, so standard errors may be too small, and"
    elif not is_better:
        text = "effects of the columns, so"
    else:
        return
    warn_user(
        f"The noise exceeds the {text} the model may predict worse than a constant. Use "
        f"more rows{remedy} or a larger epsilon",
        "answers/which_epsilon",
    )


def _center_classes(values: Floats) -> Floats:
    """Subtract the mean over several classes from values, (n_bins, n_outputs), so that its noise is removed.

    This does not change probabilities.
    """
    if values.shape[1] == 1:
        return values
    return values - values.mean(axis=1, keepdims=True)
