"""Linear models whose coefficients are private."""

from skdp.central.linear_model._linear import DPLinearRegression, DPRidge
from skdp.central.linear_model._logistic import DPLogisticRegression

__all__ = ["DPLinearRegression", "DPLogisticRegression", "DPRidge"]
