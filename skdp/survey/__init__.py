"""Answers for surveys: regression from reports, with the error of sampling and of the noise."""

from skdp.survey._design import ReportDesign
from skdp.survey._halves import PerHalf
from skdp.survey._regression import ReportLinearRegression, ReportLogisticRegression

__all__ = [
    "PerHalf",
    "ReportDesign",
    "ReportLinearRegression",
    "ReportLogisticRegression",
]
