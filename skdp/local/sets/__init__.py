"""Columns of sets: lists of values of a declared domain."""

from skdp.local.sets._encoder import SetValuedEncoder
from skdp.local.sets._encoder import check_limits as check_limits
from skdp.local.sets._encoder import guarantee_of as guarantee_of
from skdp.local.sets._encoder import read_lists_domain as read_lists_domain
from skdp.local.sets._encoder import read_sizes as read_sizes
from skdp.local.sets._encoder import row_of_lists as row_of_lists
from skdp.local.sets._protocol import SetPostprocess as SetPostprocess
from skdp.local.sets._protocol import blocks_of as blocks_of
from skdp.local.sets._protocol import check_postprocess as check_postprocess

__all__ = ["SetValuedEncoder"]
