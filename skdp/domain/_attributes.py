"""The declared values of one column: a list of values, or bins of numbers or dates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._json import read_value, register_type, write_value
from skdp.domain._bins import (
    Edge,
    edge_text,
    encode_numbers,
    even_edges,
    read_edges,
    shortest_edge,
)
from skdp.tables import (
    ValueCoder,
    is_declarable,
    is_whole_number,
    kind_of,
    kinds_of,
    plain,
    present,
    shielded,
    to_dates,
    to_numbers,
)

# Maximum number of values of a column in a message or repr.
MAX_SHOWN_VALUES = 8

_MAX_SHOWN_CHARACTERS = 200  # characters of a value that are shown


class Categories:
    """The declared values of one column, in order.

    Parameters
    ----------
    values : iterable
        At least one; all of one kind (strings, numbers, booleans, …). None (or nan, or
        ``pd.NA``) declares missing as a value.
    ordered : bool, default=False
        Whether they are listed in an order in which neighbours are alike, such as
        grades: `DPMarginalSynthesizer` counts rare ones together with their neighbours,
        additive models smooth over neighbours, and `DPHistogram` may count groups of
        them. There, numbers and dates are in order if they are listed from the least
        to the largest, and not otherwise.
        It is not read from the dtype of the data.

    Attributes
    ----------
    values : tuple
        The values as plain Python objects, None for missing.
    ordered : bool
        As declared.

    Raises
    ------
    TypeError
        If the values are not a collection of hashable scalars, are of several kinds, or
        hold an `Interval`.
    ValueError
        If there is no value, a duplicate (1 and 1.0 are one), a number that is not
        finite, or an object that raises an error when it is hashed or compared.

    Examples
    --------
    >>> from skdp.domain import Categories
    >>> Categories(["no", "yes", None]).values
    ('no', 'yes', None)
    """

    observed = False  # True once the values were read from private data

    def __init__(self, values: Iterable[Any], *, ordered: bool = False) -> None:
        # The order of a set changes from one process to the next, and with it every
        # code.
        is_unordered = isinstance(values, str | bytes | Mapping | Set)
        if is_unordered or not isinstance(values, Iterable):
            raise TypeError(f"expected a list of values, got {type(values).__name__}")
        values = tuple(values)
        for value in values:
            if not is_declarable(value):
                raise TypeError(
                    "expected text, numbers, dates or other scalars, "
                    f"got {type(value).__name__}"
                )
        # What objects of other classes raise may hold a value, which may be private.
        self.values = shielded(tuple, map(plain, values))
        error = shielded(_error_of, self.values)
        if error is not None:
            raise error
        if not isinstance(ordered, bool):
            raise TypeError(f"ordered must be True or False, got {_type(ordered)}")
        self.ordered = ordered
        self._coder = shielded(ValueCoder, self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Categories) or self.ordered != other.ordered:
            return False
        return _typed(self.values) == _typed(other.values)

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        if self.observed:
            return f"[{len(self)} values, read from the data]"
        values = _few(list(map(repr, self.values[: MAX_SHOWN_VALUES + 1])))
        return f"Categories({values}, ordered=True)" if self.ordered else values

    def _declaration(self) -> dict[str, Any]:
        """Return the table of a domain file: the values, and the position of missing, True at their end."""
        values = present(self.values)
        declaration: dict[str, Any] = {"values": values}
        if len(values) < len(self.values):
            position = self.values.index(None)
            declaration["missing"] = position == len(values) or position
        if self.ordered:
            declaration["ordered"] = True
        return declaration

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
            If the column has a dtype that can hold none of the values, such as integers
            where text is declared.
        """
        self._coder.check_dtype(column, declared=repr(self))
        return self._coder.encode(column)


def _error_of(values: tuple[Any, ...]) -> TypeError | ValueError | None:
    """Return the error of values that cannot be declared together."""
    if not values:
        return ValueError("expected at least one value")
    if any(isinstance(value, Interval) for value in values):
        return TypeError(
            "an Interval is declared alone, not in a list of values: write "
            "Interval(..., missing=True) for numbers that may be missing"
        )
    kinds = kinds_of(values)
    if len(kinds) > 1:
        return TypeError(
            f"expected values of one kind, got {' and '.join(sorted(kinds))}"
        )
    if not all(map(_is_finite, values)):
        return ValueError(
            "expected finite numbers, got one that is infinite, "
            "or beyond the range of floats"
        )
    if len(set(values)) < len(values):
        return ValueError("expected distinct values, got duplicates")
    return None


