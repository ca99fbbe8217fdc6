"""From randomised reports to a model: counts of columns and pairs, with their covariances."""

from skdp.synthesis.reports._read import check_encoder, read_reported, reported_of
from skdp.synthesis.reports._reported import Reported, ReportedGroup
from skdp.synthesis.reports._selection import MeasuredReports, check_reported, measure_reports

__all__ = [
    "MeasuredReports",
    "Reported",
    "ReportedGroup",
    "check_encoder",
    "check_reported",
    "measure_reports",
    "read_reported",
    "reported_of",
]
