"""Privatised numbers, their means and distributions."""

from skdp.local.numeric._field import NumberField as NumberField
from skdp.local.numeric._perturber import NumericPerturber
from skdp.local.numeric._perturber import numeric_mechanism as numeric_mechanism

__all__ = ["NumericPerturber"]
