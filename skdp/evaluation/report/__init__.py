"""The report: studies, figures and the page."""

from skdp.evaluation.report._adult import age_sex_report
from skdp.evaluation.report._counts import CountStudy, count_study, errors_by_trust
from skdp.evaluation.report._report import study_report

__all__ = ["CountStudy", "age_sex_report", "count_study", "errors_by_trust", "study_report"]
