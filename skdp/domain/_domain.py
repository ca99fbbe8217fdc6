"""The declared values of columns: lists of values, bins of numbers or dates, and the codes of their combinations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import pairwise
from numbers import Real
from typing import Any, Self, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain._bins import (
    BLOCK,
    Edge,
    edge_text,
    encode_numbers,
    even_edges,
    read_edges,
    shortest_edge,
)
from skdp.domain._toml import check_keys, read_toml, write_toml
from skdp.markup import html_rows
from skdp.tables import (
    ColumnError,
    ValueCoder,
    dates_like,
    decoder,
    dtype_like,
    is_declarable,
    is_whole_number,
    kind_of,
    kind_of_values,
    kinds_of,
    library_of,
    plain,
    present,
    shielded,
    to_dates,
    to_numbers,
)

# The most values of a column that are shown.
FEW = 8

_LONGEST = 200  # characters of a value that are shown


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
        The dtype of the data does not say it.

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
        values = _few(list(map(repr, self.values[: FEW + 1])))
        return f"Categories({values}, ordered=True)" if self.ordered else values

    def _declaration(self) -> dict[str, Any]:
        """Return what a domain file says: the values, and the place of missing, True at their end."""
        values = present(self.values)
        declaration: dict[str, Any] = {"values": values}
        if len(values) < len(self.values):
            place = self.values.index(None)
            declaration["missing"] = place == len(values) or place
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
    """Whether a value is no number, or a finite one."""
    try:
        return not isinstance(value, Real) or math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of floats
        return False


def _typed(values: tuple[Any, ...]) -> list[tuple[str, Any]]:
    # Values are plain: of those that are missing, there is only None.
    return list(zip(map(kind_of, values), values, strict=True))


_DTYPES = {
    "number": np.dtype(float),
    "date": np.dtype("datetime64[D]"),
    "datetime": np.dtype("datetime64[us]"),
}

# All decimal numbers of so many digits are distinct floats.
_MOST_DECIMALS = 15

# Limit on the whole number of steps from 0 to an end: floats tell halves of a step
# apart up to there.
_LARGEST_STEP = 2.0**52

# Limit for an interval declared by its ends: a short file could otherwise ask for any
# amount of memory.
MOST_BINS = 1 << 22


class Interval:
    """A column of numbers or dates cut into bins: half-open, the last one closed.

    Numbers are whole by default if all edges are whole, or if `low` and `high` are and
    no bin is narrower than 1, as in ``Interval(18, 100, bins=20)`` for ages. Otherwise,
    as in ``Interval(0, 1, bins=10)``, they may have any fractions. The dtype of a table
    has no part in this. Where numbers are whole, numbers with a fraction are counted in
    their bin, and drawn numbers are whole: declare `decimals` or `real` to draw
    fractions, as ``decimals=2`` for amounts such as 19.75, or ``real=True`` for any.

    Parameters
    ----------
    low, high : float, date or datetime, optional
        The ends of the range, together with `bins`: both numbers, both dates, or both
        datetimes (without a time zone).
    bins : int, optional
        The number of bins, from 1 to 2**22. Bins of numbers have equal widths: their
        edges are the floats nearest to decimal fractions, as 0.3 for the third edge of
        10 bins from 0 to 1. Bins of dates have equal numbers of months, if the range is a whole number of months
        that `bins` divides and does not start on the 29th or later; otherwise equal
        widths, rounded down to days or microseconds.
    edges : sequence of float, date or datetime, optional
        The edges of the bins, instead of `low`, `high` and `bins`: at least 2,
        increasing, all of one kind.
    missing : bool, default=False
        Whether missing is a declared value: one more cell, after the bins.
    real : bool, default=False
        If True, the numbers have fractions where they would be whole by default:
        `DPMarginalSynthesizer` draws whole numbers for whole ones.
    decimals : int, optional
        The number of decimals that the numbers have, from 0 to 15: those that are drawn
        have no more. 0 is for whole numbers; of 1 or more, `DPMarginalSynthesizer`
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
    >>> Interval(edges=[0, 38, 120]).labels
    ('[0, 38)', '[38, 120]')
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
        low: Edge | None = None,
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
        if (edges is None) == (low is None and high is None and bins is None):
            raise ValueError("Interval takes either edges, or low, high and bins")
        if edges is None:
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
        if not 0 <= int(decimals) <= _MOST_DECIMALS:
            raise ValueError(
                f"decimals of an Interval must be from 0 to {_MOST_DECIMALS}, "
                f"got {decimals}"
            )
        if real and decimals == 0:
            raise ValueError(
                "decimals=0 declares whole numbers, "
                "but real=True numbers with fractions: leave one out"
            )
        largest = max(abs(self.edges[0]), abs(self.edges[-1]))
        if int(decimals) > 0 and largest * 10.0 ** int(decimals) > _LARGEST_STEP:
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
        edges = self.edges[: FEW + 1]
        texts = list(map(edge_text if is_numeric else repr, edges))
        flags = ", missing=True" if self.missing else ""
        for name, value in self._precision(_are_whole(self.edges)).items():
            flags += f", {name}={value}"
        return f"Interval(edges={_few(texts)}{flags})"

    def _declaration(self) -> dict[str, Any]:
        """Return the arguments of an equal interval: few if its bins are even, and whole numbers as int."""
        low, high = self.edges[0], self.edges[-1]
        bins = len(self.edges) - 1
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
        """Return what must be declared of the numbers, where it differs from the default."""
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
    """Return whether the first and last edge are whole, and no bin is narrower than 1."""
    are_wide = all(high - low >= 1 for low, high in pairwise(edges))
    return are_wide and _are_whole([edges[0], edges[-1]])


