"""A numeric column cut into bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.coding import to_numbers


class Interval:
    """A numeric column cut into bins: half-open, the last one closed.

    Parameters
    ----------
    low, high : float, optional
        The ends of the range, together with `bins`.
    bins : int, optional
        The number of bins of equal width, at least 1.
    edges : sequence of float, optional
        The edges of the bins instead of `low`, `high` and `bins`: at least 2, increasing.
    missing : bool, default=False
        Whether missing is a declared value too: one more cell, after the bins.

    Attributes
    ----------
    edges : tuple of float
        The edges of the bins.
    missing : bool
        As declared.

    Raises
    ------
    ValueError
        If the ends are not finite, not increasing, or given in both ways.

    Examples
    --------
    >>> Interval(edges=[0, 38, 120]).labels
    ('[0, 38)', '[38, 120]')
    >>> Interval(0, 100, bins=4).edges
    (0.0, 25.0, 50.0, 75.0, 100.0)
    >>> Interval(0, 100, bins=2, missing=True).encode(np.array([10.0, np.nan])).tolist()
    [0, 2]
    """

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        bins: int | None = None,
        edges: Sequence[float] | None = None,
        missing: bool = False,
    ) -> None:
        if not isinstance(missing, bool):
            raise TypeError(f"missing must be True or False, got {type(missing).__name__}")
        self.missing = missing
        if (edges is None) == (low is None and high is None and bins is None):
            raise ValueError("Interval takes either edges, or low, high and bins")
        if edges is None:
            if low is None or high is None or not isinstance(bins, int) or isinstance(bins, bool) or bins < 1:
                raise ValueError("Interval takes low, high and a number of bins of at least 1")
            if not (math.isfinite(low) and math.isfinite(high)):
                raise ValueError("Interval needs a finite low and high")
            edges = np.linspace(low, high, bins + 1).tolist()
        self.edges = tuple(float(edge) for edge in edges)
        if len(self.edges) < 2 or not all(map(math.isfinite, self.edges)):
            raise ValueError("Interval needs at least 2 edges, all finite")
        if any(left >= right for left, right in pairwise(self.edges)):
            raise ValueError("the edges of an Interval must increase")

    def __len__(self) -> int:
        return len(self.edges) - 1 + self.missing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and (self.edges, self.missing) == (other.edges, other.missing)

    def __hash__(self) -> int:
        return hash((self.edges, self.missing))

    def __repr__(self) -> str:
        edges = ", ".join(map(_short, self.edges))
        return f"Interval(edges=[{edges}]{', missing=True' if self.missing else ''})"

    @property
    def labels(self) -> tuple[str | None, ...]:  # numpydoc ignore=RT01
        """The bins as text, and None for missing, if it is declared."""
        last = len(self.edges) - 2
        bins = [
            f"[{_short(left)}, {_short(right)}{']' if index == last else ')'}"
            for index, (left, right) in enumerate(pairwise(self.edges))
        ]
        return (*bins, None) if self.missing else tuple(bins)

    @property
    def values(self) -> tuple[float | int | None, ...]:  # numpydoc ignore=RT01
        """The middle of each bin: the number that stands for it, an int where it is whole; None for missing."""
        middles = [(left + right) / 2 for left, right in pairwise(self.edges)]
        whole = [int(middle) if middle.is_integer() else middle for middle in middles]
        return (*whole, None) if self.missing else tuple(whole)

    def encode(self, column: Any) -> NDArray[np.unsignedinteger]:
        """Code a numeric column by bin.

        Parameters
        ----------
        column : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
            The numbers.

        Returns
        -------
        ndarray of unsigned integers
            A bin a number, and the cell after the bins for missing, if it is declared; ``len(self)`` for whatever is
            not declared.

        Raises
        ------
        ColumnError
            If the dtype of the column is not numeric.
        """
        numbers = to_numbers(column)
        # In the column's own precision: 0.3 is an edge for a narrow float that was rounded from 0.3.
        edges = np.array(self.edges, numbers.dtype)
        codes = np.searchsorted(edges, numbers, side="right") - 1
        n_bins = len(self.edges) - 1
        codes[numbers == edges[-1]] = n_bins - 1
        codes[(codes < 0) | (codes == n_bins)] = len(self)
        codes[np.isnan(numbers)] = n_bins if self.missing else len(self)
        return codes.astype(np.min_scalar_type(len(self)))


def _short(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)
