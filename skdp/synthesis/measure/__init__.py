"""The marginals that are measured, their noise, and the bins of numbers."""

from skdp.synthesis.measure._budget import NoiseBudget as NoiseBudget
from skdp.synthesis.measure._budget import PrivateCounts as PrivateCounts
from skdp.synthesis.measure._cell_counts import NumberCounts as NumberCounts
from skdp.synthesis.measure._cell_counts import measure_cells as measure_cells
from skdp.synthesis.measure._column_counts import ColumnLayout as ColumnLayout
from skdp.synthesis.measure._column_counts import PrivateColumns as PrivateColumns
from skdp.synthesis.measure._column_counts import estimate_numbers as estimate_numbers
from skdp.synthesis.measure._column_counts import measure_crosses as measure_crosses
from skdp.synthesis.measure._column_counts import measure_numbers as measure_numbers
from skdp.synthesis.measure._plan import CLIQUES_PER_MODEL as CLIQUES_PER_MODEL
from skdp.synthesis.measure._plan import MarginalPlan as MarginalPlan
from skdp.synthesis.measure._plan import check_width as check_width
from skdp.synthesis.measure._plan import find_columns as find_columns
from skdp.synthesis.measure._plan import is_within as is_within
from skdp.synthesis.measure._plan import make_plan as make_plan
from skdp.synthesis.measure._plan import structure_of as structure_of
from skdp.synthesis.measure._plan import warn_excluded as warn_excluded
from skdp.synthesis.measure._scores import group_rare_values as group_rare_values
from skdp.synthesis.measure._selection import Fitted as Fitted
from skdp.synthesis.measure._selection import fit_numbers as fit_numbers
from skdp.synthesis.measure._selection import measure_and_fit as measure_and_fit