def _type(value: Any) -> str:
    return type(value).__name__


def _edges_between(low: Any, high: Any, bins: Any) -> list[Any]:
    if low is None or high is None or bins is None:
        raise ValueError(
            "Interval takes either edges, or low, high and bins: all three"
        )
    if not is_whole_number(bins) or bins < 1:
        raise ValueError(
            f"bins of an Interval must be a whole number of at least 1, got {bins!r}"
        )
    if bins > MOST_BINS:
        raise ValueError(f"Interval takes at most {MOST_BINS:,} bins, got {bins:,}")
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
    for text in texts[:FEW]:
        is_long = len(text) > _LONGEST
        shortened.append(f"{text[: _LONGEST - 1]}…" if is_long else text)
    if len(texts) > FEW:
        shortened.append("…")
    return f"[{', '.join(shortened)}]"


Codes = NDArray[np.unsignedinteger]


class Domain:
    """The public values of each column, in order.

    A domain is declared, not read from the data: which values occur is private.

    Parameters
    ----------
    columns : mapping of column name to values
        A list of values per column, `Categories` with an order, or an `Interval`. None
        (also nan, ``pd.NA``) among the values declares missing as a value. A column may
        have a single value.

    Attributes
    ----------
    columns : tuple
        The column names.
    sizes : tuple of int
        The number of values of each column.
    size : int
        The number of cells of the full Cartesian product.

    Raises
    ------
    TypeError
        If `columns` is not a mapping, or the values of a column are of several kinds
        (1, True and "1" are).
    ValueError
        If there is no column, a column without values, or a duplicate (1 and 1.0 are
        one).

    Examples
    --------
    >>> domain = Domain({"age": Interval(edges=[0, 38, 120]), "sex": ["Female", "Male"]})
    >>> domain.size
    4
    >>> domain.cells().to_list()
    [('[0, 38)', 'Female'), ('[0, 38)', 'Male'), ('[38, 120]', 'Female'), ('[38, 120]', 'Male')]
    >>> Domain({"answer": [1, 1.0]})
    Traceback (most recent call last):
        ...
    ValueError: column 'answer': expected distinct values, got duplicates
    """

    def __init__(
        self, columns: Mapping[Any, Iterable[Any] | Interval | Categories]
    ) -> None:
        if not isinstance(columns, Mapping):
            raise TypeError(
                "Domain takes a mapping from column name to values, "
                f"got {type(columns).__name__}"
            )
        if not columns:
            raise ValueError("Domain needs at least one column")
        self._attributes: dict[Any, Categories | Interval] = {}
        for name, values in columns.items():
            if isinstance(values, Interval | Categories):
                self._attributes[name] = values
                continue
            try:
                self._attributes[name] = Categories(values)
            except (TypeError, ValueError) as error:
                raise type(error)(f"column {name!r}: {error}") from None

    @property
    def columns(self) -> tuple[Any, ...]:  # numpydoc ignore=RT01
        """The column names."""
        return tuple(self._attributes)

    @property
    def sizes(self) -> tuple[int, ...]:  # numpydoc ignore=RT01
        """The number of values of each column."""
        return tuple(map(len, self._attributes.values()))

    @property
    def size(self) -> int:  # numpydoc ignore=RT01
        """The number of cells of the full Cartesian product."""
        return math.prod(self.sizes)

    def __getitem__(self, column: Any) -> Categories | Interval:
        return self._attributes[column]

    def __eq__(self, other: object) -> bool:
        # The order determines the joint codes.
        return isinstance(other, Domain) and self._items() == other._items()

    def __hash__(self) -> int:
        return hash(self._items())

    def _items(self) -> tuple[tuple[Any, Categories | Interval], ...]:
        return tuple(self._attributes.items())

    def __repr__(self) -> str:
        columns = [f"{name!r:.200}: {values!r}" for name, values in self._items()]
        return f"Domain({{{', '.join(columns)}}})"

    def _repr_html_(self) -> str:
        rows = []
        title = "Declared domain"
        for name, attribute in self._items():
            kind = "bins" if isinstance(attribute, Interval) else "values"
            labels = list(map(str, attribute.labels[:FEW]))
            if len(attribute) > FEW:
                labels.append("…")
            values = ", ".join(labels)
            if attribute.observed:
                title = "Domain"
                kind += ", read from the data"
                values = "not shown"
            rows.append((name, kind, len(attribute), values))
        heads = ("column", "kind", "number", "values")
        return html_rows(title, heads, rows, f"{self.size:,} cells together")

    def select(self, columns: Iterable[Any]) -> Domain:
        """Return the domain of some of the columns.

        Parameters
        ----------
        columns : iterable
            Column names, in the wanted order.

        Returns
        -------
        Domain
            The smaller domain.

        Raises
        ------
        TypeError, ValueError
            If `columns` is a single name, has an unknown column, or has a column twice.
        """
        if isinstance(columns, str):
            raise TypeError(
                "columns must be several names, such as a list, got one str"
            )
        columns = list(columns)
        absent = [column for column in columns if column not in self._attributes]
        if absent:
            raise ValueError(
                f"the domain has no columns {absent}; it has {list(self.columns)}"
            )
        if len(set(columns)) < len(columns):
            raise ValueError(f"a column is selected twice: {columns}")
        return Domain({column: self._attributes[column] for column in columns})

    @classmethod
    def from_toml(cls, text: str) -> Self:
        r"""Read the text of a domain file, written by `to_toml` or by hand.

        A table ``[columns.NAME]`` for each column, in order, has either ``values``
        (``missing = true`` appends None, ``missing = 2`` inserts it at that position,
        ``ordered = true`` declares that they are in order), or ``low``, ``high`` and
        ``bins``, or ``edges``. Ends and edges are numbers, dates (``2020-02-29``) or
        datetimes (``2020-02-29T18:30:00``); ``real = true`` declares that the numbers
        between whole edges have fractions, ``decimals = 2`` how many decimals numbers
        have.

        Parameters
        ----------
        text : str
            TOML, not a path.

        Returns
        -------
        Domain
            The columns, in the order of the file.

        Raises
        ------
        TypeError, ValueError
            If the text is not a domain file; the error names the column and the key.

        Examples
        --------
        >>> text = '''
        ... [columns.age]
        ... low = 15
        ... high = 95
        ... bins = 16
        ...
        ... [columns."marital.status"]
        ... values = ["never married", "married", "divorced", "widowed"]
        ... missing = true
        ... '''
        >>> domain = Domain.from_toml(text)
        >>> domain.sizes
        (16, 5)
        >>> Domain.from_toml(domain.to_toml()) == domain
        True
        >>> Domain.from_toml("[columns.age]\nlow = 15")
        Traceback (most recent call last):
            ...
        ValueError: column 'age': expected values, or low, high and bins, or edges; and missing, ... got low
        """
        tables = read_toml(text)
        _check_bins(tables)
        attributes = {}
        for name, table in tables.items():
            try:
                attributes[name] = _declared(table)
            except (TypeError, ValueError) as error:
                raise type(error)(f"column {name!r}: {error}") from None
        return cls(attributes)

    def to_toml(self, *, comments: Mapping[Any, str] | None = None) -> str:
        """Write the domain as the text of a domain file.

        Parameters
        ----------
        comments : mapping of column name to text, optional
            Remarks to write above some of the columns.

        Returns
        -------
        str
            TOML, from which `from_toml` reads an equal domain. An `Interval` of bins of
            equal width is written by its ends, any other by its edges.

        Raises
        ------
        TypeError, ValueError
            If the name of a column is not text, or a value is not text, a number, a
            boolean, a date or a time.

        Examples
        --------
        >>> domain = Domain({"age": Interval(0, 100, bins=20), "sex": ["Female", "Male", None]})
        >>> print(domain.to_toml(comments={"age": "In years."}))
        # In years.
        [columns.age]
        low = 0
        high = 100
        bins = 20
        <BLANKLINE>
        [columns.sex]
        values = ["Female", "Male"]
        missing = true
        <BLANKLINE>
        """
        declarations = {}
        for name, attribute in self._items():
            declarations[name] = attribute._declaration()
        return write_toml(declarations, comments or {})

    def encode(self, columns: Iterable[Any]) -> list[Codes]:
        """Encode the columns of a table.

        Parameters
        ----------
        columns : iterable of 1-D arrays or series
            A column of values for each column of the domain, in order.

        Returns
        -------
        list of ndarray of unsigned integers
            The code of each value; the number of values of the column for values that
            are not declared.

        Raises
        ------
        ValueError
            If a column cannot be coded, such as a column of text that is declared as an
            `Interval`.
        """
        codes = []
        for (name, attribute), column in zip(self._items(), columns, strict=True):
            codes.append(_naming(name, attribute.encode, column))
        return codes

    def decoders(
        self, like: Iterable[Any]
    ) -> list[Callable[[NDArray[np.integer]], Any]]:
        """Return functions from codes to columns of the libraries of other columns.

        Parameters
        ----------
        like : iterable of 1-D arrays or series
            For each column of the domain, in order, the column whose library to use,
            and family of dtypes (such as nullable, categorical, or text); all else of a
            dtype follows from the declared values.

        Returns
        -------
        list of callable
            For each column, a function from codes to values. A code of an `Interval`
            becomes the middle of its bin.

        Raises
        ------
        ValueError
            If no dtype of a column's library can hold the declared values.
        """
        decoders = []
        for (name, attribute), column in zip(self._items(), like, strict=True):
            decoders.append(_naming(name, _decoder, attribute, column))
        return decoders

    def join(self, codes: Sequence[NDArray[np.integer]]) -> Codes:
        """Combine the codes of all columns into codes of the Cartesian product, the last column fastest.

        Parameters
        ----------
        codes : sequence of ndarray of integers
            Codes of declared values for each column of the domain, in order.

        Returns
        -------
        ndarray of unsigned integers
            The joint code of each row, from 0 to ``size - 1``.

        Raises
        ------
        ValueError
            If the product has 2**63 cells or more.

        Examples
        --------
        >>> import numpy as np
        >>> domain = Domain({"a": [0, 1], "b": ["x", "y", "z"]})
        >>> domain.join([np.array([0, 1]), np.array([2, 0])])
        array([2, 3], dtype=uint8)
        """
        if self.size >= 1 << 63:
            raise ValueError(
                f"the joint domain has {self.size} cells; "
                "at most 2**63 - 1 can be coded"
            )
        # ``((c_0 s_1 + c_1) s_2 + c_2) ...`` for codes c and sizes s (Horner), in the
        # narrowest dtype that holds every joint code.
        dtype = np.min_scalar_type(self.size)
        joint = np.array(codes[0], dtype=dtype)
        for size, code in zip(self.sizes[1:], codes[1:], strict=True):
            np.multiply(joint, dtype.type(size), out=joint)
            np.add(joint, code, out=joint, casting="unsafe")
        return joint

    def split(self, joint: NDArray[np.integer]) -> list[Codes]:
        """Split joint codes into the codes of each column: the inverse of `join`.

        Parameters
        ----------
        joint : ndarray of integers
            Joint codes.

        Returns
        -------
        list of ndarray of unsigned integers
            Codes for each column of the domain, in order.
        """
        dtypes = map(np.min_scalar_type, self.sizes)
        codes: list[Codes] = [np.empty(joint.shape, dtype) for dtype in dtypes]
        for start in range(0, joint.size, BLOCK):
            block = slice(start, start + BLOCK)
            # The digits of a number whose base differs from place to place, the last
            # column first.
            quotient = joint[block]
            for size, code in zip(self.sizes[::-1], codes[::-1], strict=True):
                dividend = quotient
                divisor = dividend.dtype.type(size)
                quotient = dividend // divisor
                remainder = dividend - quotient * divisor
                code[block] = remainder
        return codes

    def cells(self) -> pd.Index:
        """List the cells of the full Cartesian product in the order of the joint codes.

        Returns
        -------
        pandas.Index
            The values (for an `Interval`, the bins) of one column, or a MultiIndex over
            the values of several.
        """
        labels = [list(attribute.labels) for attribute in self._attributes.values()]
        if len(labels) == 1:
            # Beside a missing value, pandas would make floats of whole numbers.
            dtype = object if None in labels[0] else None
            name = self.columns[0]
            return pd.Index(labels[0], dtype=dtype, name=name, tupleize_cols=False)
        return pd.MultiIndex.from_product(labels, names=self.columns)


