"""From unbiased counts to measurements of a model: of columns, and of how columns depend on each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.special import expit

from skdp.synthesis.model import Clique, Marginal
from skdp.synthesis.reports._reported import Matrix, Reported, independent

MOST_PAIRED = 1_500
"""The most cells of a pair: its covariances are a dense matrix, and beyond reports tell of little but noise."""

_FINEST = 0.25
"""The variance of a count from which less noise counts for nothing more, as for those of a curator."""

_ROUNDING = 1e-9

_POWER = 1.5
"""Of the independent counts: 1 for deviations as sampling makes them, 2 for ones in proportion to the counts."""

_SCALES = np.geomspace(1e-6, 1, 121)
"""Variances of the dependence that are compared, as shares of the largest one."""


@dataclass(frozen=True, eq=False)
class Contrast:
    """How columns depend on each other, by their reports: shrunk, as far as noise explains it."""

    marginal: Marginal
    gain: float
    """The share of the records that independent columns, or the guess, would misplace."""
    log_ratio: float
    """The logarithm of the likelihood ratio of dependence and none, or none beyond the guess."""


def margin_of(reported: Reported, column: int) -> Marginal | None:
    """Return the measurement of a column; None if nothing is known of it."""
    if not reported.size_of((column,)):
        return None
    counts, n, k = reported.counts((column,)), reported.n_rows, reported.sizes[column]
    plug_in = np.clip(counts, 0, None) + 1
    covariance = reported.covariance((column,), plug_in / plug_in.sum())
    inverse, basis = np.linalg.inv(_above_least(covariance)), helmert(k)
    # That the counts add up to n is known: what is measured is how they differ.
    precision, start = basis @ inverse @ basis.T, np.full(k, n / k)
    found = start + basis.T @ np.linalg.solve(precision, basis @ inverse @ (counts - start))
    error = math.sqrt(float(np.trace(covariance)) / k)
    return Marginal((column,), found, max(error, 0.5), precision=basis.T @ precision @ basis)


def dependence_of(
    reported: Reported, clique: Clique, shares: Sequence[Matrix], guess: Matrix | None = None
) -> Contrast:
    """Estimate how columns depend on each other, given the shares of each column's values, beyond what is guessed."""
    # The counts are those of independent columns plus contrasts: tables whose margins are 0. Their likelihood is normal
    # with the exact covariances, given the margins of the same reports. Their prior has variances in proportion to a
    # power of the independent counts, of any scale, or none at all (as [1]_). The posterior mean is shrunk most where
    # noise is large or cells are rare.
    # .. [1] B. Efron, C. Morris (1973). Stein's estimation rule and its competitors: an empirical Bayes approach. JASA.
    apart, n = independent(shares), reported.n_rows
    guess = apart if guess is None else guess
    flat, size = guess.ravel(), guess.size
    covariance = _above_least(reported.covariance(clique, guess))
    sums = _sums(guess.shape)
    basis, deviation = _contrasts(guess.shape), _deviation(shares)
    inverse = np.linalg.inv(covariance)
    inverse -= sums.T @ np.linalg.pinv(sums @ covariance @ sums.T, hermitian=True) @ sums
    seen = basis.T @ inverse @ basis
    found = np.linalg.solve(seen, basis.T @ inverse @ (reported.counts(clique).ravel() - n * flat))
    to_contrasts = basis.T @ deviation
    weights = apart.ravel() ** _POWER / (apart**_POWER).sum()
    # No pair deviates by a larger mean square: then one column would be a function of the other.
    spread = n**2 / (max(guess.shape) - 1) * (to_contrasts * weights) @ to_contrasts.T
    root = np.linalg.cholesky(spread)
    precisions, turn = np.linalg.eigh(root.T @ seen @ root)
    axes = root @ turn
    heights = np.linalg.solve(axes, found)
    kept, log_ratio = _shrinkage(heights, np.maximum(precisions, 1e-300))
    moved = basis @ (axes @ (kept * heights))
    back = np.linalg.solve(axes, to_contrasts)
    precision = (back.T * (precisions / kept)) @ back
    error = math.sqrt(float(np.trace(covariance)) / size)
    counts = (n * flat + moved).reshape(guess.shape)
    marginal = Marginal(clique, counts, error, precision=precision)
    return Contrast(marginal, float(np.abs(moved).sum()) / 2 / n, log_ratio)


def _above_least(covariance: Matrix) -> Matrix:
    """Add the least variance that counts, and what rounding takes."""
    size = len(covariance)
    return covariance + max(_FINEST, _ROUNDING * float(np.trace(covariance)) / size) * np.eye(size)


def _product(matrices: Sequence[Matrix]) -> Matrix:
    """Return the Kronecker product of matrices."""
    found = matrices[0]
    for matrix in matrices[1:]:
        found = np.kron(found, matrix).astype(float)
    return found


def _shrinkage(heights: Matrix, precisions: Matrix) -> tuple[Matrix, float]:
    """Return what is kept of each height on average, and the log-likelihood ratio of dependence to independence."""
    # Dependence and independence are as likely before, and all scales of dependence.
    kept = _SCALES[:, np.newaxis] * precisions / (1 + _SCALES[:, np.newaxis] * precisions)
    logs = (np.log1p(-kept) + heights**2 * precisions * kept).sum(axis=1) / 2
    log_ratio = float(np.logaddexp.reduce(logs) - math.log(len(logs)))
    weights = np.exp(logs - logs.max())
    return np.maximum(expit(log_ratio) * (weights @ kept) / weights.sum(), 1e-12), log_ratio


def _sums(shape: Sequence[int]) -> Matrix:
    """Return the matrix that sums flat counts to the margins of all columns."""
    blocks = []
    for axis in range(len(shape)):
        parts = [np.eye(size) if place == axis else np.ones((1, size)) for place, size in enumerate(shape)]
        blocks.append(_product(parts))
    return np.vstack(blocks)


def _contrasts(shape: Sequence[int]) -> Matrix:
    """Return an orthonormal basis of the tables whose margins are 0, a column each."""
    whole = [np.vstack([np.full(size, size**-0.5), helmert(size)]) for size in shape]
    rows = [
        np.concatenate([[False], np.ones(size - 1, bool)]) for size in shape
    ]  # whether a row differs along the axis
    several = np.array([sum(flags) > 1 for flags in product(*rows)])
    found: NDArray[np.float64] = _product(whole)[several]
    return found.T


def _deviation(shares: Sequence[Matrix]) -> Matrix:
    """Return the matrix that takes off what independent columns with the same margins have."""
    flat = independent(shares).ravel()
    found = np.eye(flat.size) + (len(shares) - 1) * np.outer(flat, np.ones(flat.size))
    for axis in range(len(shares)):
        parts = [
            np.eye(share.size) if place == axis else np.outer(share, np.ones(share.size))
            for place, share in enumerate(shares)
        ]
        found -= _product(parts)
    return found
