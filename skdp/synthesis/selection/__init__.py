"""The choice of the marginals that are measured, and of their noise."""

from skdp.synthesis.selection._bins import BINS as BINS
from skdp.synthesis.selection._bins import FoundCells as FoundCells
from skdp.synthesis.selection._bins import covariance_of_cells as covariance_of_cells
from skdp.synthesis.selection._bins import find_bins as find_bins
from skdp.synthesis.selection._bins import find_cells as find_cells
from skdp.synthesis.selection._private_table import MIN_ERROR as MIN_ERROR
from skdp.synthesis.selection._private_table import Change as Change
from skdp.synthesis.selection._private_table import NoiseBudget as NoiseBudget
from skdp.synthesis.selection._private_table import PrivateTable as PrivateTable
from skdp.synthesis.selection._private_table import open_budget as open_budget
from skdp.synthesis.selection._rare_values import group_column as group_column
from skdp.synthesis.selection._registry import STRATEGIES as STRATEGIES
from skdp.synthesis.selection._registry import check_marginals as check_marginals
from skdp.synthesis.selection._registry import check_width as check_width
from skdp.synthesis.selection._registry import read_plan as read_plan
from skdp.synthesis.selection._strategy import FittedTable as FittedTable
from skdp.synthesis.selection._strategy import Plan as Plan
from skdp.synthesis.selection._strategy import Room as Room
from skdp.synthesis.selection._strategy import Strategy as Strategy
from skdp.synthesis.selection._strategy import fit_table as fit_table
from skdp.synthesis.selection._strategy import out_of_reach as out_of_reach
from skdp.synthesis.selection._strategy import warn_left_out as warn_left_out
from skdp.synthesis.selection._strategy import warn_not_chosen as warn_not_chosen
from skdp.synthesis.selection._strategy import warn_unknown as warn_unknown
from skdp.synthesis.selection._zeros import find_zeros as find_zeros
