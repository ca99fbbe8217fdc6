"""Private bins of numbers, from one noisy histogram of each column, and smooth functions over bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skdp.central.statistics import Floats, Noise, is_ordered, to_float
from skdp.domain import Categories, Domain, Interval
from skdp.randomness import ByteSource

# Half and twice of each constant change AUC and R2 of additive models of nine tables at epsilon 1 by less than 0.01
# (benchmarks/central_models.py).

# The smallest number of records of a bin, in standard deviations of the noise of a cell.
MIN_BIN_ERRORS = 2.5


@dataclass(frozen=True, eq=False)
class Bins:
    """The bins of a column, and their noisy counts."""

    attribute: Categories | Interval
    # Bin of each counted cell; last, the bin of rows outside all cells.
    bins_of_cells: NDArray[np.intp]
    # Counts of the bins, and the variances of their noise: (n_bins,).
    counts: Floats
    variances: Floats

    @property
    def sizes(self) -> Floats:
        """The counts, raised to at least half of the standard deviation of their noise."""
        return np.maximum(self.counts, np.sqrt(self.variances) / 2)


def fine_cells(low: float, high: float) -> Interval:
    """Return public cells between bounds, of equal width, and smaller towards the bound that is nearest to 0."""
    fractions = np.arange(65) / 64
    even = low * (1 - fractions) + high * fractions
    near = float(np.clip(0.0, low, high))
    # For skewed numbers, 49 edges down to a 24-millionth of the width, two per octave.
    octaves = 2.0 ** -np.arange(0.5, 24.6, 0.5)
    skewed = near + np.outer([high - near, low - near], octaves)
    return cells_of(np.unique(np.clip([*even, *skewed.ravel()], low, high)))


def cells_of(edges: Floats) -> Interval:
    """Return the cell of each number or missing value."""
    return Interval(edges=edges.tolist(), missing=True, real=True)


def merge_cells(
    domain: Domain,
    numbers: Sequence[Any],
    cell_counts: Sequence[NDArray[np.int64]],
    noise: Noise,
    *,
    max_bins: int,
    source: ByteSource,
) -> list[Bins]:
    """Find bins of columns from the exact counts of their cells.

    Each count gets one draw of noise. Neighboring cells of numbers are then joined to bins. Cells of other columns are
    bins.
    """
    error = to_float(noise.error)
    noisy = noise.add_floats(source, np.concatenate(cell_counts))
    column_ends = np.cumsum(list(map(len, cell_counts)))[:-1]
    bins = []
    for name, counts in zip(domain.columns, np.split(noisy, column_ends), strict=True):
        attribute = domain[name]
        cells = firsts = np.arange(len(counts))
        if name in numbers and isinstance(attribute, Interval):
            # The last cell is for missing numbers, and a bin of its own.
            min_count = max(counts[:-1].sum() / max_bins, MIN_BIN_ERRORS * error)
            joined = _join(counts[:-1], min_count, error)
            firsts = np.append(joined, len(counts) - 1)
            attribute = cells_of(np.array(attribute.edges)[firsts])
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


def _join(counts: NDArray[Any], least: float, error: float) -> list[int]:
    """Join neighboring cells into bins with at least `least` records; return the first cell of each bin."""
    firsts = [0]
    n_records = 0.0
    for cell, count in enumerate(counts):
        # A cell with enough records, such as the cell of zeros, is not merged with many cells.
        if cell > firsts[-1] and count >= least and n_records >= least / 2:
            firsts.append(cell)
            n_records = 0.0
        n_records += count
        if n_records >= least:
            firsts.append(cell + 1)
            n_records = 0.0
    # The last bin is merged unless its count is clear, because a sum of many noisy
    # empty cells can exceed the smallest count.
    noise = MIN_BIN_ERRORS * error * math.sqrt(len(counts) - firsts[-1])
    if len(firsts) > 1 and n_records < max(least / 2, noise, 1.0):
        firsts.pop()
    return firsts


# Candidate prior variances of a function, relative to the variance of an estimate from one record. A grid of half or
# twice the size, or from 1e-8 to 1e8, changes AUC by less than 0.001.
_SPREADS = np.geomspace(1e-4, 1e4, 17)


def priors(bins: Bins) -> list[Floats]:
    """Return prior covariances of rough functions, smooth functions and lines, with a small variance of the mean.

    Each is of shape (n_bins, n_bins), of variance of about 1, but for the mean of the function. Without an order, or
    with fewer than three values, there is only the covariance of independent values.
    """
    counts = bins.sizes
    centre = np.eye(len(counts)) - counts / counts.sum()
    covariances = []
    for covariance in _bin_covariances(bins.attribute, counts):
        # The prior variance of the mean is small because the model has an intercept.
        covariances.append(centre @ covariance @ centre.T + 0.05)
    return covariances


def _bin_covariances(attribute: Categories | Interval, counts: Floats) -> list[Floats]:
    ordered = _ordered_bins(attribute)
    if len(ordered) < 3:
        return [np.eye(len(counts))]
    sizes = counts[ordered]
    ranks = (np.cumsum(sizes) - sizes / 2) / sizes.sum()
    # Normal scores of the middles of the bins, which do not depend on the scale of the
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
    """Return the bins that are neighbors by value."""
    if isinstance(attribute, Interval):
        return list(range(len(attribute.edges) - 1))
    if not is_ordered(attribute):
        return []
    values = attribute.values
    return [index for index, value in enumerate(values) if value is not None]


def smooth(
    sums: Floats,
    weights: Floats,
    variances: Floats,
    covariances: list[Floats],
    unit: float,
) -> tuple[Floats, Floats]:
    """Estimate a function f of bins from sums that are ``weights * f`` plus noise; return its mean and covariance."""
    # The prior is a mixture of covariance * spread * unit. So the posterior mean
    # averages over all of them with their likelihoods as weights (empirical Bayes: C.
    # Morris, 1983).
    spreads = unit * _SPREADS
    # Half-Cauchy prior of the standard deviation of a function (A. Gelman, 2006) on a
    # logarithmic grid: density times standard deviation. Its scale is a quarter of the
    # standard deviation of an estimate from one record: half a logit for classes. With a
    # uniform prior, noise is fitted as functions of many logits.
    log_priors = np.log(_SPREADS) / 2 - np.log1p(_SPREADS / 0.25**2)
    deviations = np.sqrt(variances)
    # Divided by their standard deviations, the sums have noise of variance 1 and these
    # weights.
    unit_weights = weights / deviations
    log_likelihoods = []
    fits = []
    for covariance in covariances:
        signal = unit_weights[:, np.newaxis] * covariance * unit_weights
        values, vectors = np.linalg.eigh(signal)
        rotated_sums = vectors.T @ (sums / deviations)
        # Variances of noise and signal: (n_spreads, n_bins).
        variances_of_rotated = 1 + np.outer(spreads, np.maximum(values, 0.0))
        misfits = np.log(variances_of_rotated) + rotated_sums**2 / variances_of_rotated
        log_likelihoods.append(log_priors - misfits.sum(axis=1) / 2)
        fits.append(
            _Fit(
                covariance=covariance,
                to_function=covariance @ (unit_weights[:, np.newaxis] * vectors),
                rotated_sums=rotated_sums,
                factors=spreads[:, np.newaxis] / variances_of_rotated,
            )
        )
    likelihoods = np.exp(np.array(log_likelihoods) - np.max(log_likelihoods))
    likelihoods /= likelihoods.sum()  # (n_covariances, n_spreads)

    mean = np.zeros(len(sums))
    second_moment = np.zeros((len(sums), len(sums)))
    prior = np.zeros((len(sums), len(sums)))
    for probabilities, fit in zip(likelihoods, fits, strict=True):
        mean += fit.to_function @ (probabilities @ fit.factors * fit.rotated_sums)
        # The mean with each spread: (n_spreads, n_bins).
        means = fit.rotated_sums * fit.factors @ fit.to_function.T
        second_moment += (probabilities * means.T) @ means
        # The variance of the prior, minus the variance that the sums explain.
        prior += probabilities @ spreads * fit.covariance
        explained = (probabilities * spreads) @ fit.factors
        second_moment -= (fit.to_function * explained) @ fit.to_function.T
    covariance = prior + second_moment - np.outer(mean, mean)
    return mean, covariance


class _Fit(NamedTuple):
    """Posterior of a function under one covariance of the prior."""

    covariance: Floats
    # From rotated sums to the function: (n_bins, n_bins).
    to_function: Floats
    # Sums in the eigenvectors of the signal, in which they are independent: (n_bins,).
    rotated_sums: Floats
    # The part of the rotated sums that is signal, over its variance: (n_spreads, n_bins).
    factors: Floats
