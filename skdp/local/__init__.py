"""Transformers that privatise each record by itself: the local model, in which nobody needs to be trusted."""

from skdp.local._randomized_response import RandomizedResponseEncoder
from skdp.local._tally import ReportTally

__all__ = ["RandomizedResponseEncoder", "ReportTally"]
