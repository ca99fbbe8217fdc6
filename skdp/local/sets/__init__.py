"""Columns of sets: lists of values of a declared domain."""

from skdp.local.sets._encoder import SetValuedEncoder

__all__ = ["SetValuedEncoder"]
