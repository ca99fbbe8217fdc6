"""Privatised numbers, their means and distributions."""

from skdp.local.numeric._perturber import NumericPerturber
from skdp.local.numeric._protocol import NumericProtocol as NumericProtocol

__all__ = ["NumericPerturber"]
