"""Scores of a model as a function of epsilon."""

from skdp.evaluation.curves._comparison import compare_to_baseline
from skdp.evaluation.curves._display import PrivacyCurveDisplay
from skdp.evaluation.curves._pareto import ParetoDisplay
from skdp.evaluation.curves._privacy_curve import privacy_curve

__all__ = [
    "ParetoDisplay",
    "PrivacyCurveDisplay",
    "compare_to_baseline",
    "privacy_curve",
]
