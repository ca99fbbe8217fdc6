"""Graphical models: junction trees, messages, estimation from noisy marginals, sampling."""

from skdp.synthesis.model._column_model import ColumnModel as ColumnModel
from skdp.synthesis.model._column_model import Cross as Cross
from skdp.synthesis.model._column_model import NoisyCounts as NoisyCounts
from skdp.synthesis.model._column_model import draw_balanced as draw_balanced
from skdp.synthesis.model._column_model import (
    estimate_proportions as estimate_proportions,
)
from skdp.synthesis.model._column_model import fit_columns as fit_columns
from skdp.synthesis.model._estimation import Structure as Structure
from skdp.synthesis.model._estimation import fit_model as fit_model
from skdp.synthesis.model._graphical_model import MAX_TABLE_CELLS as MAX_TABLE_CELLS
from skdp.synthesis.model._graphical_model import GraphicalModel as GraphicalModel
from skdp.synthesis.model._junction_tree import Elimination as Elimination
from skdp.synthesis.model._junction_tree import JunctionTree as JunctionTree
from skdp.synthesis.model._tables import Clique as Clique
from skdp.synthesis.model._tables import Covariance as Covariance
from skdp.synthesis.model._tables import Marginal as Marginal
from skdp.synthesis.model._tables import ValueGroups as ValueGroups
from skdp.synthesis.model._tables import combine_levels as combine_levels
from skdp.synthesis.model._tables import (
    estimate_marginal_counts as estimate_marginal_counts,
)
from skdp.synthesis.model._tables import estimate_total as estimate_total
from skdp.synthesis.model._tables import expand as expand
from skdp.synthesis.model._tables import group_values as group_values
from skdp.synthesis.model._tables import merge_marginals as merge_marginals
from skdp.synthesis.model._tables import n_cells_of as n_cells_of
from skdp.synthesis.model._tables import project as project
from skdp.synthesis.model._tables import shape_of as shape_of
from skdp.synthesis.model._tables import sum_value_groups as sum_value_groups
