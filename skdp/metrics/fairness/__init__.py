"""Group fairness for known groups, and what metrics of estimated groups share with it."""

from skdp.metrics.fairness._aif360 import import_optional, is_collection, read_column, to_aif360
from skdp.metrics.fairness._comparisons import compare
from skdp.metrics.fairness._intervals import Estimate, Numbers, proportion, two_sided
from skdp.metrics.fairness._rates import Labels, RateSums, sums_of_estimated, sums_of_known
from skdp.metrics.fairness._read import (
    check_labels,
    consistency_rows,
    name_groups,
    read_features,
    read_predictions,
    split_rows,
)
from skdp.metrics.fairness._report import fairness_report
from skdp.metrics.fairness._table import LABELS, Groups, Precision, measure, write_table

__all__ = [
    "LABELS",
    "Estimate",
    "Groups",
    "Labels",
    "Numbers",
    "Precision",
    "RateSums",
    "check_labels",
    "compare",
    "consistency_rows",
    "fairness_report",
    "import_optional",
    "is_collection",
    "measure",
    "name_groups",
    "proportion",
    "read_column",
    "read_features",
    "read_predictions",
    "split_rows",
    "sums_of_estimated",
    "sums_of_known",
    "to_aif360",
    "two_sided",
    "write_table",
]
