"""Attacks on releases, and bounds to compare them with."""

from skdp.evaluation.attacks._attribute_inference import AttackResult, attribute_inference
from skdp.evaluation.attacks._bayes_bound import EXACT, bayes_accuracy, guessing_bound
from skdp.evaluation.attacks._display import LeakageDisplay
from skdp.evaluation.attacks._membership_inference import MembershipResult, membership_inference
from skdp.evaluation.attacks._protocol import poisoning_gain, repeated_releases

__all__ = [
    "EXACT",
    "AttackResult",
    "LeakageDisplay",
    "MembershipResult",
    "attribute_inference",
    "bayes_accuracy",
    "guessing_bound",
    "membership_inference",
    "poisoning_gain",
    "repeated_releases",
]
