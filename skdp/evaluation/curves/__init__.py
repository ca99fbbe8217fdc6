"""Scores of a model as a function of epsilon."""

from skdp.evaluation.curves._display import PrivacyCurveDisplay
from skdp.evaluation.curves._privacy_curve import privacy_curve

__all__ = ["PrivacyCurveDisplay", "privacy_curve"]
