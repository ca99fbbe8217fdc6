"""RAPPOR: the encoder, and estimates from its reports."""

from skdp.local.rappor._encoder import RapporEncoder

__all__ = ["RapporEncoder"]
