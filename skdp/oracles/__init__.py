"""Frequency oracles and numeric mechanisms: local protocols for arrays of integers."""

from skdp.oracles._bits import SubsetSelection, UnaryEncoding
from skdp.oracles._bits import TwoRoundUnaryEncoding as TwoRoundUnaryEncoding
from skdp.oracles._choice import ORACLES as ORACLES
from skdp.oracles._choice import choose_oracle as choose_oracle
from skdp.oracles._hashing import LocalHashing
from skdp.oracles._numeric_mechanisms import NumericMechanism
from skdp.oracles._numeric_mechanisms import Optimal as Optimal
from skdp.oracles._numeric_mechanisms import SquareWave as SquareWave
from skdp.oracles._oracle import POSTPROCESSORS as POSTPROCESSORS
from skdp.oracles._oracle import (
    FrequencyOracle,
    lie_threshold,
    project_to_simplex,
)
from skdp.oracles._randomized_response import RandomizedResponse
from skdp.oracles._sets import SetSelection

__all__ = [
    "FrequencyOracle",
    "LocalHashing",
    "NumericMechanism",
    "RandomizedResponse",
    "SetSelection",
    "SubsetSelection",
    "UnaryEncoding",
    "lie_threshold",
    "project_to_simplex",
]
