"""Answers for surveys: shares and regression from reports, with all errors."""

from skdp.survey._design import ReportDesign
from skdp.survey._halves import PerHalf
from skdp.survey._linear_regression import ReportLinearRegression
from skdp.survey._logistic_regression import ReportLogisticRegression

__all__ = [
    "PerHalf",
    "ReportDesign",
    "ReportLinearRegression",
    "ReportLogisticRegression",
]
