"""Errors of counts and of synthetic tables, and group fairness, computed from the true values.

Fairness metrics and model weights are also estimated from privatised groups, without bias.
"""

from skdp.metrics._counts import expected_l2_error, l1_count_error, l2_count_error, percent_error, total_variation
from skdp.metrics.fairness import fairness_report, to_aif360
from skdp.metrics.private_groups import (
    debiased_fairness,
    joint_distribution,
    posterior_groups,
    private_parity,
    private_reweighing,
    private_threshold_optimizer,
)
from skdp.metrics.tables import (
    marginal_error,
    marginal_errors,
    marginal_table,
    random_range_queries,
    range_query_error,
    train_on_synthetic,
    value_errors,
    workload_error,
)

__all__ = [
    "debiased_fairness",
    "expected_l2_error",
    "fairness_report",
    "joint_distribution",
    "l1_count_error",
    "l2_count_error",
    "marginal_error",
    "marginal_errors",
    "marginal_table",
    "percent_error",
    "posterior_groups",
    "private_parity",
    "private_reweighing",
    "private_threshold_optimizer",
    "random_range_queries",
    "range_query_error",
    "to_aif360",
    "total_variation",
    "train_on_synthetic",
    "value_errors",
    "workload_error",
]
