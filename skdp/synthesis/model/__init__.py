"""Graphical models of tables: inference and sampling."""

from skdp.synthesis.model._elimination import Elimination, eliminate
from skdp.synthesis.model._graphical_model import MOST_CELLS, GraphicalModel, JunctionTree, Link
from skdp.synthesis.model._inference import TOLERANCE, fit_model, independent_start, potentials_of
from skdp.synthesis.model._propagation import calibrate
from skdp.synthesis.model._sampling import MOST_REDRAWN, redraw, sample
from skdp.synthesis.model._tables import (
    Clique,
    Groups,
    Marginal,
    count_cells,
    count_pairs,
    cover,
    estimate_total,
    expand,
    group,
    merge,
    project,
    spread,
)

__all__ = [
    "MOST_CELLS",
    "MOST_REDRAWN",
    "TOLERANCE",
    "Clique",
    "Elimination",
    "GraphicalModel",
    "Groups",
    "JunctionTree",
    "Link",
    "Marginal",
    "calibrate",
    "count_cells",
    "count_pairs",
    "cover",
    "eliminate",
    "estimate_total",
    "expand",
    "fit_model",
    "group",
    "independent_start",
    "merge",
    "potentials_of",
    "project",
    "redraw",
    "sample",
    "spread",
]
