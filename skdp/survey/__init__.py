"""Answers for surveys: shares, associations and regression from reports, with all errors."""

from skdp.survey._association import estimate_associations
from skdp.survey._design import ReportDesign
from skdp.survey._halves import PerHalf
from skdp.survey._linear_regression import ReportLinearRegression
from skdp.survey._logistic_regression import ReportLogisticRegression

__all__ = [
    "PerHalf",
    "ReportDesign",
    "ReportLinearRegression",
    "ReportLogisticRegression",
    "estimate_associations",
]
