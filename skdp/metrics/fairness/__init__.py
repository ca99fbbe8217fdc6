"""Group fairness for known groups."""

from skdp.metrics.fairness._aif360 import import_optional, is_collection, read_column, to_aif360
from skdp.metrics.fairness._intervals import Estimate, Numbers, combine, proportion, ratio, two_sided
from skdp.metrics.fairness._report import COMPARISONS, CONVENTION, RATES, check_labels, fairness_report

__all__ = [
    "COMPARISONS",
    "CONVENTION",
    "RATES",
    "Estimate",
    "Numbers",
    "check_labels",
    "combine",
    "fairness_report",
    "import_optional",
    "is_collection",
    "proportion",
    "ratio",
    "read_column",
    "to_aif360",
    "two_sided",
]
