"""Which epsilon, or how many rows, a wanted accuracy needs."""

from skdp.evaluation.planning._plan import EpsilonPlan as EpsilonPlan
from skdp.evaluation.planning._plan import plan_epsilon as plan_epsilon
