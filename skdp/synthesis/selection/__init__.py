"""The choice of the marginals that are measured, and of their noise."""

from skdp.synthesis.selection._bins import BINS as BINS
from skdp.synthesis.selection._bins import UNLIKELY as UNLIKELY
from skdp.synthesis.selection._bins import FineCounts as FineCounts
from skdp.synthesis.selection._bins import FoundCells as FoundCells
from skdp.synthesis.selection._bins import covariance_of_cells as covariance_of_cells
from skdp.synthesis.selection._bins import find_bins as find_bins
from skdp.synthesis.selection._bins import find_cells as find_cells
from skdp.synthesis.selection._bins import (
    planned_shares_of_cells as planned_shares_of_cells,
)
from skdp.synthesis.selection._bins import with_counts_of_bins as with_counts_of_bins
from skdp.synthesis.selection._bins import without_bins as without_bins
from skdp.synthesis.selection._determined import find_determined as find_determined
from skdp.synthesis.selection._determined import warn_determined as warn_determined
from skdp.synthesis.selection._moved import Caps as Caps
from skdp.synthesis.selection._moved import ColumnCap as ColumnCap
from skdp.synthesis.selection._moved import is_within as is_within
from skdp.synthesis.selection._moved import plan_readings as plan_readings
from skdp.synthesis.selection._private_table import NoiseBudget as NoiseBudget
from skdp.synthesis.selection._private_table import PrivateTable as PrivateTable
from skdp.synthesis.selection._private_table import open_budget as open_budget
from skdp.synthesis.selection._protected import ProtectedTable as ProtectedTable
from skdp.synthesis.selection._protected import measure_protected as measure_protected
from skdp.synthesis.selection._protected import with_protected as with_protected
from skdp.synthesis.selection._registry import STRATEGIES as STRATEGIES
from skdp.synthesis.selection._registry import check_marginals as check_marginals
from skdp.synthesis.selection._registry import check_width as check_width
from skdp.synthesis.selection._registry import largest_sizes as largest_sizes
from skdp.synthesis.selection._registry import read_caps as read_caps
from skdp.synthesis.selection._registry import read_plan as read_plan
from skdp.synthesis.selection._scores import MEAN_ABSOLUTE as MEAN_ABSOLUTE
from skdp.synthesis.selection._scores import IndependentColumns as IndependentColumns
from skdp.synthesis.selection._scores import Score as Score
from skdp.synthesis.selection._strategy import FittedTable as FittedTable
from skdp.synthesis.selection._strategy import Plan as Plan
from skdp.synthesis.selection._strategy import Room as Room
from skdp.synthesis.selection._strategy import Strategy as Strategy
from skdp.synthesis.selection._strategy import Zeros as Zeros
from skdp.synthesis.selection._strategy import fit_table as fit_table
from skdp.synthesis.selection._strategy import out_of_reach as out_of_reach
from skdp.synthesis.selection._strategy import warn_left_out as warn_left_out
from skdp.synthesis.selection._strategy import warn_not_chosen as warn_not_chosen
from skdp.synthesis.selection._strategy import warn_unknown as warn_unknown
from skdp.synthesis.selection._zeros import check_undetermined as check_undetermined
from skdp.synthesis.selection._zeros import read_order as read_order
from skdp.synthesis.selection._zeros import read_zeros as read_zeros
