"""Attacks on releases, and bounds to compare them with."""

from skdp.evaluation.attacks._attribute_inference import AttackResult as AttackResult
from skdp.evaluation.attacks._attribute_inference import (
    attribute_inference as attribute_inference,
)
from skdp.evaluation.attacks._bayes_bound import EXACT as EXACT
from skdp.evaluation.attacks._bayes_bound import bayes_accuracy as bayes_accuracy
from skdp.evaluation.attacks._bayes_bound import guessing_bound as guessing_bound
from skdp.evaluation.attacks._membership_inference import (
    MembershipResult as MembershipResult,
)
from skdp.evaluation.attacks._membership_inference import (
    membership_inference as membership_inference,
)
