"""Estimates for surveys: proportions and regression from reports, with confidence intervals."""

from skdp.survey._design import ReportDesign
from skdp.survey._halves import PerHalf
from skdp.survey._mean_estimates import survey_mean
from skdp.survey._regression import ReportLinearRegression, ReportLogisticRegression

__all__ = [
    "PerHalf",
    "ReportDesign",
    "ReportLinearRegression",
    "ReportLogisticRegression",
    "survey_mean",
]
