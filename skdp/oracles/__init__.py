"""Frequency oracles: local protocols for one attribute, on integer codes and arrays only."""

from skdp.oracles._base import FrequencyOracle
from skdp.oracles._count_mean_sketch import CountMeanSketch
from skdp.oracles._hadamard_response import HadamardResponse
from skdp.oracles._hashing import AffineHash, QuadraticHash
from skdp.oracles._local_hashing import LocalHashing
from skdp.oracles._postprocess import POSTPROCESSORS, project_to_simplex
from skdp.oracles._randomized_response import RandomizedResponse
from skdp.oracles._subset_selection import SubsetSelection
from skdp.oracles._unary_encoding import UnaryEncoding

__all__ = [
    "POSTPROCESSORS",
    "AffineHash",
    "CountMeanSketch",
    "FrequencyOracle",
    "HadamardResponse",
    "LocalHashing",
    "QuadraticHash",
    "RandomizedResponse",
    "SubsetSelection",
    "UnaryEncoding",
    "project_to_simplex",
]
