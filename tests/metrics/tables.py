"""Fairness metrics with their names, and rows of a real and a synthetic table."""

import numpy as np
import pytest
from sklearn.metrics import precision_score

METRICS = [
    "statistical_parity_difference",
    "disparate_impact",
    "equal_opportunity_difference",
    "average_odds_difference",
    "equalized_odds_difference",
    "predictive_parity_difference",
]


def select_comparisons(table, column="value"):
    """Return a column of the comparisons of the groups in a report, by metric."""
    return table[table["group"].isna()].set_index("metric")[column]


def compute_fairlearn(y_true, y_pred, sensitive_features, sample_weight=None):
    """Return fairlearn's values of `METRICS`, in their order."""
    metrics = pytest.importorskip("fairlearn.metrics")
    rows = {
        "y_true": y_true,
        "y_pred": y_pred,
        "sensitive_features": sensitive_features,
        "sample_weight": sample_weight,
    }
    return [
        metrics.demographic_parity_difference(**rows),
        metrics.demographic_parity_ratio(**rows),
        metrics.equal_opportunity_difference(**rows),
        metrics.equalized_odds_difference(**rows, agg="mean"),
        metrics.equalized_odds_difference(**rows, agg="worst_case"),
        metrics.make_derived_metric(
            metric=precision_score, transform="difference", sample_param_names=["sample_weight"]
        )(**rows, zero_division=np.nan),
    ]


REAL = {
    "sex": ["F", "M", "M", None, "F", "M", "F"],
    "age": [20, 30, None, 40, 40, 20, 50],
    "smokes": [True, False, True, False, False, True, True],
}
SYNTHETIC = {
    "sex": ["F", "F", "M", None, "X"],
    "age": [20, 60, None, None, 40],
    "smokes": [True, True, True, False, False],
}
