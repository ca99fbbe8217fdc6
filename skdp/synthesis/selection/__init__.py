"""The choice of the marginals that are measured, and of their noise."""

from skdp.synthesis.selection._noise import open_budget
from skdp.synthesis.selection._plan import Plan
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._registry import (
    METHODS,
    check_marginals,
    check_size_of_model,
    first_cliques,
    largest_sizes,
    measure,
    read_workload,
    read_zeros,
    warn_not_chosen,
    warn_out_of_reach,
)

__all__ = [
    "METHODS",
    "Plan",
    "PrivateTable",
    "check_marginals",
    "check_size_of_model",
    "first_cliques",
    "largest_sizes",
    "measure",
    "open_budget",
    "read_workload",
    "read_zeros",
    "warn_not_chosen",
    "warn_out_of_reach",
]
