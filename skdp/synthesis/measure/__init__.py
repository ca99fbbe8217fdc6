"""The marginals that are measured, their noise, and the bins of numbers."""

from skdp.synthesis.measure._cell_counts import NumberCounts as NumberCounts
from skdp.synthesis.measure._column_counts import measure_columns as measure_columns
from skdp.synthesis.measure._event_columns import EventColumns as EventColumns
from skdp.synthesis.measure._event_columns import Histories as Histories
from skdp.synthesis.measure._event_columns import measure_linked as measure_linked
from skdp.synthesis.measure._marginal_scores import (
    group_rare_values as group_rare_values,
)
from skdp.synthesis.measure._plan import MarginalPlan as MarginalPlan
from skdp.synthesis.measure._plan import find_columns as find_columns
from skdp.synthesis.measure._plan import is_within as is_within
from skdp.synthesis.measure._plan import list_ordered as list_ordered
from skdp.synthesis.measure._plan import make_plan as make_plan
from skdp.synthesis.measure._plan import make_structure as make_structure
from skdp.synthesis.measure._plan import warn_excluded as warn_excluded
from skdp.synthesis.measure._private_counts import NoiseSource as NoiseSource
from skdp.synthesis.measure._private_counts import PrivateCounts as PrivateCounts
from skdp.synthesis.measure._release import PlannedRelease as PlannedRelease
from skdp.synthesis.measure._release import plan_release as plan_release
from skdp.synthesis.measure._rules import CLIQUES_PER_MODEL as CLIQUES_PER_MODEL
from skdp.synthesis.measure._rules import measure_valid as measure_valid
from skdp.synthesis.measure._selection import FittedCounts as FittedCounts
from skdp.synthesis.measure._selection import fit_counts as fit_counts
from skdp.synthesis.measure._selection import measure_and_fit as measure_and_fit
from skdp.synthesis.measure._selection import measure_table as measure_table
