"""Group fairness of predictions, as aif360 computes it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import UndefinedMetricWarning

from skdp.metrics._aif360 import import_aif360, read_column, to_aif360

CONVENTION = "difference = unprivileged − privileged, ratio = unprivileged / privileged, + is the positive label"

# The metric, its definition (at most 34 characters, or the table is too wide for pandas to print it on 80 columns), and
# aif360's method for it.
_METRICS = (
    ("statistical parity difference", "P(ŷ=+): unprivileged − privileged", "statistical_parity_difference"),
    ("disparate impact", "P(ŷ=+): unprivileged / privileged", "disparate_impact"),
    ("equal opportunity difference", "TPR: unprivileged − privileged", "equal_opportunity_difference"),
    ("average odds difference", "FPR&TPR: unprivileged − privileged", "average_odds_difference"),
    ("Theil index", "mean of b/μ·ln(b/μ), b = 1 + ŷ − y", "theil_index"),
)


def fairness_report(
    y_true: Any, y_pred: Any, sensitive_features: Any, *, privileged: Any, positive_label: Any
) -> pd.DataFrame:
    """Measure how differently predictions treat two groups.

    Parameters
    ----------
    y_true : array-like or series of shape (n_samples,), or dataframe of one column
        True labels. With the predicted ones, two different labels at most.
    y_pred : array-like or series of shape (n_samples,), or dataframe of one column
        Predicted labels.
    sensitive_features : array-like or series of shape (n_samples,), or dataframe of one column
        The value of each row that decides its group. The three are matched by position.
    privileged : value or list of values
        The values that make a row privileged; any other value makes it unprivileged.
    positive_label : label
        The favourable label.

    Returns
    -------
    pandas.DataFrame
        A row a metric, with the columns ``metric, definition, value``:

        - statistical parity difference, of the rates of positive predictions ``P(ŷ = +)``; 0 is parity;
        - disparate impact, the ratio of these rates; 1 is parity;
        - equal opportunity difference, of the true positive rates (TPR, ``P(ŷ = + | y = +)``); 0 is parity;
        - average odds difference, the mean of this difference and that of the false positive rates (FPR,
          ``P(ŷ = + | y = −)``); 0 is parity;
        - Theil index, the mean of ``b/μ ln(b/μ)`` over all rows, for the benefits ``b = 1 + ŷ − y`` (labels as 0 and 1)
          and their mean μ; 0 is equality.

        Each difference is *unprivileged − privileged*: below 0, the unprivileged group gets less. The definitions say
        so, and ``attrs["convention"]``.

    Raises
    ------
    ImportError
        If aif360 is not installed.
    ValueError
        If lengths differ, a value is missing, a group is empty, there are more than two labels, or none is positive.

    Warns
    -----
    UndefinedMetricWarning
        If a value is nan or infinite: nobody of a group is truly positive, or is predicted so.

    See Also
    --------
    to_aif360 : The dataset behind it, for aif360's other metrics.

    Notes
    -----
    **Privacy.** The values depend on the true labels and groups and are not protected. If the sensitive feature was
    privatised, the groups are not the true ones and the differences are nearer to 0 than the true ones.

    The values are aif360's own [1]_. fairlearn calls something else the equal opportunity difference: the largest rate
    minus the smallest, which is never negative.

    References
    ----------
    .. [1] R. K. E. Bellamy et al. (2018). AI Fairness 360: an extensible toolkit for detecting, understanding, and
       mitigating unwanted algorithmic bias. arXiv:1810.01943.

    Examples
    --------
    >>> sex = ["Female"] * 4 + ["Male"] * 4
    >>> y_true = ["yes", "yes", "no", "no", "yes", "yes", "no", "no"]
    >>> y_pred = ["yes", "no", "no", "no", "yes", "yes", "yes", "no"]
    >>> report = fairness_report(y_true, y_pred, sex, privileged="Male", positive_label="yes")
    >>> report.round(3)
                              metric                          definition  value
    0  statistical parity difference   P(ŷ=+): unprivileged − privileged -0.500
    1               disparate impact   P(ŷ=+): unprivileged / privileged  0.333
    2   equal opportunity difference      TPR: unprivileged − privileged -0.500
    3        average odds difference  FPR&TPR: unprivileged − privileged -0.500
    4                    Theil index  mean of b/μ·ln(b/μ), b = 1 + ŷ − y  0.173
    """
    metrics = import_aif360("metrics")
    true, predicted = read_column(y_true, "y_true"), read_column(y_pred, "y_pred")
    groups = read_column(sensitive_features, "sensitive_features")
    if not len(true) == len(predicted) == len(groups):
        raise ValueError(
            "y_true, y_pred and sensitive_features must have the same length, got "
            f"{len(true)}, {len(predicted)} and {len(groups)}"
        )
    _check_labels(true, predicted, positive_label)
    frame = pd.DataFrame({"sensitive_features": groups})
    datasets = [
        to_aif360(frame, labels, "sensitive_features", privileged=privileged, positive_label=positive_label)
        for labels in (true, predicted)
    ]
    metric = metrics.ClassificationMetric(
        *datasets,
        unprivileged_groups=[{"sensitive_features": 0.0}],
        privileged_groups=[{"sensitive_features": 1.0}],
    )
    # NumPy's "invalid value" would not say which metric; the warning below does.
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = [(name, definition, float(getattr(metric, method)())) for name, definition, method in _METRICS]
    report = pd.DataFrame(rows, columns=["metric", "definition", "value"])
    report.attrs["convention"] = CONVENTION
    undefined = report.loc[~np.isfinite(report["value"]), "metric"].to_list()
    if undefined:
        warnings.warn(
            f"undefined: {', '.join(undefined)}; a group has no row of the label that the definition divides by",
            UndefinedMetricWarning,
            stacklevel=2,
        )
    return report


def _check_labels(true: pd.Series, predicted: pd.Series, positive_label: Any) -> None:
    labels = {*true.unique().tolist(), *predicted.unique().tolist()}
    if len(labels) > 2:
        raise ValueError("y_true and y_pred must hold two labels between them, got more")
    if positive_label not in labels:
        raise ValueError("neither y_true nor y_pred holds a label that equals positive_label")
