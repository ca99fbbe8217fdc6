"""Group fairness for groups that are known from privatised reports only."""

from skdp.metrics.private_groups._debiased_fairness import debiased_fairness
from skdp.metrics.private_groups._fairlearn import private_parity, private_threshold_optimizer
from skdp.metrics.private_groups._joint import joint_distribution, posterior_groups, private_reweighing
from skdp.metrics.private_groups._planned_parity import parity_half_width as parity_half_width

__all__ = [
    "debiased_fairness",
    "joint_distribution",
    "posterior_groups",
    "private_parity",
    "private_reweighing",
    "private_threshold_optimizer",
]
