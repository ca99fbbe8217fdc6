"""Domains of which only the bounds of numbers are declared."""

from skdp import Domain, Interval
from skdp.domain import drop_bins


def bounds_only(declared, bins="found"):
    """Drop the bins of a domain, or keep it if `bins` is "declared"."""
    if bins == "declared":
        return declared
    columns = {name: drop_bins(x) if isinstance(x, Interval) else x for name, x in declared.items()}
    if not isinstance(declared, Domain):
        return columns
    return Domain(columns, constraints=declared.constraints, derived=declared.derived)
