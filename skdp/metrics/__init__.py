"""Errors of counts and synthetic tables, and group fairness of predictions.

Metrics compare estimates with true values. Fairness metrics and fair models also accept
privatized groups.
"""

from skdp.metrics._aif360 import from_aif360, to_aif360
from skdp.metrics._fairness import (
    debiased_fairness,
    fairness_from_counts,
    fairness_report,
)
from skdp.metrics._labels import EmptyGroupError as EmptyGroupError
from skdp.metrics._labels import code_cells as code_cells
from skdp.metrics._labels import find_positive_label as find_positive_label
from skdp.metrics._labels import list_privileged as list_privileged
from skdp.metrics._labels import parse_classes as parse_classes
from skdp.metrics._labels import parse_columns as parse_columns
from skdp.metrics._links import link_errors
from skdp.metrics._mitigation import (
    private_parity,
    private_reweighing,
    private_threshold_optimizer,
)
from skdp.metrics._quality import grade_estimates
from skdp.metrics._rates import Metrics as Metrics
from skdp.metrics._rates import read_metrics as read_metrics
from skdp.metrics._reported_groups import joint_distribution
from skdp.metrics._scores import score_bins, scores_from_counts
from skdp.metrics._survival import survival_from_counts
from skdp.metrics._table_errors import convert_labels as convert_labels
from skdp.metrics._table_errors import (
    count_error,
    marginal_errors,
    range_query_error,
    train_on_synthetic,
)
from skdp.metrics.counts._hazards import hazards_from_counts
from skdp.metrics.counts._plan import plan_counts
from skdp.metrics.counts._ranks import quantiles_from_counts, rank_from_counts
from skdp.metrics.counts._regression import regression_from_counts
from skdp.metrics.counts._standardized import standardize_from_counts
from skdp.metrics.counts._survival_tests import compare_survival_from_counts

__all__ = [
    "compare_survival_from_counts",
    "count_error",
    "debiased_fairness",
    "fairness_from_counts",
    "fairness_report",
    "from_aif360",
    "grade_estimates",
    "hazards_from_counts",
    "joint_distribution",
    "link_errors",
    "marginal_errors",
    "plan_counts",
    "private_parity",
    "private_reweighing",
    "private_threshold_optimizer",
    "quantiles_from_counts",
    "range_query_error",
    "rank_from_counts",
    "regression_from_counts",
    "score_bins",
    "scores_from_counts",
    "standardize_from_counts",
    "survival_from_counts",
    "to_aif360",
    "train_on_synthetic",
]
