"""Columns of pairs: keys of a declared domain, each with a number between declared bounds."""

from skdp.local.pairs._encoder import KeyValueEncoder
from skdp.local.pairs._tally import PairTally

__all__ = ["KeyValueEncoder", "PairTally"]
