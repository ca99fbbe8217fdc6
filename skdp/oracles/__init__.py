"""Frequency oracles: local protocols for one attribute, on integer codes and arrays only."""

from skdp.oracles._base import FrequencyOracle
from skdp.oracles._bloom import BloomRandomizer as BloomRandomizer
from skdp.oracles._choice import ORACLES, choose_oracle
from skdp.oracles._choice import names_with as names_with
from skdp.oracles._client import Draws, client_report
from skdp.oracles._count_mean_sketch import CountMeanSketch
from skdp.oracles._hadamard_response import HadamardResponse
from skdp.oracles._hashing import AffineHash, LinearHash, QuadraticHash
from skdp.oracles._local_hashing import LocalHashing
from skdp.oracles._postprocess import POSTPROCESSORS, Postprocess, project_to_simplex
from skdp.oracles._randomized_response import RandomizedResponse
from skdp.oracles._subset_selection import SubsetSelection
from skdp.oracles._support import MAX_REPORT_BYTES as MAX_REPORT_BYTES
from skdp.oracles._support import check_bits as check_bits
from skdp.oracles._support import check_bytes as check_bytes
from skdp.oracles._support import check_size
from skdp.oracles._support import pure_error as pure_error
from skdp.oracles._support import support_variance as support_variance
from skdp.oracles._two_rounds import TwoRounds as TwoRounds
from skdp.oracles._two_rounds import hashing_for_two_rounds as hashing_for_two_rounds
from skdp.oracles._two_rounds import two_rounds as two_rounds
from skdp.oracles._unary_encoding import UnaryEncoding
from skdp.oracles.numeric import ClampedLaplace, NumericMechanism, Optimal, Windows
from skdp.oracles.sets import SET_ORACLES as SET_ORACLES
from skdp.oracles.sets import (
    SampledSet,
    SetOracle,
    SetSelection,
    SetUnaryEncoding,
    choose_set_oracle,
)
from skdp.oracles.sets import pad_sets as pad_sets
from skdp.oracles.sums import lower_tail as lower_tail
from skdp.oracles.sums import upper_tail as upper_tail

__all__ = [
    "ORACLES",
    "POSTPROCESSORS",
    "AffineHash",
    "ClampedLaplace",
    "CountMeanSketch",
    "Draws",
    "FrequencyOracle",
    "HadamardResponse",
    "LinearHash",
    "LocalHashing",
    "NumericMechanism",
    "Optimal",
    "Postprocess",
    "QuadraticHash",
    "RandomizedResponse",
    "SampledSet",
    "SetOracle",
    "SetSelection",
    "SetUnaryEncoding",
    "SubsetSelection",
    "UnaryEncoding",
    "Windows",
    "check_size",
    "choose_oracle",
    "choose_set_oracle",
    "client_report",
    "project_to_simplex",
]
