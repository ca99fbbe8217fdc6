"""Figures of curves, fairness, marginals, shapes and counts."""

from skdp.evaluation.displays._counts import CountEstimateDisplay
from skdp.evaluation.displays._curves import PrivacyCurveDisplay
from skdp.evaluation.displays._fairness import FairnessDisplay
from skdp.evaluation.displays._marginals import MarginalDisplay
from skdp.evaluation.displays._shapes import ShapeDisplay
from skdp.evaluation.displays._style import COLOURS as COLOURS
from skdp.evaluation.displays._style import INK as INK
from skdp.evaluation.displays._style import import_pyplot as import_pyplot

__all__ = [
    "CountEstimateDisplay",
    "FairnessDisplay",
    "MarginalDisplay",
    "PrivacyCurveDisplay",
    "ShapeDisplay",
]
