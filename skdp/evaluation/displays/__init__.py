"""Figures of curves, fairness, marginals, shapes and counts."""

from skdp.evaluation.displays._count_estimates import CountEstimateDisplay
from skdp.evaluation.displays._curves import PrivacyCurveDisplay
from skdp.evaluation.displays._fairness_reports import FairnessDisplay
from skdp.evaluation.displays._shapes import ShapeDisplay

__all__ = [
    "CountEstimateDisplay",
    "FairnessDisplay",
    "PrivacyCurveDisplay",
    "ShapeDisplay",
]
