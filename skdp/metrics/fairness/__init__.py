"""Group fairness for known groups."""

from skdp.metrics.fairness._aif360 import read_column, to_aif360
from skdp.metrics.fairness._counts import check_labels
from skdp.metrics.fairness._intervals import Estimate, Numbers, combine, ratio, two_sided
from skdp.metrics.fairness._libraries import import_aif360, import_fairlearn
from skdp.metrics.fairness._report import CONVENTION, fairness_report

__all__ = [
    "CONVENTION",
    "Estimate",
    "Numbers",
    "check_labels",
    "combine",
    "fairness_report",
    "import_aif360",
    "import_fairlearn",
    "ratio",
    "read_column",
    "to_aif360",
    "two_sided",
]
