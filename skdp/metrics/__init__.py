"""What privacy costs: the error of counts and of synthetic tables, and fairness. Plain functions that use the truth.

Fairness from privatised groups too: rates without the bias of the reports, and learning with them.
"""

from skdp.metrics._aif360 import to_aif360
from skdp.metrics._counts import expected_l2_error, l1_count_error, l2_count_error, percent_error, total_variation
from skdp.metrics._debiased_fairness import debiased_fairness
from skdp.metrics._fairness import fairness_report
from skdp.metrics._group_joint import joint_distribution
from skdp.metrics._marginal_table import marginal_table
from skdp.metrics._marginals import marginal_error, marginal_errors, workload_error
from skdp.metrics._private_fairlearn import private_parity, private_threshold_optimizer
from skdp.metrics._private_groups import posterior_groups, private_reweighing
from skdp.metrics._range_queries import random_range_queries, range_query_error
from skdp.metrics._train_on_synthetic import train_on_synthetic

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
    "workload_error",
]
