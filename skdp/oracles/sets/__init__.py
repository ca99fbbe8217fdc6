"""Local protocols for sets of values."""

from skdp.oracles.sets._base import SetOracle, fill_sets, keep_members, pad_sets
from skdp.oracles.sets._choice import SET_ORACLES, choose_set_oracle
from skdp.oracles.sets._sampled import SampledSet
from skdp.oracles.sets._selection import SetSelection
from skdp.oracles.sets._signed import SignedUnaryEncoding
from skdp.oracles.sets._unary import SetUnaryEncoding

__all__ = [
    "SET_ORACLES",
    "SampledSet",
    "SetOracle",
    "SetSelection",
    "SetUnaryEncoding",
    "SignedUnaryEncoding",
    "choose_set_oracle",
    "fill_sets",
    "keep_members",
    "pad_sets",
]
