"""From randomised reports to a model: what they say of columns and pairs, with which covariances."""

from skdp.synthesis.reports._dependence import MOST_PAIRED, Contrast, dependence_of, margin_of
from skdp.synthesis.reports._read import check_encoder, read_reported, reported_of
from skdp.synthesis.reports._reported import Reported, ReportedGroup
from skdp.synthesis.reports._selection import MeasuredReports, check_reported, measure_reports

__all__ = [
    "MOST_PAIRED",
    "Contrast",
    "MeasuredReports",
    "Reported",
    "ReportedGroup",
    "check_encoder",
    "check_reported",
    "dependence_of",
    "margin_of",
    "measure_reports",
    "read_reported",
    "reported_of",
]
