"""What privacy costs: the error of counts and of synthetic tables, and fairness. Plain functions that use the truth."""

from skdp.metrics._aif360 import to_aif360
from skdp.metrics._counts import expected_l2_error, l1_count_error, l2_count_error, percent_error, total_variation
from skdp.metrics._fairness import fairness_report
from skdp.metrics._marginal_table import marginal_table
from skdp.metrics._marginals import marginal_error, marginal_errors, workload_error
from skdp.metrics._range_queries import random_range_queries, range_query_error
from skdp.metrics._train_on_synthetic import train_on_synthetic

__all__ = [
    "expected_l2_error",
    "fairness_report",
    "l1_count_error",
    "l2_count_error",
    "marginal_error",
    "marginal_errors",
    "marginal_table",
    "percent_error",
    "random_range_queries",
    "range_query_error",
    "to_aif360",
    "total_variation",
    "train_on_synthetic",
    "workload_error",
]
