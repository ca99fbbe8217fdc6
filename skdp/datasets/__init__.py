"""Public tables with protected columns: Adult, ACS Public Coverage, LSAC and COMPAS."""

from skdp.datasets._adult import load_adult, load_adult_aif360
from skdp.datasets._fairness import load_acs_public_coverage, load_compas, load_lsac

__all__ = [
    "load_acs_public_coverage",
    "load_adult",
    "load_adult_aif360",
    "load_compas",
    "load_lsac",
]
