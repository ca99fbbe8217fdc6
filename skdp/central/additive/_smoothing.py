"""Private bins of numbers from noisy counts of cells, and smoothing of functions of bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
        """The counts, each at least half of the standard deviation of its noise."""
        return np.maximum(self.counts, np.sqrt(self.variances) / 2)


def cut_finely(low: float, high: float) -> Interval:
    """Cut an interval into public cells: of equal width, and smaller toward the point that is nearest to 0."""
    fractions = np.arange(65) / 64
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
    noise: Noise,
    source: ByteSource,
) -> list[Bins]:
    """Merge the cells of columns into bins, by noisy counts.

    Parameters
    ----------
    domain : Domain
        The cells of each column.
    numbers : list of column names
        The columns whose neighboring cells are merged. The cells of other columns are bins.
    cell_counts : list of ndarray of shape (n_cells,)
        The exact counts of each column.
    noise : Noise
        The noise of a count.
    source : ByteSource
        Random bits for the noise.
    """
    error = to_float(noise.std)
    noisy = noise.add_floats(source, np.concatenate(cell_counts))
    column_ends = np.cumsum(list(map(len, cell_counts)))[:-1]
    bins = []
    for name, counts in zip(domain.columns, np.split(noisy, column_ends), strict=True):
        attribute = domain[name]
        cells = firsts = np.arange(len(counts))
        if name in numbers and isinstance(attribute, Interval):
            # The last cell has the missing numbers, and is a bin by itself. With more than
            # about 24 bins, the noise exceeds the counts of bins.
            min_count = max(counts[:-1].sum() / 24, MIN_BIN_ERRORS * error)
            joined = _merge_neighbors(counts[:-1], min_count, error)
            firsts = np.append(joined, len(counts) - 1)
            attribute = make_cells(np.array(attribute.edges)[firsts])
        bin_of_cell = np.searchsorted(firsts, cells, "right") - 1
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
    """Return prior covariances of the values of a function of bins: of rough functions, smooth functions and lines.

    Each has the shape (n_bins, n_bins) and variances of about 1, except for a small variance of the mean of the
    function. For bins without an order, or fewer than three bins, there is one covariance, of independent values.
    """
    counts = bins.sizes
    # Subtracts the mean over records from a function.
    centering = np.eye(len(counts)) - counts / counts.sum()
    covariances = []
    for covariance in _bin_covariances(bins.attribute, counts):
        # The prior variance of the mean is small because the model has an intercept.
        covariances.append(centering @ covariance @ centering.T + 0.05)
    return covariances


def _bin_covariances(attribute: Categories | Interval, counts: Floats) -> list[Floats]:
    """Return covariances of `make_prior_covariances` with full variances of the mean; each of shape (n_bins, n_bins).

    They are for a rough function, a smooth one and a line. `counts` are the rows of each bin. Bins without an order are
    independent.
    """
    ordered = _ordered_bins(attribute)
    if len(ordered) < 3:
        return [np.eye(len(counts))]
    sizes = counts[ordered]
    ranks = (np.cumsum(sizes) - sizes / 2) / sizes.sum()
    # Normal scores of the middles of the bins, which are independent of the scale of the
    # column.
    scores = ndtri(ranks)
    distances = np.abs(ranks[:, np.newaxis] - ranks)
    differences = scores[:, np.newaxis] - scores
    # The rough prior has a length scale of half of the records. Half and twice of it, and
    # of the independent variance of each bin, change AUC and R2 by less than 0.001
    # (benchmarks/central_models.py).
    independent = 0.01 * np.eye(len(ordered))
    rough = np.exp(-distances / 0.5) + independent
    smooth = np.exp(-(differences**2) / 2) + independent
    line = np.outer(scores, scores) + independent
    covariances = []
    for ordered_covariance in (rough, smooth, line):
        # Missing values are not similar to any other value.
        covariance = np.eye(len(counts))
        covariance[np.ix_(ordered, ordered)] = ordered_covariance
        covariances.append(covariance)
    return covariances


def _ordered_bins(attribute: Categories | Interval) -> list[int]:
    """Return the indices of the bins that have an order, without missing values."""
    if isinstance(attribute, Interval):
        return list(range(len(attribute.edges) - 1))
    if not is_ordered(attribute):
        return []
    values = attribute.values
    return [index for index, value in enumerate(values) if value is not None]


def smooth_sums(
    sums: Floats,
    weights: Floats,
    variances: Floats,
    covariances: list[Floats],
    row_variance: float,
) -> tuple[Floats, Floats]:
    """Estimate a function f of bins from sums that are ``weights * f`` plus noise.

    Parameters
    ----------
    sums, weights, variances : ndarray of shape (n_bins,)
        The sums, their weights, and the variances of their noise.
    covariances : list of ndarray of shape (n_bins, n_bins)
        Candidate prior covariances of f with variances of about 1.
    row_variance : float
        Variance of an estimate of f from one record, the unit of the prior variances.

    Returns
    -------
    mean : ndarray of shape (n_bins,)
        Posterior mean of f.
    covariance : ndarray of shape (n_bins, n_bins)
        Posterior covariance of f.
    """
    # The prior is a mixture over covariances and over scales of their variance. So the
    # posterior is a mixture, too, with the marginal likelihoods as weights (empirical
    # Bayes: C. Morris, 1983).
    prior_variances = row_variance * _RELATIVE_VARIANCES
    # The standard deviation s of a function has a half-Cauchy prior (A. Gelman, 2006),
    # with a density proportional to 1 / (1 + s**2 / a**2). On a logarithmic grid, its
    # weights are s times this density. The scale a is a quarter of the standard deviation
    # of an estimate from one record: half a logit for classes. With a uniform prior, noise
    # is fitted as functions of many logits.
    log_priors = np.log(_RELATIVE_VARIANCES) / 2 - np.log1p(
        _RELATIVE_VARIANCES / 0.25**2
    )
    deviations = np.sqrt(variances)
    # Divided by the standard deviation of their noise, the sums have noise of variance 1
    # and these weights.
    unit_weights = weights / deviations
    log_likelihoods = []
    fits = []
    for covariance in covariances:
        signal = unit_weights[:, np.newaxis] * covariance * unit_weights
        values, vectors = np.linalg.eigh(signal)
        rotated_sums = vectors.T @ (sums / deviations)
        # In the eigenvectors of the covariance of the signal, sums are independent with
        # these variances of signal plus noise; shape (n_scales, n_bins).
        variances_of_rotated = 1 + np.outer(prior_variances, np.maximum(values, 0.0))
        misfits = np.log(variances_of_rotated) + rotated_sums**2 / variances_of_rotated
        log_likelihoods.append(log_priors - misfits.sum(axis=1) / 2)
        # From rotated sums to the function (n_bins, n_bins), and the prior variance divided
        # by the variance of a rotated sum (n_scales, n_bins).
        to_function = covariance @ (unit_weights[:, np.newaxis] * vectors)
        factors = prior_variances[:, np.newaxis] / variances_of_rotated
        fits.append((covariance, to_function, rotated_sums, factors))
    likelihoods = np.exp(np.array(log_likelihoods) - np.max(log_likelihoods))
    likelihoods /= likelihoods.sum()  # (n_covariances, n_scales)

    mean = np.zeros(len(sums))
    second_moment = np.zeros((len(sums), len(sums)))
    prior = np.zeros((len(sums), len(sums)))
    for probabilities, fit in zip(likelihoods, fits, strict=True):
        prior_covariance, to_function, rotated_sums, factors = fit
        mean += to_function @ (probabilities @ factors * rotated_sums)
        # The mean for each scale; shape (n_scales, n_bins).
        means = rotated_sums * factors @ to_function.T
        second_moment += (probabilities * means.T) @ means
        # The prior covariance, minus the covariance that the sums explain.
        prior += probabilities @ prior_variances * prior_covariance
        explained = (probabilities * prior_variances) @ factors
        second_moment -= (to_function * explained) @ to_function.T
    covariance = prior + second_moment - np.outer(mean, mean)
    return mean, covariance
