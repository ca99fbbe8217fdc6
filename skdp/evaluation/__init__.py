"""The cost of privacy and the remaining leakage: curves, studies, attacks, audits, displays and the report."""

from skdp.evaluation.attacks import (
    AttackResult,
    LeakageDisplay,
    MembershipResult,
    attribute_inference,
    bayes_accuracy,
    guessing_bound,
    membership_inference,
)
from skdp.evaluation.audits import AuditResult, audit_epsilon, audit_table
from skdp.evaluation.curves import ParetoDisplay, PrivacyCurveDisplay, compare_to_baseline, privacy_curve
from skdp.evaluation.displays import CountEstimateDisplay, FairnessDisplay, MarginalDisplay
from skdp.evaluation.planning import EpsilonPlan, PlanDisplay, plan_epsilon
from skdp.evaluation.report import CountStudy, age_sex_report, count_study, errors_by_trust, study_report

__all__ = [
    "AttackResult",
    "AuditResult",
    "CountEstimateDisplay",
    "CountStudy",
    "EpsilonPlan",
    "FairnessDisplay",
    "LeakageDisplay",
    "MarginalDisplay",
    "MembershipResult",
    "ParetoDisplay",
    "PlanDisplay",
    "PrivacyCurveDisplay",
    "age_sex_report",
    "attribute_inference",
    "audit_epsilon",
    "audit_table",
    "bayes_accuracy",
    "compare_to_baseline",
    "count_study",
    "errors_by_trust",
    "guessing_bound",
    "membership_inference",
    "plan_epsilon",
    "privacy_curve",
    "study_report",
]
