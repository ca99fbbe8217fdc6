"""Columns of sets: lists of values of a declared domain."""

from skdp.local.sets._encoder import ListEncoder as ListEncoder
from skdp.local.sets._encoder import SetValuedEncoder
from skdp.local.sets._encoder import guarantee_of as guarantee_of
from skdp.local.sets._protocol import ListProtocol as ListProtocol
from skdp.local.sets._protocol import SetPostprocess as SetPostprocess
from skdp.local.sets._protocol import blocks_of as blocks_of
from skdp.local.sets._protocol import check_postprocess as check_postprocess

__all__ = ["SetValuedEncoder"]
