"""Graphical models of tables: inference and sampling."""

from skdp.synthesis.model._estimation import TOLERANCE as TOLERANCE
from skdp.synthesis.model._estimation import fit_model as fit_model
from skdp.synthesis.model._estimation import forbid as forbid
from skdp.synthesis.model._estimation import independent_start as independent_start
from skdp.synthesis.model._graphical_model import MOST_CELLS as MOST_CELLS
from skdp.synthesis.model._graphical_model import Elimination as Elimination
from skdp.synthesis.model._graphical_model import GraphicalModel as GraphicalModel
from skdp.synthesis.model._graphical_model import JunctionTree as JunctionTree
from skdp.synthesis.model._propagation import calibrate as calibrate
from skdp.synthesis.model._propagation import no_potentials as no_potentials
from skdp.synthesis.model._sampling import MOST_REDRAWN as MOST_REDRAWN
from skdp.synthesis.model._sampling import redraw as redraw
from skdp.synthesis.model._sampling import sample as sample
from skdp.synthesis.model._tables import Clique as Clique
from skdp.synthesis.model._tables import Groups as Groups
from skdp.synthesis.model._tables import Marginal as Marginal
from skdp.synthesis.model._tables import count_cells as count_cells
from skdp.synthesis.model._tables import count_pairs as count_pairs
from skdp.synthesis.model._tables import cover as cover
from skdp.synthesis.model._tables import estimate_total as estimate_total
from skdp.synthesis.model._tables import expand as expand
from skdp.synthesis.model._tables import group as group
from skdp.synthesis.model._tables import marginal_shapes as marginal_shapes
from skdp.synthesis.model._tables import merge as merge
from skdp.synthesis.model._tables import project as project
from skdp.synthesis.model._tables import spread as spread
