"""The declared values of one column: a list, or bins of numbers or dates."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.coding import (
    ValueCoder,
    check_dtype,
    is_missing,
    kind_of,
    plain,
    to_dates,
    to_numbers,
)
from skdp.domain._bins import find_bins
from skdp.domain._edges import Edge, even_edges, read_edges

FEW = 8
"""The most values of a column that are shown."""

_LONGEST = 200  # characters of a value that are shown


class Categories:
    """The declared values of one column, in order.

    Parameters
    ----------
    values : iterable
        At least one; all of one kind (strings, numbers, booleans, …). None (or nan, or ``pd.NA``) declares missing as a
        value.

    Attributes
    ----------
    values : tuple
        The values as plain Python objects, None for missing.

    Raises
    ------
    TypeError
        If the values are not a collection of hashable scalars, or of several kinds.
    ValueError
        If there is no value, a duplicate (1 and 1.0 are one), or a number that is not finite.

    Examples
    --------
    >>> from skdp.domain import Categories
    >>> Categories(["no", "yes", None]).values
    ('no', 'yes', None)
    """

    observed = False  # True once the values were read from private data

    def __init__(self, values: Iterable[Any]) -> None:
        # The order of a set changes from one process to the next, and with it every code.
        if isinstance(values, str | bytes | Mapping | Set) or not isinstance(
            values, Iterable
        ):
            raise TypeError(f"expected a list of values, got {type(values).__name__}")
        self.values = tuple(plain(value) for value in values)
        known = [value for value in self.values if value is not None]
        if not self.values:
            raise ValueError("expected at least one value")
        kinds = sorted({kind_of(value) for value in known})
        if len(kinds) > 1:
            raise TypeError(f"expected values of one kind, got {' and '.join(kinds)}")
        if not all(map(_is_finite, known)):
            raise ValueError(
                "expected finite numbers, got one that is infinite, or beyond the range of floats"
            )
        odd = [
            type(value).__name__
            for value in self.values
            if not isinstance(value, Hashable)
        ]
        if odd:
            raise TypeError(
                f"expected text, numbers, dates or other scalars, got {odd[0]}"
            )
        if len(set(self.values)) < len(self.values):
            raise ValueError("expected distinct values, got duplicates")
        self._coder = ValueCoder(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categories) and _typed(self.values) == _typed(
            other.values
        )

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        if self.observed:
            return f"[{len(self)} values, read from the data]"
        return _few(list(map(repr, self.values[: FEW + 1])))

    @property
    def labels(self) -> tuple[Any, ...]:  # numpydoc ignore=RT01
        """The values themselves."""
        return self.values

    def encode(self, column: Any) -> NDArray[np.unsignedinteger]:
        """Encode a column by value.

        Parameters
        ----------
        column : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
            The values.

        Returns
        -------
        ndarray of unsigned integers
            The position of each value, ``len(self)`` for values that are not declared.

        Raises
        ------
        ColumnError
            If the column has a dtype that can hold none of the values, such as integers where text is declared.
        """
        check_dtype(column, self._coder, shown=repr(self))
        return self._coder.encode(column)


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, Real) or math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of floats
        return False


def _typed(values: tuple[Any, ...]) -> list[tuple[str, Any]]:
    return [
        ("missing" if is_missing(value) else kind_of(value), value) for value in values
    ]


_DTYPES = {
    "number": np.dtype(float),
    "date": np.dtype("datetime64[D]"),
    "datetime": np.dtype("datetime64[us]"),
}
MOST_DECIMALS, LARGEST_STEP = 15, 2.0**52
"""Limits on decimals, and on the whole number of steps from 0 to an end: floats tell them apart up to there."""

MOST_BINS = 1 << 22
"""Limit for an interval declared by its ends: a short file could otherwise ask for any amount of memory."""


class Interval:
    """A column of numbers or dates cut into bins: half-open, the last one closed.

    Parameters
    ----------
    low, high : float, date or datetime, optional
        The ends of the range, together with `bins`: both numbers, both dates, or both datetimes (without a time zone).
    bins : int, optional
        The number of bins, from 1 to 2**22. Bins of numbers have equal widths. Bins of dates have equal numbers of
        months, if the range is a whole number of months that `bins` divides and does not start on the 29th or later;
        otherwise equal widths, rounded down to days or microseconds.
    edges : sequence of float, date or datetime, optional
        The edges of the bins, instead of `low`, `high` and `bins`: at least 2, increasing, all of one kind.
    missing : bool, default=False
        Whether missing is a declared value: one more cell, after the bins.
    real : bool, default=False
        Whether the numbers have fractions even if all edges are whole. Otherwise, numbers that are drawn are whole.
    decimals : int, optional
        The number of decimals that the numbers have, from 0 to 15: those that are drawn have no more. 0 is for whole
        numbers, also between edges that are not. By default any number, or none if all edges are whole and `real` is
        not set.

    Attributes
    ----------
    edges : tuple of float, date or datetime
        The edges of the bins.
    missing : bool
        As declared.
    real : bool
        Whether the numbers have fractions, as declared, or because an edge has.
    decimals : int or None
        As declared; 0 also where `real` is False, None where any number of decimals may occur.

    Raises
    ------
    TypeError
        If an edge is not a number, date or datetime, or edges are of several kinds.
    ValueError
        If the ends are not finite, not increasing, or given in both ways, or datetimes have a time zone or nanoseconds;
        if `decimals` is out of range, is more than floats hold at the ends, or contradicts `real`.

    Notes
    -----
    Edges that are dates count days: a time is in the bin of its day, and the last bin includes the whole day of its
    end. Edges that are datetimes count microseconds: a date is its midnight.

    Examples
    --------
    >>> Interval(edges=[0, 38, 120]).labels
    ('[0, 38)', '[38, 120]')
    >>> Interval(0, 100, bins=4).edges
    (0.0, 25.0, 50.0, 75.0, 100.0)
    >>> Interval(0, 60, bins=20, decimals=2).real
    True
    >>> Interval(0, 100, bins=2, missing=True).encode(np.array([10.0, np.nan])).tolist()
    [0, 2]
    >>> from datetime import date
    >>> years = Interval(date(2000, 1, 1), date(2003, 1, 1), bins=3)
    >>> years.labels
    ('[2000-01-01, 2001-01-01)', '[2001-01-01, 2002-01-01)', '[2002-01-01, 2003-01-01]')
    >>> years.encode(np.array([date(2000, 12, 31), date(2001, 1, 1)])).tolist()
    [0, 1]
    """

    observed = False  # True once the ends were read from private data

    def __init__(
        self,
        low: Edge | None = None,
        high: Edge | None = None,
        *,
        bins: int | None = None,
        edges: Sequence[Edge] | None = None,
        missing: bool = False,
        real: bool = False,
        decimals: int | None = None,
    ) -> None:
        if not isinstance(missing, bool):
            raise TypeError(
                f"missing must be True or False, got {type(missing).__name__}"
            )
        if not isinstance(real, bool):
            raise TypeError(f"real must be True or False, got {type(real).__name__}")
        self.missing = missing
        if (edges is None) == (low is None and high is None and bins is None):
            raise ValueError("Interval takes either edges, or low, high and bins")
        if edges is None:
            if low is None or high is None or bins is None:
                raise ValueError(
                    "Interval takes either edges, or low, high and bins: all three"
                )
            if (
                isinstance(bins, bool | np.bool_)
                or not isinstance(bins, Integral)
                or bins < 1
            ):
                raise ValueError(
                    f"bins of an Interval must be a whole number of at least 1, got {bins!r}"
                )
            bins = int(bins)
            if bins > MOST_BINS:
                raise ValueError(
                    f"Interval takes at most {MOST_BINS:,} bins, got {bins:,}"
                )
            first, last = read_edges([low, high], "low and high")
            edges = even_edges(first, last, bins)
        self.edges = read_edges(edges, "the edges")
        if len(self.edges) < 2:
            raise ValueError("Interval needs at least 2 edges")
        if any(left >= right for left, right in pairwise(self.edges)):
            raise ValueError("the edges of an Interval must increase")
        if real and not isinstance(self.edges[0], float):
            raise ValueError(
                "real is for numbers; the edges of this Interval are dates"
            )
        fractional = any(
            isinstance(edge, float) and not edge.is_integer() for edge in self.edges
        )
        if decimals is not None:
            self._check_decimals(decimals, real)
        self._declared_decimals = None if decimals is None else int(decimals)
        self.real = real or fractional if decimals is None else decimals > 0
        self.decimals = (
            0
            if not self.real and isinstance(self.edges[0], float)
            else self._declared_decimals
        )

    def _check_decimals(self, decimals: Any, real: bool) -> None:
        if not isinstance(self.edges[0], float):
            raise ValueError(
                "decimals is for numbers; the edges of this Interval are dates"
            )
        if isinstance(decimals, bool | np.bool_) or not isinstance(decimals, Integral):
            raise TypeError(
                f"decimals of an Interval must be a whole number or None, got {type(decimals).__name__}"
            )
        if not 0 <= int(decimals) <= MOST_DECIMALS:
            raise ValueError(
                f"decimals of an Interval must be from 0 to {MOST_DECIMALS}, got {decimals}"
            )
        if real and decimals == 0:
            raise ValueError(
                "decimals=0 declares whole numbers, but real=True numbers with fractions: leave one out"
            )
        largest = max(abs(self.edges[0]), abs(self.edges[-1]))
        if int(decimals) > 0 and largest * 10.0 ** int(decimals) > LARGEST_STEP:
            raise ValueError(
                f"floats up to {_short(largest)} hold fewer than {decimals} decimals; declare fewer, or real=True for "
                "any"
            )

    def __len__(self) -> int:
        return len(self.edges) - 1 + self.missing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.edges, self.missing, self.real, self.decimals

    def __repr__(self) -> str:
        if self.observed:
            return f"Interval({len(self)} bins, read from the data)"
        edges = _few(
            [
                _short(edge) if isinstance(edge, float) else repr(edge)
                for edge in self.edges[: FEW + 1]
            ]
        )
        flags = ", missing=True" * self.missing + ", real=True" * self.says_real
        if self.says_decimals is not None:
            flags += f", decimals={self.says_decimals}"
        return f"Interval(edges={edges}{flags})"

    @property
    def says_real(self) -> bool:  # numpydoc ignore=RT01
        """Whether the numbers are declared to have fractions that the edges do not show."""
        whole = all(
            isinstance(edge, float) and edge.is_integer() for edge in self.edges
        )
        return self.real and whole and self.decimals is None

    @property
    def says_decimals(self) -> int | None:  # numpydoc ignore=RT01
        """The number of decimals, if it is declared and not what the edges show."""
        whole = all(
            isinstance(edge, float) and edge.is_integer() for edge in self.edges
        )
        return None if self.decimals == 0 and whole else self._declared_decimals

    @property
    def dtype(self) -> np.dtype[Any]:  # numpydoc ignore=RT01
        """The dtype in which values are compared with the edges: ``float64``, ``datetime64[D]`` or ``[us]``."""
        return _DTYPES[kind_of(self.edges[0])]

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
    def values(self) -> tuple[Edge | int | None, ...]:  # numpydoc ignore=RT01
        """The middle of each bin, which represents it, as an int if it is whole; None for missing."""
        middles = [_middle(left, right) for left, right in pairwise(self.edges)]
        return (*middles, None) if self.missing else tuple(middles)

    def read(self, column: Any) -> NDArray[Any]:
        """Read a column as values that can be compared with the edges.

        Parameters
        ----------
        column : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
            The numbers or dates.

        Returns
        -------
        ndarray
            Of `dtype`, or narrower floats if the column has them; nan or NaT for missing.

        Raises
        ------
        ColumnError
            If the column is not numeric, or not one of dates.
        """
        return (
            to_numbers(column)
            if self.dtype.kind == "f"
            else to_dates(column, self.dtype)
        )

    def encode(self, column: Any) -> NDArray[np.unsignedinteger]:
        """Encode a column of numbers or dates by bin.

        Parameters
        ----------
        column : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
            The numbers or dates.

        Returns
        -------
        ndarray of unsigned integers
            The bin of each value, the cell after the bins for missing if it is declared, and ``len(self)`` for values
            that are not declared.

        Raises
        ------
        ColumnError
            If the column is not numeric, or not one of dates.
        """
        values = self.read(column)
        # In the precision of the column: a narrow float rounded from 0.3 is equal to the edge 0.3.
        edges = np.array(self.edges, values.dtype)
        missing = len(self.edges) - 1 if self.missing else len(self)
        return find_bins(values, edges, len(self), missing)


def _middle(left: Any, right: Any) -> Edge | int:
    if not isinstance(left, float):
        return left + (right - left) // 2
    middle = (left + right) / 2
    return int(middle) if middle.is_integer() else middle


def _few(texts: list[str]) -> str:
    """Write the first of some texts as a list."""
    few = [
        text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        for text in texts[:FEW]
    ]
    return f"[{', '.join([*few, '…'] if len(texts) > FEW else few)}]"


def _short(edge: Any) -> str:
    if not isinstance(edge, float):
        return edge.isoformat()
    return str(int(edge)) if edge.is_integer() else repr(edge)
