"""Find the bins of numbers or dates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 15
"""Rows per block, so that intermediate results stay in the cache."""


def find_bins(
    values: NDArray[Any], edges: NDArray[Any], outside: int, missing: int
) -> NDArray[np.unsignedinteger]:
    """Find the bin of each value."""
    out = np.empty(values.size, np.min_scalar_type(max(outside, missing)))
    guess = _Guess.of(edges)
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK]
        codes = (
            np.searchsorted(edges, block, side="right") - 1
            if guess is None
            else guess.correct(block, edges)
        )
        np.minimum(codes, edges.size - 2, out=codes)  # the last bin is closed
        inside = (block >= edges[0]) & (block <= edges[-1])
        if not inside.all():
            codes[~inside] = outside
            codes[np.isnan(block)] = missing
        out[start : start + _BLOCK] = codes
    return out


class _Guess:
    """Bins of about equal width: arithmetic finds the bin of a value up to one bin."""

    def __init__(self, low: float, scale: float, last: int) -> None:
        self.low, self.scale, self.last = low, scale, last

    @classmethod
    def of(cls, edges: NDArray[Any]) -> _Guess | None:
        """Return the guess for some edges, None if it could be wrong by more than one bin."""
        low, bins = edges[0], edges.size - 1
        with np.errstate(all="ignore"):
            scale = bins / (edges[-1] - low) if edges.dtype == np.float64 else np.nan
            found = (
                (edges - low) * scale
                if np.isfinite(scale)
                else np.full(edges.size, np.nan)
            )
        # Rounding is monotone, so an error of a quarter of a bin at the edges is below one bin between them.
        even = bool((np.abs(found - np.arange(edges.size)) < 0.25).all())
        return cls(float(low), float(scale), bins - 1) if even else None

    def correct(
        self, block: NDArray[np.float64], edges: NDArray[np.float64]
    ) -> NDArray[np.intp]:
        """Return the bins of values, -1 or the number of bins beyond the ends; arbitrary for nan."""
        with np.errstate(all="ignore"):
            places = block - self.low
            places *= self.scale
        np.fmax(places, 0.0, out=places)  # nan gets a place too
        np.fmin(places, self.last, out=places)
        codes = places.astype(np.intp)
        below = block < edges[codes]
        codes += block >= edges[codes + 1]
        codes -= below
        return codes


class Grid(NamedTuple):
    """Bins of equal width that a database finds by arithmetic instead of comparison with each edge."""

    # With ``k = floor((x - low) * scale)``, a value between the first and the last edge is in bin ``k - (x < k * width
    # + low)``, or in the last bin if that equals the number of bins. The number is negative below the first edge, and
    # at least that of the last bin above the last edge.

    low: float
    scale: float
    width: float

    @classmethod
    def of(cls, edges: NDArray[np.float64]) -> Grid | None:
        """Return the grid of some edges, None if the arithmetic is not exact."""
        bins, places = edges.size - 1, np.arange(edges.size)
        with np.errstate(all="ignore"):
            width = (edges[-1] - edges[0]) / bins
            scale = (
                1 + 2.0**-50
            ) / width  # rounded up: k is at most one too high, never too low
            found = np.floor((edges - edges[0]) * scale)
            # Rounding is monotone: what holds at both edges of a bin holds between them.
            exact = (places * width + edges[0] == edges)[:-1].all() and (
                found == places
            )[:-1].all()
        return (
            cls(float(edges[0]), float(scale), float(width))
            if exact and found[-1] <= bins
            else None
        )