def _is_finite(value: Any) -> bool:
    """Return False for numbers that are nan or infinite."""
    try:
        return not isinstance(value, Real) or math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of floats
        return False


def _typed(values: tuple[Any, ...]) -> list[tuple[str, Any]]:
    # Values are plain objects, so None is the only missing one.
    return list(zip(map(kind_of, values), values, strict=True))


_DTYPES = {
    "number": np.dtype(float),
    "date": np.dtype("datetime64[D]"),
    "datetime": np.dtype("datetime64[us]"),
}

# All decimal numbers of so many digits are distinct floats.
_MAX_DECIMALS = 15

# Largest number of steps from 0 to a bound: up to it, floats represent half steps.
_MAX_STEP = 2.0**52

# Largest number of bins of an interval declared by its bounds: without it, a short file
# could ask for any amount of memory.
MAX_BINS = 1 << 22


_DEFAULT_BINS = 10


class Interval:
    """Numbers or dates in bins: half-open, the last bin closed.

    Numbers are whole by default if all edges are whole, or if `low` and `high` are and
    no bin is narrower than 1, as in ``Interval(18, 100, bins=20)`` for ages. Otherwise,
    as in ``Interval(0, 1, bins=10)``, they may have any fractions. The dtype of a table
    has no part in this. Where numbers are whole, numbers with a fraction are counted in
    their bin, and drawn numbers are whole: declare `decimals` or `real` to draw
    fractions, as ``decimals=2`` for amounts such as 19.75, or ``real=True`` for any.

    Parameters
    ----------
    low, high : float, date or datetime, optional
        The ends of the range: both numbers, both dates, or both datetimes (without a
        time zone). A sequence as the first argument is `edges`.
    bins : int, default=10
        The number of bins between `low` and `high`, from 1 to 2**22. Bins of numbers have equal widths: their
        edges are the floats nearest to decimal fractions, as 0.3 for the third edge of
        10 bins from 0 to 1. Bins of dates have equal numbers of months, if the range is a whole number of months
        that `bins` divides and does not start on the 29th or later; otherwise equal
        widths, rounded down to days or microseconds.
    edges : sequence of float, date or datetime, optional
        The edges of the bins, in place of `low`, `high` and `bins`: at least 2,
        increasing, all of one kind.
    missing : bool, default=False
        Whether missing is a declared value: one more cell, after the bins.
    real : bool, default=False
        If True, the numbers have fractions where they would be whole by default:
        `DPMarginalSynthesizer` draws whole numbers for whole ones.
    decimals : int, optional
        The number of decimals of the numbers, from 0 to 15; synthetic numbers have no
        more. 0 is for whole numbers; of 1 or more, `DPMarginalSynthesizer`
        takes numbers with more decimals for undeclared. By default any number, or 0 for
        numbers that are whole by default.

    Attributes
    ----------
    edges : tuple of float, date or datetime
        The edges of the bins.
    missing : bool
        As declared.
    real : bool
        Whether the numbers have fractions, as declared or by default.
    decimals : int or None
        As declared; 0 also where `real` is False, None where any number of decimals may
        occur.

    Raises
    ------
    TypeError
        If an edge is not a number, date or datetime, or edges are of several kinds.
    ValueError
        If the ends are not finite, not increasing, or given in both ways, or datetimes
        have a time zone or nanoseconds; if `decimals` is out of range, is more than
        floats hold at the ends, or contradicts `real`.

    Notes
    -----
    Edges that are dates count days: a time is in the bin of its day, and the last bin
    includes the whole day of its end. Edges that are datetimes count microseconds: a
    date is its midnight.

    Examples
    --------
    >>> Interval([0, 38, 120]).labels
    ('[0, 38)', '[38, 120]')
    >>> len(Interval(16, 70))
    10
    >>> Interval(0, 100, bins=4).edges
    (0.0, 25.0, 50.0, 75.0, 100.0)
    >>> Interval(0, 60, bins=20, decimals=2).real
    True
    >>> Interval(18, 100, bins=20).real, Interval(0, 1, bins=10).real
    (False, True)
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
        low: Edge | Sequence[Edge] | None = None,
        high: Edge | None = None,
        *,
        bins: int | None = None,
        edges: Sequence[Edge] | None = None,
        missing: bool = False,
        real: bool = False,
        decimals: int | None = None,
    ) -> None:
        for name, flag in (("missing", missing), ("real", real)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} must be True or False, got {_type(flag)}")
        if np.iterable(low) and not isinstance(low, str) and edges is None:
            low, edges = None, low
        # Either edges, or bounds with an optional number of bins.
        are_ends = low is not None or high is not None or bins is not None
        if are_ends == (edges is not None):
            raise ValueError(
                "Interval requires either edges, or low and high; bins is for low and "
                "high alone"
            )
        if edges is None:
            bins = _DEFAULT_BINS if bins is None else bins
            edges = _edges_between(low, high, bins)
        self.edges = read_edges(edges, "the edges")
        if len(self.edges) < 2:
            raise ValueError("Interval needs at least 2 edges")
        if any(low >= high for low, high in pairwise(self.edges)):
            raise ValueError("the edges of an Interval must increase")
        self.missing = missing
        self.real = False
        self.decimals: int | None = None
        if isinstance(self.edges[0], float):
            if decimals is not None:
                self._check_decimals(decimals, real)
                self.decimals = int(decimals)
                self.real = self.decimals > 0
            else:
                is_whole = _are_whole(self.edges)
                if bins is not None:
                    is_whole = is_whole or _have_whole_bounds(self.edges)
                self.real = real or not is_whole
                self.decimals = None if self.real else 0
        elif real or decimals is not None:
            name = "real" if real else "decimals"
            raise ValueError(
                f"{name} is for numbers; the edges of this Interval are dates"
            )

    def _check_decimals(self, decimals: Any, real: bool) -> None:
        if not is_whole_number(decimals):
            raise TypeError(
                "decimals of an Interval must be a whole number or None, "
                f"got {_type(decimals)}"
            )
        if not 0 <= int(decimals) <= _MAX_DECIMALS:
            raise ValueError(
                f"decimals of an Interval must be from 0 to {_MAX_DECIMALS}, "
                f"got {decimals}"
            )
        if real and decimals == 0:
            raise ValueError(
                "decimals=0 declares whole numbers, "
                "but real=True numbers with fractions: leave one out"
            )
        largest = max(abs(self.edges[0]), abs(self.edges[-1]))
        if int(decimals) > 0 and largest * 10.0 ** int(decimals) > _MAX_STEP:
            raise ValueError(
                f"floats up to {edge_text(largest)} hold fewer than {decimals} "
                "decimals; declare fewer, or real=True for any"
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
        is_numeric = isinstance(self.edges[0], float)
        edges = self.edges[: MAX_SHOWN_VALUES + 1]
        texts = list(map(edge_text if is_numeric else repr, edges))
        flags = ", missing=True" if self.missing else ""
        for name, value in self._precision(_are_whole(self.edges)).items():
            flags += f", {name}={value}"
        return f"Interval(edges={_few(texts)}{flags})"

    def _declaration(self) -> dict[str, Any]:
        """Return the arguments of an equal interval: few if its bins are even, and whole numbers as int."""
        low, high = self.edges[0], self.edges[-1]
        bins = len(self.edges) - 1
        # Bounds and a number of bins are shorter than edges, if they give the same edges.
        declaration: dict[str, Any] = {"edges": list(map(shortest_edge, self.edges))}
        with np.errstate(all="ignore"):
            are_even = tuple(even_edges(low, high, bins)) == self.edges
        if are_even:
            ends = {"low": shortest_edge(low), "high": shortest_edge(high)}
            declaration = {**ends, "bins": bins}
        if self.missing:
            declaration["missing"] = True
        is_whole = _are_whole(self.edges)
        is_whole = is_whole or (are_even and _have_whole_bounds(self.edges))
        return declaration | self._precision(is_whole)

    def _precision(self, is_whole: bool) -> dict[str, Any]:
        """Return the arguments for the precision of numbers that differ from the default."""
        if self.real and self.decimals is None:
            return {"real": True} if is_whole else {}
        if self.real or not is_whole:
            return {"decimals": self.decimals}
        return {}

    @property
    def dtype(self) -> np.dtype[Any]:  # numpydoc ignore=RT01
        """The dtype in which values are compared with the edges: ``float64``, ``datetime64[D]`` or ``[us]``."""
        return _DTYPES[kind_of(self.edges[0])]

    @property
    def labels(self) -> tuple[str | None, ...]:  # numpydoc ignore=RT01
        """The bins as text, and None for missing, if it is declared."""
        ends = list(map(edge_text, self.edges))
        bins: list[str | None] = [f"[{low}, {high})" for low, high in pairwise(ends)]
        bins[-1] = f"[{ends[-2]}, {ends[-1]}]"
        return (*bins, None) if self.missing else tuple(bins)

    @property
    def values(self) -> tuple[Edge | int | None, ...]:  # numpydoc ignore=RT01
        """The middle of each bin, which represents it, as an int if it is whole; None for missing."""
        middles = [_middle(low, high) for low, high in pairwise(self.edges)]
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
            Of `dtype`, or narrower floats if the column has them and they hold the
            edges; nan or NaT for missing.

        Raises
        ------
        ColumnError
            If the column is not numeric, or not one of dates.
        """
        if self.dtype.kind != "f":
            return to_dates(column, self.dtype)
        numbers = to_numbers(column)
        # Edges that narrow floats do not hold would be infinite in their precision.
        largest = max(-self.edges[0], self.edges[-1])
        if largest > float(np.finfo(numbers.dtype).max):
            numbers = numbers.astype(float)
        return numbers

    def encode(self, column: Any) -> NDArray[np.unsignedinteger]:
        """Encode a column of numbers or dates by bin.

        Parameters
        ----------
        column : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
            The numbers or dates.

        Returns
        -------
        ndarray of unsigned integers
            The bin of each value, the cell after the bins for missing if it is
            declared, and ``len(self)`` for values that are not declared.

        Raises
        ------
        ColumnError
            If the column is not numeric, or not one of dates.
        """
        # (n_rows,), in the dtype of the edges or in narrower floats
        values = self.read(column)
        # In the precision of the column: a narrow float rounded from 0.3 is equal to
        # the edge 0.3.
        edges = np.array(self.edges, values.dtype)
        missing = len(self.edges) - 1 if self.missing else len(self)
        return encode_numbers(values, edges, len(self), missing)


