"""Errors of counts and of synthetic tables, and group fairness, computed from the true values.

Fairness metrics and model weights are also estimated from privatised groups, without bias.
"""

from skdp.metrics._counts import count_error, percent_error
from skdp.metrics._counts import labels_of as labels_of
from skdp.metrics.fairness import fairness_report, from_aif360, to_aif360
from skdp.metrics.private_groups import (
    data_unfairness,
    debiased_fairness,
    joint_distribution,
    posterior_groups,
    private_parity,
    private_reweighing,
    private_threshold_optimizer,
)
from skdp.metrics.tables import compare_marginals as compare_marginals
from skdp.metrics.tables import compare_numbers as compare_numbers
from skdp.metrics.tables import (
    marginal_error,
    marginal_errors,
    range_query_error,
    train_on_synthetic,
    value_errors,
)
from skdp.metrics.tables import marginal_table as marginal_table

__all__ = [
    "count_error",
    "data_unfairness",
    "debiased_fairness",
    "fairness_report",
    "from_aif360",
    "joint_distribution",
    "marginal_error",
    "marginal_errors",
    "percent_error",
    "posterior_groups",
    "private_parity",
    "private_reweighing",
    "private_threshold_optimizer",
    "range_query_error",
    "to_aif360",
    "train_on_synthetic",
    "value_errors",
]
