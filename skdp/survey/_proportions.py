"""Proportions of the true values, from weighted counts of reports, and variances of samples of clusters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats

from skdp._arrays import ColumnLike, Floats, Indices, Mask, TableLike
from skdp.base import check_same_order, find_stack_level, to_array
from skdp.local import SampledCounts, reject_column_name
from skdp.pages import warn


def invert_channel(channel: Floats, expected: Floats) -> Floats:
    """Compute the unbiased values V of each report, (n_values, n_reports).

    The expectation of a row of V is 1 for its own true value and 0 for other values: ``V
    channel.T`` is the identity matrix, where the channel is (n_values, n_reports). Among
    all such V, the values have the smallest variance if the reports have the
    probabilities `expected`, of shape (n_reports,).
    """
    # Generalized least squares: V = (C D C.T)^-1 C D, with D = diag(1 / expected). With as
    # many reports as values, V is the transposed inverse of the channel C for any D.
    weighted = channel / np.where(expected > 0, expected, 1)
    return np.asarray(np.linalg.solve(weighted @ channel.T, weighted))


def estimate_weighted_proportions(
    channels: Floats,
    counts: Floats,
    labels: pd.Index,
    confidence_level: float,
    *,
    n_rows: int,
    find_variances: Callable[[Floats, Floats], tuple[Floats, float]] | None = None,
) -> pd.DataFrame:
    """Estimate the proportion of each value, with standard errors and confidence intervals, from weighted reports.

    `channels` has the probability of each report, of shape (n_groups, n_values,
    n_reports). `counts` has the sums of the weights of `n_rows` rows, and of their squares,
    of shape (2, n_groups, n_reports). `find_variances` returns the variances of a sample with strata or clusters,
    and their degrees of freedom, from the unbiased values and the proportions; None for
    independent rows.
    """
    weights, squares = counts
    total = float(weights.sum())
    # Weighted means of unbiased values are unbiased.
    values = _invert_channels(channels, weights, labels.name, n_rows)
    proportions = np.einsum("vgr,gr->v", values, weights) / total
    variances = _sum_squares(values, proportions, squares) / total**2
    variances *= n_rows / (n_rows - 1)
    # The variance of equal reports is 0, although they are randomized. The variance at the
    # nearest proportions in [0, 1] is a lower bound.
    clipped = clip_proportions(proportions)
    expected_squares = squares.sum(axis=1, keepdims=True) * (clipped @ channels)
    smallest_variances = _sum_squares(values, clipped, expected_squares)
    smallest_variances /= total**2
    # The variance of the weighted mean of independent numbers with variance 1 (Kish 1965).
    kish = float(squares.sum()) / total**2
    degrees_of_freedom, design_effect = float(n_rows - 1), 1.0
    smallest = smallest_variances
    if find_variances is not None:
        independent = np.maximum(variances, smallest)
        variances, degrees_of_freedom = find_variances(values, proportions)
        design_effect = max(1.0, float((variances / independent).max()))
        # Only the variance of the randomization is a lower bound, because strata reduce the
        # sampling error.
        smallest = smallest_variances - kish * clipped * (1 - clipped)
        kish = 0.0
    variances = np.maximum(variances, smallest)
    _warn_of_impossible_proportions(
        labels, proportions, np.sqrt(design_effect * smallest_variances)
    )
    _warn_of_misfit(labels, counts, proportions @ channels, design_effect)
    sampled = SampledCounts.from_means(
        proportions, variances, total, kish, degrees_of_freedom
    )
    return sampled.make_table(confidence_level, statistic="frequency", index=labels)


def check_identified(channel: Floats, column: object) -> None:
    """Raise an error if a channel, (n_values, n_reports), has linearly dependent rows."""
    if np.linalg.matrix_rank(channel) < len(channel):
        raise ValueError(
            f"The channel of column {column!r} must have linearly independent rows to "
            f"identify the proportions of its {len(channel)} values. Use a "
            "probability other than 0.5, or more groups."
        )


def estimate_variances(
    scores: Floats, strata: Indices, clusters: Indices, is_used: Mask
) -> tuple[Floats, float]:
    """Estimate the variances of the sums of linearized scores over a sample, and their degrees of freedom.

    `scores` have the shape (n_rows, n). `strata` and `clusters` have the index of the
    stratum of each row, and of its cluster within the stratum. Rows with a positive weight
    are used.
    """
    keys = [strata, clusters]
    by_stratum = pd.DataFrame(scores).groupby(keys).sum().groupby(level=0)
    n_clusters = by_stratum.size()
    if n_clusters.min() < 2:
        raise ValueError(
            "Each stratum must have at least two clusters, got a stratum with one. Join "
            "small strata."
        )
    # The variance of a sum over clusters drawn with replacement in each stratum.
    variances = by_stratum.var().mul(n_clusters, axis=0).sum()
    has_used = pd.Series(is_used).groupby(keys).any()
    degrees = int(has_used.sum() - has_used.groupby(level=0).any().sum())
    if degrees < 1:
        raise ValueError(
            "A stratum must have at least two clusters with a positive weight, got at "
            "most one in each. Use a larger subgroup."
        )
    return variances.to_numpy(), degrees


def encode_sample_labels(
    name: str, labels: object, X: TableLike, n_rows: int
) -> Indices:
    """Return the index of the label of each row of X; `name` is the parameter in errors."""
    reject_column_name(name, labels)
    check_same_order(X, labels, name)
    array = to_array(labels, name)
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be one column, got shape {array.shape}.")
    # Missing entries have the code -1.
    codes, _ = pd.factorize(array)
    if len(codes) != n_rows or (codes < 0).any():
        raise ValueError(
            f"`{name}` must have {n_rows} entries that are not missing, got "
            f"{int((codes >= 0).sum())}. Drop rows with a missing entry."
        )
    return codes


def encode_sample(
    strata: ColumnLike, clusters: ColumnLike, X: TableLike, n_rows: int
) -> tuple[Indices, Indices]:
    """Return the index of the stratum and of the cluster of each row: one stratum by default, and a cluster per row."""
    stratum, cluster = np.zeros(n_rows, np.intp), np.arange(n_rows)
    if strata is not None:
        stratum = encode_sample_labels("strata", strata, X, n_rows)
    if clusters is not None:
        cluster = encode_sample_labels("clusters", clusters, X, n_rows)
    return stratum, cluster


def _invert_channels(
    channels: Floats, weights: Floats, column: object, n_rows: int
) -> Floats:
    """Compute the unbiased values of each report in each group; shape (n_values, n_groups, n_reports).

    An unbiased value has the expectation 1 for the true value, and 0 for other values.
    `channels` has the shape (n_groups, n_values, n_reports), `weights` has the sums of the
    weights of reports, (n_groups, n_reports), and `column` is the name of
    the column in errors.
    """
    # Groups and reports together are one report, whose channel has the observed
    # proportions of the groups as factors; shape (n_values, n_groups * n_reports).
    n_values = channels.shape[1]
    fractions = weights.sum(axis=1, keepdims=True) / weights.sum()
    joint = (np.moveaxis(channels, 1, 0) * fractions).reshape(n_values, -1)
    check_identified(joint, column)
    # The values are unbiased for any expected reports. They are efficient for the true
    # probabilities, so a first estimate of the proportions improves a second one, which is
    # a step of Fisher scoring.
    uniform = np.full(n_values, 1 / n_values)
    first_values = invert_channel(joint, uniform @ joint)
    first = clip_proportions(first_values @ weights.ravel() / weights.sum())
    # Positive proportions, so that each possible report has a positive probability.
    first += (uniform - first) / n_rows
    values = invert_channel(joint, first @ joint)
    return values.reshape(n_values, *weights.shape)


def clip_proportions(proportions: Floats) -> Floats:
    """Set negative proportions to 0, and scale the result to a sum of 1."""
    clipped = np.clip(proportions, 0, None)
    return clipped / clipped.sum()


def _sum_squares(values: Floats, proportions: Floats, squares: Floats) -> Floats:
    """Sum the weighted squared deviations of unbiased values from their mean; shape (n_values,).

    `values` is (n_values, n_groups, n_reports), and `squares` is (n_groups, n_reports).
    """
    deviations = values - proportions[:, np.newaxis, np.newaxis]
    return np.einsum("vgr,gr->v", deviations**2, squares)


def _warn_of_impossible_proportions(
    labels: pd.Index, proportions: Floats, errors: Floats
) -> None:
    """Warn if a proportion is more than six standard errors outside [0, 1].

    `proportions` and their standard errors `errors` have the shape (n_values,).
    """
    outside = np.maximum(-proportions, proportions - 1)
    distances = outside / np.maximum(errors, np.finfo(float).tiny)
    worst = int(distances.argmax())
    # By chance, fewer than one in a million surveys exceed it (the tests enumerate the reports).
    max_std_errors = 6.0
    if distances[worst] > max_std_errors:
        warn_of_estimate(
            f"Column {labels.name!r} has an estimated proportion of "
            f"{proportions[worst]:.3g} for {labels.tolist()[worst]!r}, {distances[worst]:.0f} "
            "standard errors outside [0, 1]. Check the probabilities and the groups of "
            "the design, or suspect non-compliance"
        )


def _warn_of_misfit(
    labels: pd.Index, counts: Floats, fitted: Floats, design_effect: float
) -> None:
    """Warn if the groups have different proportions of the values (chi-squared test).

    `fitted` are the probabilities of the reports in each group if all groups have the
    estimated proportions; shape (n_groups, n_reports). The variances of the proportions are
    at most `design_effect` times those of independent rows, so the statistic is divided by
    it (Rao and Scott 1981).
    """
    # Kish's effective number of reports: weighted proportions have the variance of this
    # number of reports with equal weights.
    weights = counts[0]
    tiny = np.finfo(float).tiny
    totals, squares = counts.sum(axis=2, keepdims=True)
    n_reports = totals**2 / np.maximum(squares, tiny) / design_effect
    # Proportions outside [0, 1] may have negative expected counts.
    fitted = np.clip(fitted, 0, 1)
    # Pearson's statistic. The test is not valid for expected counts below 5 (Cochran 1954).
    # They count as 5, which makes the statistic smaller.
    residuals = n_reports * (weights / np.maximum(totals, tiny) - fitted)
    statistic = (residuals**2 / np.maximum(n_reports * fitted, 5)).sum()
    # One degree of freedom for each possible report, minus 1 for each group, minus the
    # number of estimated proportions.
    is_possible = (fitted > 0) & (totals > 0)
    n_groups = int(is_possible.any(axis=1).sum())
    degrees = int(is_possible.sum()) - n_groups - (len(labels) - 1)
    if degrees > 0 and stats.chi2.sf(statistic, degrees) < 1e-4:
        warn_of_estimate(
            f"The groups of column {labels.name!r} do not have the same proportions "
            f"(chi-squared {statistic:.0f}, {degrees} degrees of freedom), so the "
            "estimates may be biased. Check the probabilities, use with_cheaters, or "
            "estimate groups that are not random subsamples separately"
        )


def warn_of_estimate(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, with a link to the section of the guide on these warnings."""
    warn(
        text,
        category,
        about="guide/report_regression#warnings",
        stacklevel=find_stack_level(),
    )
