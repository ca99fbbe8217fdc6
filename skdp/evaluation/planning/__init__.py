"""Which epsilon, or how many rows, a wanted accuracy needs."""

from skdp.evaluation.planning._display import PlanDisplay
from skdp.evaluation.planning._plan import EpsilonPlan, plan_epsilon

__all__ = ["EpsilonPlan", "PlanDisplay", "plan_epsilon"]
