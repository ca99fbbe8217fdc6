"""Attacks on releases, and bounds to compare them with."""

from skdp.evaluation.attacks._attribute_inference import AttackResult as AttackResult
from skdp.evaluation.attacks._attribute_inference import attribute_inference
from skdp.evaluation.attacks._measures import EXACT as EXACT
from skdp.evaluation.attacks._measures import bayes_accuracy, guessing_bound
from skdp.evaluation.attacks._membership_inference import (
    MembershipResult as MembershipResult,
)
from skdp.evaluation.attacks._membership_inference import membership_inference

__all__ = [
    "attribute_inference",
    "bayes_accuracy",
    "guessing_bound",
    "membership_inference",
]
