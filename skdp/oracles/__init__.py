"""Frequency oracles: local protocols for one attribute, on integer codes and arrays only."""

from skdp.oracles._base import FrequencyOracle
from skdp.oracles._postprocess import POSTPROCESSORS, project_to_simplex
from skdp.oracles._randomized_response import RandomizedResponse

__all__ = ["POSTPROCESSORS", "FrequencyOracle", "RandomizedResponse", "project_to_simplex"]
