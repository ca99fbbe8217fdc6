"""The marginals that are measured, their noise, and the bins of numbers."""

from skdp.synthesis.selection._budget import MIN_STD_ERROR as MIN_STD_ERROR
from skdp.synthesis.selection._budget import NoiseBudget as NoiseBudget
from skdp.synthesis.selection._budget import PrivateCounts as PrivateCounts
from skdp.synthesis.selection._budget import Sensitivity as Sensitivity
from skdp.synthesis.selection._cell_counts import NumberCounts as NumberCounts
from skdp.synthesis.selection._cell_counts import measure_cells as measure_cells
from skdp.synthesis.selection._plan import CLIQUES_PER_MODEL as CLIQUES_PER_MODEL
from skdp.synthesis.selection._plan import MarginalPlan as MarginalPlan
from skdp.synthesis.selection._plan import check_width as check_width
from skdp.synthesis.selection._plan import find_columns as find_columns
from skdp.synthesis.selection._plan import is_within as is_within
from skdp.synthesis.selection._plan import make_plan as make_plan
from skdp.synthesis.selection._plan import structure_of as structure_of
from skdp.synthesis.selection._plan import warn_excluded as warn_excluded
from skdp.synthesis.selection._scores import group_rare_values as group_rare_values
from skdp.synthesis.selection._selection import Fitted as Fitted
from skdp.synthesis.selection._selection import fit_numbers as fit_numbers
from skdp.synthesis.selection._selection import measure_and_fit as measure_and_fit
