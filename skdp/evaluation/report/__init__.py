"""The report: studies, figures and the page."""

from skdp.evaluation.report._counts import CountStudy, count_study
from skdp.evaluation.report._report import age_sex_report, study_report

__all__ = ["CountStudy", "age_sex_report", "count_study", "study_report"]
