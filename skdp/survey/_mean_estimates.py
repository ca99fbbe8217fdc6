"""Means of samples with weights, strata and clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import ColumnLike, Floats, Indices, Mask, TableLike
from skdp.base import ErrorDistribution, check_confidence_level
from skdp.survey._design import to_pandas
from skdp.survey._inputs import validate_numbers, validate_weights
from skdp.survey._proportions import (
    encode_sample,
    encode_sample_labels,
    estimate_variances,
)

CHANGE = "change"
"""Label of the difference of two waves."""

DEBIAS = "Pass the result of `debias` of the design or encoder of these reports."
"""Advice for reports, because their proportions are biased estimates."""

EXCLUDE = "Set their weights to 0, which keeps their clusters."
"""Remedy for missing values. Without the rows, standard errors would be too small."""


def survey_mean(
    values: TableLike,
    sample_weight: ColumnLike | None = None,
    strata: ColumnLike | None = None,
    clusters: ColumnLike | None = None,
    *,
    waves: ColumnLike | None = None,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the mean of each column of a sample with weights, strata and clusters.

    Parameters
    ----------
    values : dataframe
        Numbers of each record, such as the unbiased values of `debias` or the reports of
        a `NumericPerturber`.
    sample_weight : array-like of shape (n_samples,), default=None
        Survey weight of each row, the number of people that it represents. If None, all
        weights are equal. For a subgroup, set the weights of all other rows to 0, so that
        their clusters are kept. Their values are not read, and may be missing.
    strata : array-like of shape (n_samples,), default=None
        Stratum of each row. If None, there is one stratum.
    clusters : array-like of shape (n_samples,), default=None
        Cluster of each row within its stratum: rows that were sampled together, such as a
        household. If None, each row is a cluster.
    waves : array-like of shape (n_samples,), default=None
        Wave of each row, such as 2025 and 2026, for the change between two waves.
        Ordered categories and an Enum of polars keep their order. If people
        or areas are in both waves, pass them as `clusters`; otherwise the waves are
        independent samples.
    confidence_level : float, default=0.95
        Coverage probability of each interval.

    Returns
    -------
    pandas.DataFrame
        Columns ``mean, std_error, lower, upper``, with a row for each column of values.
        With `waves`, the rows of each wave are followed by the rows of "change", the second
        wave in ascending order minus the first.

    Raises
    ------
    TypeError, ValueError
        If values are not a dataframe with rows and columns, a column is not numeric or
        has missing values in rows with a positive weight, lengths differ, a weight is
        negative, a stratum has a single cluster, or no stratum has two clusters with a
        positive weight, or there are not two waves.

    See Also
    --------
    skdp.ReportDesign.debias : Unbiased values of the answers to a questionnaire.

    Notes
    -----
    **Privacy.** For reports, this is post-processing, without privacy cost. Weights,
    strata and clusters are not protected.

    The mean is the Hájek estimate ``sum(w u) / sum(w)``. The variance is estimated from
    the differences between the clusters of each stratum, after linearization, as in R's
    survey package [1]_ with replacement. It includes the noise of the reports. Intervals
    use Student's t with as many degrees of freedom as clusters less strata, both with a
    positive weight, so those of a subgroup of few clusters are wide.

    References
    ----------
    .. [1] T. Lumley (2004). Analysis of complex survey samples. Journal of Statistical
       Software 9(8).

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.survey import survey_mean
    >>> values = pd.DataFrame({"smokes_yes": [1.16, -0.16, 1.16, -0.16, -0.16, 1.16]})
    >>> weights = [500, 500, 500, 167, 167, 167]
    >>> strata = ["town"] * 3 + ["country"] * 3
    >>> survey_mean(values, weights, strata).round(2)
                mean  std_error  lower  upper
    smokes_yes  0.61       0.35  -0.36   1.58
    """
    check_confidence_level(confidence_level)
    frame = to_pandas(values, parameter="values")
    if frame.empty:
        raise ValueError(
            f"values must have at least one row and one column, got shape {frame.shape}."
        )
    n_rows = len(frame)
    weights = pd.Series(validate_weights(sample_weight, values, n_rows))
    is_used = weights.to_numpy() > 0
    frame = frame.apply(
        validate_numbers, advice=DEBIAS, remedy=EXCLUDE, is_used=is_used
    )
    stratum, cluster = encode_sample(strata, clusters, values, n_rows)
    if waves is None:
        mean, scores = _linearize(frame, weights)
        sample = stratum, cluster, is_used
        return _make_mean_table(mean, scores, sample, confidence_level)
    encode_sample_labels("waves", waves, values, n_rows)
    column: Any = waves.to_pandas() if hasattr(waves, "to_pandas") else waves
    column = pd.Series(column)
    # Before version 2, polars writes the values of an Enum without their order.
    is_enum = type(getattr(waves, "dtype", None)).__name__ == "Enum"
    if getattr(column.dtype, "ordered", None) is False:
        dtype = column.cat.categories.dtype
        column = column.cat.as_ordered() if is_enum else column.astype(dtype)
    wave, labels = pd.factorize(column, sort=True)
    if len(labels) != 2:
        raise ValueError(f"`waves` must have two different values, got {len(labels)}.")
    rows = pd.DataFrame({"stratum": stratum, "cluster": cluster, "wave": wave})
    if rows.groupby(["stratum", "cluster"])["wave"].nunique().max() == 1:
        # Samples without a common cluster are drawn independently.
        stratum = 2 * stratum + wave
    tables, parts = {}, []
    for code, label in enumerate(labels):
        in_wave = wave == code
        mean, scores = _linearize(frame, weights.where(in_wave, 0))
        sample = stratum, cluster, is_used & in_wave
        tables[label] = _make_mean_table(mean, scores, sample, confidence_level)
        parts.append((mean, scores))
    (first, first_scores), (second, second_scores) = parts
    scores = second_scores - first_scores
    sample = stratum, cluster, is_used
    tables[CHANGE] = _make_mean_table(second - first, scores, sample, confidence_level)
    return pd.concat(tables, names=["wave", None])


def _linearize(frame: pd.DataFrame, weights: pd.Series) -> tuple[pd.Series, Floats]:
    """Return the weighted means, and the influence of each row on them, (n_rows, n_columns)."""
    fractions = weights / weights.sum()
    mean = frame.mul(fractions, axis=0).sum()
    return mean, (frame - mean).mul(fractions, axis=0).to_numpy()


def _make_mean_table(
    mean: pd.Series,
    scores: Floats,
    sample: tuple[Indices, Indices, Mask],
    confidence_level: float,
) -> pd.DataFrame:
    """Return estimates with standard errors and intervals.

    `scores` are of shape (n_rows, n_columns), and `sample` has strata, clusters and used rows.
    """
    variances, degrees = estimate_variances(scores, *sample)
    std_error = np.sqrt(variances)
    distribution = ErrorDistribution(degrees)
    lower, upper = distribution.confidence_interval(mean, std_error, confidence_level)
    table = {"mean": mean, "std_error": std_error, "lower": lower, "upper": upper}
    return pd.DataFrame(table)