def _are_whole(edges: Iterable[Any]) -> bool:
    return all(not isinstance(edge, float) or edge.is_integer() for edge in edges)


def _have_whole_bounds(edges: Sequence[Any]) -> bool:
    """Return True if the first and last edge are whole, and no bin is narrower than 1."""
    are_wide = all(high - low >= 1 for low, high in pairwise(edges))
    return are_wide and _are_whole([edges[0], edges[-1]])


def _type(value: Any) -> str:
    return type(value).__name__


def _edges_between(low: Any, high: Any, bins: Any) -> list[Any]:
    if low is None or high is None:
        raise ValueError("Interval requires both low and high, or edges")
    if not is_whole_number(bins) or bins < 1:
        raise ValueError(
            f"bins of an Interval must be a whole number of at least 1, got {bins!r}"
        )
    if bins > MAX_BINS:
        raise ValueError(f"Interval takes at most {MAX_BINS:,} bins, got {bins:,}")
    low, high = read_edges([low, high], "low and high")
    return even_edges(low, high, int(bins))


def _middle(low: Any, high: Any) -> Edge | int:
    if not isinstance(low, float):
        return low + (high - low) // 2
    middle = (low + high) / 2
    return int(middle) if middle.is_integer() else middle


def _few(texts: list[str]) -> str:
    """Write the first of some texts as a list."""
    shortened = []
    for text in texts[:MAX_SHOWN_VALUES]:
        is_long = len(text) > _MAX_SHOWN_CHARACTERS
        shortened.append(f"{text[: _MAX_SHOWN_CHARACTERS - 1]}…" if is_long else text)
    if len(texts) > MAX_SHOWN_VALUES:
        shortened.append("…")
    return f"[{', '.join(shortened)}]"


def _write_interval(interval: Interval) -> dict[str, Any]:
    return {
        "edges": write_value(list(interval.edges)),
        "missing": interval.missing,
        "real": interval.real,
        "decimals": interval.decimals,
    }


def _read_interval(content: dict[str, Any]) -> Interval:
    # Bounds and a number of bins could ask for any amount of memory.
    edges = read_value(content["edges"])
    if len(content) != 4 or not isinstance(edges, list):
        raise ValueError("an Interval has a list of edges, missing, real and decimals")
    return Interval(**{**content, "edges": edges})


register_type("interval", Interval, _write_interval, _read_interval)
