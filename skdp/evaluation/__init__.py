"""Cost of privacy and remaining leakage: curves, studies, attacks, audits, displays and the report."""

from skdp.evaluation._attacks import (
    attribute_inference,
    membership_inference,
)
from skdp.evaluation._audit import audit_epsilon
from skdp.evaluation._effect_display import EffectDisplay
from skdp.evaluation._fairness_study import fairness_study
from skdp.evaluation._planning import plan_epsilon, plan_rows
from skdp.evaluation._privacy_curve import compare_to_baseline, privacy_curve
from skdp.evaluation._study_report import study_report
from skdp.evaluation._survival_display import SurvivalDisplay
from skdp.evaluation.displays import (
    CountEstimateDisplay,
    FairnessDisplay,
    PrivacyCurveDisplay,
    ShapeDisplay,
)

__all__ = [
    "CountEstimateDisplay",
    "EffectDisplay",
    "FairnessDisplay",
    "PrivacyCurveDisplay",
    "ShapeDisplay",
    "SurvivalDisplay",
    "attribute_inference",
    "audit_epsilon",
    "compare_to_baseline",
    "fairness_study",
    "membership_inference",
    "plan_epsilon",
    "plan_rows",
    "privacy_curve",
    "study_report",
]
