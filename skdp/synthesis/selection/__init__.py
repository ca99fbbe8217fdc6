"""The choice of the marginals that are measured, and of their noise."""

from skdp.synthesis.selection._private_table import PrivateTable, check_promise, open_budget
from skdp.synthesis.selection._registry import (
    STRATEGIES,
    check_marginals,
    largest_sizes,
    read_plan,
    uses_choices,
)
from skdp.synthesis.selection._strategy import Plan, Strategy, first_cliques, warn_not_chosen, warn_out_of_reach

__all__ = [
    "STRATEGIES",
    "Plan",
    "PrivateTable",
    "Strategy",
    "check_marginals",
    "check_promise",
    "first_cliques",
    "largest_sizes",
    "open_budget",
    "read_plan",
    "uses_choices",
    "warn_not_chosen",
    "warn_out_of_reach",
]
