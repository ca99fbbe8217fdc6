"""Private bins of numbers from noisy counts of cells, and smoothing of functions of bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skdp._arrays import Floats, Indices, Integers
from skdp.central.statistics import (
    Noise,
    is_ordered,
    to_float,
)
from skdp.domain import Categories, Domain, Interval
from skdp.randomness import ByteSource

# Half and twice of each constant change AUC and R2 of additive models of nine tables at epsilon 1 by less than 0.01
# (benchmarks/central_models.py).

# Smallest number of records of a bin, in standard deviations of the noise of a cell.
MIN_BIN_ERRORS = 2.5

# Numbers of bins with much noise and with little noise. The latter separates years, and most
# identifiers; histogram trees have as many bins.
MIN_BINS, MAX_BINS = 24, 256

# Numbers of cells of equal width with much noise and with little noise: powers of 2.
MIN_CELLS, MAX_CELLS = 64, 4096


@dataclass(frozen=True, eq=False)
class Bins:
    """The bins of a column, and their noisy counts."""

    attribute: Categories | Interval
    # The bin of each counted cell; last, the number of bins for rows outside all cells.
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
    return n_bins, 1 << int(np.log2(np.clip(n_cells, MIN_CELLS, MAX_CELLS)))


def cut_finely(low: float, high: float, n_cells: int = MAX_CELLS) -> Interval:
    """Cut an interval into public cells: of equal width, and smaller toward the point that is nearest to 0.

    The edges of fewer cells, with a power of 2 as their number, are edges of more cells.
    """
    fractions = np.arange(n_cells + 1) / n_cells
    even = low * (1 - fractions) + high * fractions
    near = float(np.clip(0.0, low, high))
    # For skewed numbers, two edges per octave, down to a distance of 2**-24.5 of the width.
    octaves = 2.0 ** -np.arange(0.5, 24.6, 0.5)
    skewed = near + np.outer([high - near, low - near], octaves)
    return make_cells(np.unique(np.clip([*even, *skewed.ravel()], low, high)))


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
        attribute = domain[name]
        if name in numbers and isinstance(attribute, Interval):
            low, *_, high = attribute.edges
            edges = cut_finely(low, high, n_cells).edges
            # The last cell has the missing numbers.
            starts.append(np.searchsorted(attribute.edges, edges))
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
        if name in numbers and isinstance(attribute, Interval):
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


def make_prior_covariances(bins: Bins) -> list[Floats]:
    """Return candidates of the prior covariance of the values of a function of bins, of shape (n_bins, n_bins).

    The variances are about 1, except for a small variance of the mean of the function. Functions of three or more
    ordered bins are smooth or, in the second candidate, rough; the values of other bins are independent.
    """
    counts = bins.sizes
    covariances = [np.eye(len(counts))]
    ordered = _ordered_bins(bins.attribute)
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


def _ordered_bins(attribute: Categories | Interval) -> list[int]:
    """Return the indices of the bins that have an order, without missing values."""
    if isinstance(attribute, Interval):
        return list(range(len(attribute.edges) - 1))
    if not is_ordered(attribute):
        return []
    values = attribute.values
    return [index for index, value in enumerate(values) if value is not None]


class Smoothed(NamedTuple):
    """The posterior distribution of a function of bins."""

    # Shapes (n_bins,) and (n_bins, n_bins).
    mean: Floats
    covariance: Floats
    # The effective number of parameters.
    n_free: float
    # The log-likelihood of the function, minus the one of the function 0.
    evidence: float


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
    smoothed = [
        _smooth_by_prior(sums, weights, variances, covariance, row_variance)
        for covariance in covariances
    ]
    return max(smoothed, key=attrgetter("evidence"))


def _smooth_by_prior(
    sums: Floats,
    weights: Floats,
    variances: Floats,
    covariance: Floats,
    row_variance: float,
) -> Smoothed:
    """Estimate a function of bins with a prior covariance, see `smooth_sums`."""
    prior_variances = row_variance * _RELATIVE_VARIANCES
    # The standard deviation s of a function has a half-Cauchy prior (A. Gelman, 2006),
    # with a density proportional to 1 / (1 + s**2 / a**2). On a logarithmic grid, its
    # weights are s times this density. The scale a is a quarter of the standard deviation
    # of an estimate from one record: half a logit for classes. With a uniform prior, noise
    # is fitted as functions of many logits.
    log_priors = np.log(_RELATIVE_VARIANCES) / 2 - np.log1p(
        _RELATIVE_VARIANCES / 0.25**2
    )
    # Divided by the standard deviation of their noise, the sums have noise of variance 1
    # and these weights.
    deviations = np.sqrt(variances)
    unit_weights = weights / deviations
    values, vectors = np.linalg.eigh(
        unit_weights[:, np.newaxis] * covariance * unit_weights
    )
    rotated_sums = vectors.T @ (sums / deviations)
    # In the eigenvectors of the covariance of the signal, sums are independent with these
    # variances of signal plus noise; shape (n_scales, n_bins).
    rotated_variances = 1 + np.outer(prior_variances, np.maximum(values, 0.0))
    misfits = np.log(rotated_variances) + rotated_sums**2 / rotated_variances
    # The scale with the largest posterior probability (empirical Bayes: C. Morris, 1983).
    likelihoods = -misfits.sum(axis=1) / 2
    best = int(np.argmax(log_priors + likelihoods))
    variance = prior_variances[best]
    factors = variance / rotated_variances[best]
    # From rotated sums to the function; shape (n_bins, n_bins).
    to_function = covariance @ (unit_weights[:, np.newaxis] * vectors)
    explained = (to_function * (variance * factors)) @ to_function.T
    return Smoothed(
        mean=to_function @ (factors * rotated_sums),
        covariance=variance * covariance - explained,
        n_free=float((1 - 1 / rotated_variances[best]).sum()),
        evidence=float(likelihoods[best] + (rotated_sums**2).sum() / 2),
    )
