"""Means of samples with weights, strata and clusters."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from skdp.base import ColumnLike, TableLike, check_confidence_level
from skdp.survey._design import to_pandas
from skdp.survey._inputs import encode_labels, validate_numbers, validate_weights

DEBIAS = "Pass the result of `debias` of the design or encoder of these reports."
"""Advice for reports, because their proportions are biased estimates."""


def survey_mean(
    values: TableLike,
    sample_weight: ColumnLike | None = None,
    strata: ColumnLike | None = None,
    clusters: ColumnLike | None = None,
    *,
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
        weights are equal. For a subgroup, set the weights of all other rows to 0.
    strata : array-like of shape (n_samples,), default=None
        Stratum of each row. If None, there is one stratum.
    clusters : array-like of shape (n_samples,), default=None
        Cluster of each row within its stratum: rows that were sampled together, such as a
        household. If None, each row is a cluster.
    confidence_level : float, default=0.95
        Coverage probability of each interval.

    Returns
    -------
    pandas.DataFrame
        Columns ``mean, std_error, lower, upper``, with a row for each column of values.

    Raises
    ------
    TypeError, ValueError
        If values are not a dataframe with rows and columns, a column is not numeric or
        has missing values, lengths differ, a weight is negative, a stratum has a single
        cluster, or no stratum has two clusters with a positive weight.

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
    frame, n_rows = frame.apply(validate_numbers, remedy=DEBIAS), len(frame)
    weights = pd.Series(validate_weights(sample_weight, values, n_rows))
    fractions = weights / weights.sum()
    mean = frame.mul(fractions, axis=0).sum()
    scores = (frame - mean).mul(fractions, axis=0)
    if strata is None:
        strata = np.zeros(n_rows)
    if clusters is None:
        clusters = np.arange(n_rows)
    labels = {"strata": strata, "clusters": clusters}
    keys = [encode_labels(*item, values, n_rows) for item in labels.items()]
    by_stratum = scores.groupby(keys).sum().groupby(level=0)
    n_clusters = by_stratum.size()
    if n_clusters.min() < 2:
        raise ValueError(
            "Each stratum must have at least two clusters, got a stratum with one. Join "
            "small strata."
        )
    # The variance of a sum over clusters drawn with replacement in each stratum.
    std_error = np.sqrt(by_stratum.var().mul(n_clusters, axis=0).sum())
    is_used = (weights > 0).groupby(keys).any()
    degrees = is_used.sum() - is_used.groupby(level=0).any().sum()
    if degrees < 1:
        raise ValueError(
            "A stratum must have at least two clusters with a positive weight, got at "
            "most one in each. Use a larger subgroup."
        )
    margin = stats.t.ppf((1 + confidence_level) / 2, degrees) * std_error
    table = {"mean": mean, "std_error": std_error}
    return pd.DataFrame(table | {"lower": mean - margin, "upper": mean + margin})
