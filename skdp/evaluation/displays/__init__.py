"""Figures of curves, fairness, marginals, shapes and counts."""

from skdp.evaluation.displays._counts import CountEstimateDisplay
from skdp.evaluation.displays._curves import PrivacyCurveDisplay
from skdp.evaluation.displays._fairness import FairnessDisplay
from skdp.evaluation.displays._shapes import ShapeDisplay

__all__ = [
    "CountEstimateDisplay",
    "FairnessDisplay",
    "PrivacyCurveDisplay",
    "ShapeDisplay",
]
