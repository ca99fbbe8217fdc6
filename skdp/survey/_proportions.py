"""Proportions of the true values, from reports with known channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from skdp.base import level_of_the_caller
from skdp.local.protocol import SampledCounts
from skdp.pages import warn

Numbers = NDArray[np.float64]

# Distance from [0, 1], in standard errors, at which an estimate warns. By chance, fewer
# than one in a million surveys exceed it (the tests enumerate the reports).
MAX_DISTANCE = 6.0

# Significance level of the chi-squared test of fit.
MISFIT_LEVEL = 1e-4

# Smallest expected count for the chi-squared distribution (Cochran 1954).
MIN_EXPECTED_COUNT = 5.0


@dataclass(frozen=True, eq=False)
class ReportCounts:
    """Weighted counts of each report in each group."""

    # Sums of the weights and of their squares: (n_groups, n_reports).
    weights: Numbers
    squares: Numbers
    n_rows: int

    @classmethod
    def of_rows(
        cls,
        groups: NDArray[np.intp],
        reports: NDArray[np.intp],
        row_weights: Numbers,
        shape: tuple[int, int],
    ) -> Self:
        """Sum the weights of the rows, given the indices of their groups and reports."""
        weights, squares = np.zeros(shape), np.zeros(shape)
        np.add.at(weights, (groups, reports), row_weights)
        np.add.at(squares, (groups, reports), row_weights**2)
        return cls(weights, squares, len(row_weights))

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    @property
    def group_totals(self) -> Numbers:
        return np.asarray(self.weights.sum(axis=1, keepdims=True))

    @property
    def group_squares(self) -> Numbers:
        return np.asarray(self.squares.sum(axis=1, keepdims=True))

    @property
    def observed(self) -> Numbers:
        """Proportions of the reports in each group: (n_groups, n_reports)."""
        return self.weights / np.maximum(self.group_totals, np.finfo(float).tiny)


def unbiased_values(channel: Numbers, expected: Numbers) -> Numbers:
    """Return numbers whose mean over the reports is 1 for the true value and 0 for all others.

    `channel` and the result are (n_values, n_reports). `expected` are probabilities of
    the reports, at which the numbers have the smallest variance.
    """
    # With as many reports as values, this is the transposed inverse of the channel. With
    # more reports, it is the generalized least squares estimate.
    weighted = channel / np.where(expected > 0, expected, 1)
    return np.asarray(np.linalg.solve(weighted @ channel.T, weighted))


def estimate_proportions(
    channels: Numbers, counts: ReportCounts, labels: pd.Index, confidence_level: float
) -> pd.DataFrame:
    """Estimate the proportion of each value; `channels` is (n_groups, n_values, n_reports)."""
    values = _choose_values(channels, counts, labels.name)
    proportions = np.einsum("vgr,gr->v", values, counts.weights) / counts.total
    # The variance is conditional on the sizes of the groups. Equal reports have a variance
    # of 0, although they are randomized: the variance at the closest proportions between
    # 0 and 1 is a lower bound.
    sums = _sum_variances(values, counts.observed, counts.squares)
    variances = sums * counts.n_rows / (counts.n_rows - 1) / counts.total**2
    possible = clip_proportions(proportions) @ channels
    sums = _sum_variances(values, possible, counts.group_squares * possible)
    possible_variances = sums / counts.total**2
    _warn_of_impossible(labels, proportions, np.sqrt(possible_variances))
    _warn_of_misfit(labels, counts, proportions @ channels)
    sampled = SampledCounts.of_means(
        proportions,
        np.maximum(variances, possible_variances),
        counts.total,
        # The variance of the weighted mean of numbers with variance 1 (Kish 1965).
        float(counts.squares.sum()) / counts.total**2,
        counts.n_rows - 1,
    )
    return sampled.table(confidence_level, what="frequency", index=labels)


def _choose_values(channels: Numbers, counts: ReportCounts, column: Any) -> Numbers:
    """Return the unbiased values of each report in each group: (n_values, n_groups, n_reports)."""
    n_values = channels.shape[1]
    # Probabilities of groups and reports together; the groups have their observed sizes.
    fractions = counts.group_totals / counts.total
    joint = (np.moveaxis(channels, 1, 0) * fractions).reshape(n_values, -1)
    if np.linalg.matrix_rank(joint) < n_values:
        raise ValueError(
            f"The reports in column {column!r} do not identify the proportions of its "
            f"{n_values} values. Use a design with linearly independent rows, or more "
            "groups."
        )
    # Two steps of Fisher scoring: the weights of the second step are efficient at the
    # estimate of the first one. The values are unbiased with any weights.
    uniform = np.full(n_values, 1 / n_values)
    first_values = unbiased_values(joint, uniform @ joint)
    first = clip_proportions(first_values @ counts.weights.ravel() / counts.total)
    # All proportions are positive, so that each report that can occur has a weight.
    first += (uniform - first) / counts.n_rows
    return unbiased_values(joint, first @ joint).reshape(
        n_values, *counts.weights.shape
    )


def clip_proportions(proportions: Numbers) -> Numbers:
    """Set negative proportions to 0, and scale the others to add up to 1."""
    clipped = np.clip(proportions, 0, None)
    return np.asarray(clipped / clipped.sum())


def _sum_variances(values: Numbers, expected: Numbers, squares: Numbers) -> Numbers:
    """Return the variance of the weighted sum of each value over all rows: (n_values,)."""
    means = np.einsum("vgr,gr->vg", values, expected)
    deviations = values - means[:, :, np.newaxis]
    return np.asarray(np.einsum("vgr,gr->v", deviations**2, squares))


def _warn_of_impossible(
    labels: pd.Index, proportions: Numbers, errors: Numbers
) -> None:
    """Warn of the proportion that is furthest outside [0, 1]."""
    outside = np.maximum(-proportions, proportions - 1)
    distances = outside / np.maximum(errors, np.finfo(float).tiny)
    worst = int(distances.argmax())
    if distances[worst] > MAX_DISTANCE:
        _warn(
            f"Column {labels.name!r} has an estimated proportion of "
            f"{proportions[worst]:.3g} for {labels[worst]!r}, {distances[worst]:.0f} "
            "standard errors outside [0, 1]. Check the probabilities and the groups of "
            "the design, or suspect non-compliance"
        )


def _warn_of_misfit(labels: pd.Index, counts: ReportCounts, fitted: Numbers) -> None:
    """Warn if the reports of the groups do not have the same proportions (chi-squared test)."""
    # Weighted proportions have the variances of fewer reports, by the mean design effect
    # of a group (Rao and Scott 1981), or by the weights alone if all reports are equal.
    observed = counts.observed
    linearized = (
        1 - 2 * observed
    ) * counts.squares + observed**2 * counts.group_squares
    variances = linearized.sum(axis=1, keepdims=True)
    binomial = (observed * (1 - observed)).sum(axis=1, keepdims=True)
    effects = np.maximum(counts.group_squares, np.finfo(float).tiny)
    np.divide(variances, binomial, out=effects, where=binomial > 0)
    n_reports = counts.group_totals**2 / effects
    # Proportions outside [0, 1] may have negative expected counts.
    fitted = np.clip(fitted, 0, 1)
    gaps = n_reports * (observed - fitted)
    statistic = (gaps**2 / np.maximum(n_reports * fitted, MIN_EXPECTED_COUNT)).sum()
    is_possible = (fitted > 0) & (counts.group_totals > 0)
    n_groups = int(is_possible.any(axis=1).sum())
    degrees = int(is_possible.sum()) - n_groups - (len(labels) - 1)
    if degrees > 0 and stats.chi2.sf(statistic, degrees) < MISFIT_LEVEL:
        _warn(
            f"The groups of column {labels.name!r} do not have the same proportions "
            f"(chi-squared {statistic:.0f}, {degrees} degrees of freedom), so the "
            "estimates may be biased. Use with_cheaters for non-compliance, check the "
            "probabilities, or estimate groups that are no random subsamples separately"
        )


def _warn(text: str) -> None:
    warn(
        text,
        UserWarning,
        about="guide/report_regression#warnings",
        stacklevel=level_of_the_caller(),
    )
