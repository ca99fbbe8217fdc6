"""The choice of the marginals that are measured, and of their noise."""

from skdp.synthesis.selection._private_bins import BINS, find_bins
from skdp.synthesis.selection._private_table import PrivateTable, check_promise, open_budget
from skdp.synthesis.selection._registry import (
    STRATEGIES,
    check_marginals,
    check_size_of_model,
    check_width,
    given,
    largest_sizes,
    read_cliques,
    read_plan,
    uses_choices,
)
from skdp.synthesis.selection._strategy import (
    Plan,
    Room,
    Strategy,
    first_cliques,
    fit_table,
    forbid,
    warn_not_chosen,
    warn_out_of_reach,
    warn_unknown,
)
from skdp.synthesis.selection._zeros import read_zeros

__all__ = [
    "BINS",
    "STRATEGIES",
    "Plan",
    "PrivateTable",
    "Room",
    "Strategy",
    "check_marginals",
    "check_promise",
    "check_size_of_model",
    "check_width",
    "find_bins",
    "first_cliques",
    "fit_table",
    "forbid",
    "given",
    "largest_sizes",
    "open_budget",
    "read_cliques",
    "read_plan",
    "read_zeros",
    "uses_choices",
    "warn_not_chosen",
    "warn_out_of_reach",
    "warn_unknown",
]
