"""The cost of privacy and the remaining leakage: curves, studies, attacks, audits, displays and the report."""

from skdp.evaluation._planning import plan_epsilon, plan_rows
from skdp.evaluation.attacks import AttackResult as AttackResult
from skdp.evaluation.attacks import MembershipResult as MembershipResult
from skdp.evaluation.attacks import (
    attribute_inference,
    bayes_accuracy,
    guessing_bound,
    membership_inference,
)
from skdp.evaluation.audits import AuditResult as AuditResult
from skdp.evaluation.audits import audit_epsilon
from skdp.evaluation.audits import audit_table as audit_table
from skdp.evaluation.curves import compare_to_baseline, privacy_curve
from skdp.evaluation.displays import (
    CountEstimateDisplay,
    FairnessDisplay,
    FairnessStudyDisplay,
    LeakageDisplay,
    MarginalDisplay,
    ParetoDisplay,
    PrivacyCurveDisplay,
    ShapeDisplay,
    TableQualityDisplay,
)
from skdp.evaluation.report import age_sex_report as age_sex_report
from skdp.evaluation.report import count_study, study_report
from skdp.evaluation.report import errors_by_trust as errors_by_trust
from skdp.evaluation.studies import FairnessStudy, StudyTable, fairness_study

__all__ = [
    "CountEstimateDisplay",
    "FairnessDisplay",
    "FairnessStudy",
    "FairnessStudyDisplay",
    "LeakageDisplay",
    "MarginalDisplay",
    "ParetoDisplay",
    "PrivacyCurveDisplay",
    "ShapeDisplay",
    "StudyTable",
    "TableQualityDisplay",
    "attribute_inference",
    "audit_epsilon",
    "bayes_accuracy",
    "compare_to_baseline",
    "count_study",
    "fairness_study",
    "guessing_bound",
    "membership_inference",
    "plan_epsilon",
    "plan_rows",
    "privacy_curve",
    "study_report",
]
