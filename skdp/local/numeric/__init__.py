"""Privatised numbers, their means and distributions."""

from skdp.local.numeric._field import NumberField as NumberField
from skdp.local.numeric._perturber import NumericPerturber

__all__ = ["NumericPerturber"]
