"""Frequency oracles: local protocols for one attribute, on integer codes and arrays only."""

from skdp.oracles._base import FrequencyOracle
from skdp.oracles._choice import ORACLES, choose_oracle
from skdp.oracles._count_mean_sketch import CountMeanSketch
from skdp.oracles._hadamard_response import HadamardResponse
from skdp.oracles._hashing import AffineHash, QuadraticHash
from skdp.oracles._local_hashing import LocalHashing
from skdp.oracles._numeric import NumericMechanism
from skdp.oracles._numeric_hybrid import Duchi, Hybrid
from skdp.oracles._numeric_laplace import ClampedLaplace
from skdp.oracles._numeric_window import Piecewise, SquareWave
from skdp.oracles._parameters import check_size
from skdp.oracles._postprocess import POSTPROCESSORS, project_to_simplex
from skdp.oracles._randomized_response import RandomizedResponse
from skdp.oracles._subset_selection import SubsetSelection
from skdp.oracles._unary_encoding import UnaryEncoding

__all__ = [
    "ORACLES",
    "POSTPROCESSORS",
    "AffineHash",
    "ClampedLaplace",
    "CountMeanSketch",
    "Duchi",
    "FrequencyOracle",
    "HadamardResponse",
    "Hybrid",
    "LocalHashing",
    "NumericMechanism",
    "Piecewise",
    "QuadraticHash",
    "RandomizedResponse",
    "SquareWave",
    "SubsetSelection",
    "UnaryEncoding",
    "check_size",
    "choose_oracle",
    "project_to_simplex",
]
