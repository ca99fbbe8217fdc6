"""Means of samples with weights, strata and clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from skdp.base import (
    ColumnLike,
    TableLike,
    check_confidence_level,
    check_row_order,
    to_single_column,
)
from skdp.local.protocol import check_sample_weight
from skdp.survey._design import to_pandas


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
        If a column is not numeric or has missing values, lengths differ, a weight is
        negative, or a stratum has a single cluster.

    See Also
    --------
    skdp.survey.ReportDesign.debias : Unbiased values of the answers to a questionnaire.

    Notes
    -----
    **Privacy.** For reports, this is post-processing, without privacy cost. Weights,
    strata and clusters are not protected.

    The mean is the Hájek estimate ``sum(w u) / sum(w)``. The variance is estimated from
    the differences between the clusters of each stratum, after linearization, as in R's
    survey package [1]_ with replacement. It includes the noise of the reports. Intervals
    use Student's t with as many degrees of freedom as clusters less strata.

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
    keys = {"strata": np.zeros(len(frame)), "clusters": np.arange(len(frame))}
    for name, column in (("strata", strata), ("clusters", clusters)):
        if column is not None:
            check_row_order(**{"values": values, name: column})
            keys[name] = _code_labels(column, name, len(frame))
    weights = np.ones(len(frame))
    if sample_weight is not None:
        weights = check_sample_weight(sample_weight, values, len(frame))
    for label in frame:
        column = frame[label]
        if not pd.api.types.is_numeric_dtype(column) or column.isna().any():
            raise ValueError(
                f"Column {label!r} of `values` must be numbers without missing values, "
                f"got dtype {column.dtype}. Use the output of `debias`."
            )
    mean = pd.Series(np.average(frame, weights=weights, axis=0), index=frame.columns)
    scores = (frame - mean).mul(weights / weights.sum(), axis=0)
    totals = scores.groupby(list(keys.values())).sum()
    by_stratum = totals.groupby(level=0)
    n_clusters = by_stratum.size()
    if n_clusters.min() < 2:
        raise ValueError(
            "Each stratum must have at least two clusters, got a stratum with one. Join "
            "small strata."
        )
    std_error = np.sqrt(by_stratum.var().mul(n_clusters, axis=0).sum())
    degrees = len(totals) - len(n_clusters)
    margin = stats.t.ppf((1 + confidence_level) / 2, degrees) * std_error
    table = {"mean": mean, "std_error": std_error}
    return pd.DataFrame(table | {"lower": mean - margin, "upper": mean + margin})


def _code_labels(column: Any, name: str, n_rows: int) -> Any:
    """Return a code of the label of each row; raise an error for missing labels."""
    (labels,) = to_single_column(column, name).columns
    codes, _ = pd.factorize(np.asarray(labels, object))
    if len(codes) != n_rows or (codes < 0).any():
        raise ValueError(
            f"`{name}` must have {n_rows:,} labels, one for each row and none missing, got "
            f"{len(codes):,} with {int((codes < 0).sum()):,} missing."
        )
    return codes
