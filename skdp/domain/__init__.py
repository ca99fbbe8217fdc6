"""The public values of every column, and the way from values to integer codes and back."""

from skdp.domain._bins import Grid as Grid
from skdp.domain._categories import Categories
from skdp.domain._domain import Codes, Domain
from skdp.domain._interval import Interval

__all__ = ["Categories", "Codes", "Domain", "Interval"]
