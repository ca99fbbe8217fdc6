"""Local protocols for sets of values."""

from skdp.oracles.sets._base import SetOracle as SetOracle
from skdp.oracles.sets._base import fill_sets as fill_sets
from skdp.oracles.sets._base import keep_members as keep_members
from skdp.oracles.sets._base import pad_sets as pad_sets
from skdp.oracles.sets._choice import SET_ORACLES as SET_ORACLES
from skdp.oracles.sets._choice import choose_set_oracle as choose_set_oracle
from skdp.oracles.sets._sampled import SampledSet as SampledSet
from skdp.oracles.sets._selection import SetSelection as SetSelection
from skdp.oracles.sets._unary import SetUnaryEncoding as SetUnaryEncoding
