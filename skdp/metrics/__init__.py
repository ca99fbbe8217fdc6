"""What privacy costs: the error of counts, and fairness. Plain functions that compare with the truth."""

from skdp.metrics._aif360 import to_aif360
from skdp.metrics._counts import expected_l2_error, l1_count_error, l2_count_error, percent_error, total_variation
from skdp.metrics._fairness import fairness_report

__all__ = [
    "expected_l2_error",
    "fairness_report",
    "l1_count_error",
    "l2_count_error",
    "percent_error",
    "to_aif360",
    "total_variation",
]