def _check_bins(tables: Mapping[str, Any]) -> None:
    """Refuse a short file that asks for much memory by the bins of many columns."""
    n_bins = 0
    for table in tables.values():
        bins = table.get("bins") if isinstance(table, dict) else None
        if isinstance(bins, int):
            n_bins += max(0, bins)
    if n_bins > MOST_BINS:
        raise ValueError(
            f"a domain file has at most {MOST_BINS:,} bins in all its columns, "
            f"got {n_bins:,}"
        )


def _declared(table: Any) -> Categories | Interval:
    """Make the values of a column from their table in a domain file."""
    check_keys(table)
    if "values" not in table:
        return Interval(**table)
    values = list(table["values"])
    place = table.get("missing", False)
    # TOML has no null: the place of missing among the values is a number.
    if place is True:
        values.append(None)
    elif place is not False:
        if not isinstance(place, int) or not 0 <= place <= len(values):
            raise ValueError(
                f"missing must be true, false, or a place from 0 to {len(values)}, "
                f"got {place!r}"
            )
        values.insert(place, None)
    return Categories(values, ordered=table.get("ordered", False))


def _decoder(
    attribute: Categories | Interval, like: Any
) -> Callable[[NDArray[np.integer]], Any]:
    library = library_of(like)
    dtype = declared_dtype(attribute, like)
    if not isinstance(attribute, Interval) or attribute.dtype.kind == "f":
        return decoder(attribute.values, library, dtype)
    middles = np.array(attribute.values, attribute.dtype)
    return lambda codes: dates_like(middles[codes], library, dtype)


def declared_kind(attribute: Categories | Interval) -> str:
    """Return the kind of the values of a column, which decides their dtype."""
    if isinstance(attribute, Interval):
        return kind_of_values(attribute.edges, real=attribute.real)
    return kind_of_values(attribute.values)


def declared_dtype(attribute: Categories | Interval, like: Any) -> Any:
    """Return the dtype of declared values in the library of a column."""
    return dtype_like(like, declared_kind(attribute), attribute.values)


def _naming(name: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function for a column, naming the column in its errors."""
    try:
        return shielded(function, *arguments)
    except ColumnError as error:
        message = f"column {name!r}: {error}"
    raise ColumnError(message)  # outside of the handler: without a context


# A domain, or what declares one: values by column name, a list of them for each column,
# or bins of all columns.
DomainLike: TypeAlias = Domain | Mapping[Any, Any] | Sequence[Any] | Interval
