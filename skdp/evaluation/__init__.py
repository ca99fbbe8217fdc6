"""What privacy costs and what it leaves open: curves, studies, attacks, audits, displays, and the report of them."""

from skdp.evaluation._attack_result import AttackResult
from skdp.evaluation._attribute_inference import attribute_inference
from skdp.evaluation._audit import AuditResult, audit_epsilon
from skdp.evaluation._audit_table import audit_table
from skdp.evaluation._bayes_bound import bayes_accuracy, guessing_bound
from skdp.evaluation._count_estimate_display import CountEstimateDisplay
from skdp.evaluation._count_study import CountStudy, count_study
from skdp.evaluation._fairness_display import FairnessDisplay
from skdp.evaluation._leakage_display import LeakageDisplay
from skdp.evaluation._marginal_display import MarginalDisplay
from skdp.evaluation._membership_inference import MembershipResult, membership_inference
from skdp.evaluation._poisoning import poisoning_gain
from skdp.evaluation._privacy_curve import privacy_curve
from skdp.evaluation._privacy_curve_display import PrivacyCurveDisplay
from skdp.evaluation._repeated_releases import repeated_releases
from skdp.evaluation._report import age_sex_report
from skdp.evaluation._study_report import study_report

__all__ = [
    "AttackResult",
    "AuditResult",
    "CountEstimateDisplay",
    "CountStudy",
    "FairnessDisplay",
    "LeakageDisplay",
    "MarginalDisplay",
    "MembershipResult",
    "PrivacyCurveDisplay",
    "age_sex_report",
    "attribute_inference",
    "audit_epsilon",
    "audit_table",
    "bayes_accuracy",
    "count_study",
    "guessing_bound",
    "membership_inference",
    "poisoning_gain",
    "privacy_curve",
    "repeated_releases",
    "study_report",
]
