"""The values of one column: a list of values, bins of numbers or dates, or categories that a release found."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Codes, Column, ColumnName, Indices
from skdp._json import (
    MAX_DECLARED_VALUES,
    register_type,
    value_from_json,
    value_to_json,
)
from skdp.domain._bins import (
    MAX_WHOLE_NUMBER,
    Edge,
    encode_numbers,
    format_edge,
    make_even_edges,
    parse_edges,
    round_numbers,
    shorten_edge,
)
from skdp.privacy import PrivacyGuarantee
from skdp.randomness import check_type
from skdp.tables import (
    ValueCoder,
    find_dtype,
    has_categories,
    has_order_of,
    is_declarable,
    is_missing,
    is_whole_number,
    make_decoder,
    to_column,
    to_dates,
    to_numbers,
    to_object_list,
    to_objects,
    to_python,
    type_of_column,
    type_of_declared,
    type_of_value,
    types_of_values,
)

# Largest number of values of a column in a message or repr.
MAX_SHOWN_VALUES = 8

# Largest end beside an open one, so that all widths are finite.
MAX_OPEN_END = 1e300

# Bins between bounds without `bins`, or fewer if each whole number or day has a bin.
DEFAULT_BINS = 10


class Release(NamedTuple):
    """A release that found the values of columns, such as `discover_domain`."""

    # Guarantees of different releases may be equal.
    id: str
    guarantee: PrivacyGuarantee


class Categories:
    """The declared values of one column, in order.

    Parameters
    ----------
    values : iterable
        At least one value; all of one type (strings, numbers, booleans, dates or
        datetimes). None (or nan, or ``pd.NA``) declares missing as a value.
    ordered : bool, default=False
        If True, the values are listed in their order, such as grades.
        `DPMarginalSynthesizer` counts rare values together with their neighbors, additive
        models smooth over neighbors, and `DPHistogram` may count groups of neighbors.
        Numbers and dates that are listed in ascending order are always ordered.

    Attributes
    ----------
    values : tuple
        The values as Python objects, None for missing.
    ordered : bool
        The parameter `ordered`.

    Raises
    ------
    TypeError
        If the values are not a collection of text, numbers, booleans, dates or datetimes
        without a time zone, or are of several types.
    ValueError
        If there is no value, a duplicate (1 and 1.0 are equal), or a number that is not
        finite.

    Examples
    --------
    >>> from skdp.domain import Categories
    >>> Categories(["no", "yes", None]).values
    ('no', 'yes', None)
    """

    has_bins = True
    observed = False  # True if the values were read from private data
    releases: tuple[Release, ...] = ()  # Releases that found the values

    def __init__(self, values: Iterable[Any], *, ordered: bool = False) -> None:
        # `values` are the declared values, whose order is the order of their codes;
        # None declares missing values. With `ordered`, the order has a meaning.
        # The order of a set differs between processes, so the codes would differ too. A
        # string or a mapping is not meant as a list of its characters or keys.
        is_rejected = isinstance(values, str | bytes | Mapping | Set)
        if is_rejected or not isinstance(values, Iterable):
            raise TypeError(f"expected a list of values, got {_type_name(values)}.")
        values = tuple(values)
        for value in values:
            if isinstance(value, Interval):
                raise TypeError(
                    "expected a list of values or an Interval, got a list with an "
                    "Interval. Use Interval(..., missing=True) for numbers that may be "
                    "missing."
                )
            if not is_declarable(value):
                raise TypeError(
                    "expected text, numbers, booleans, dates or datetimes without a "
                    f"time zone, got {_type_name(value)}. Convert the column, such as "
                    "to text."
                )
        check_type("ordered", ordered, bool, "True or False")
        self.values = tuple(map(to_python, values))
        _check_together(self.values)
        self.ordered = ordered
        self.releases = ()
        self._coder = ValueCoder(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categories) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.values)

    def _key(self) -> tuple[Any, ...]:
        """Return the fields by which declarations are compared."""
        # The types are compared too, because 1 and True are equal in Python.
        return self.ordered, self.values, tuple(map(type_of_value, self.values))

    def __repr__(self) -> str:
        if self.observed:
            return f"[{len(self)} values, read from the data]"
        values = _shorten(map(repr, self.values[: MAX_SHOWN_VALUES + 1]))
        return f"Categories({values}, ordered=True)" if self.ordered else values

    @property
    def labels(self) -> tuple[Any, ...]:  # numpydoc ignore=RT01
        """The values themselves."""
        return self.values

    def encode(self, column: object) -> Codes:
        """Encode a column by value.

        Parameters
        ----------
        column : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
            The values.

        Returns
        -------
        ndarray of unsigned integers
            The position of each value, ``len(self)`` for values outside the domain.

        Raises
        ------
        ColumnError
            If the column has a dtype that represents none of the values, such as integers
            where text is declared.
        """
        self._coder.check_dtype(column, declared=self)
        return self._coder.encode(column)


def _check_together(values: tuple[Any, ...]) -> None:
    """Check that there is at least one declared value, and that all are of one type, finite and distinct."""
    if not values:
        raise ValueError("expected at least one value, got none.")
    types = types_of_values(values)
    if len(types) > 1:
        raise TypeError(
            f"expected values of one type, got {' and '.join(sorted(types))}."
        )
    # Python compares integers of any size with floats.
    numbers: list[Any] = [value for value in values if isinstance(value, Real)]
    if any(abs(number) > sys.float_info.max for number in numbers):
        raise ValueError(
            "expected finite numbers in the range of floats, got a larger number or "
            "inf."
        )
    if len(set(values)) < len(values):
        raise ValueError("expected distinct values, got duplicates.")


# The dtypes in which values are compared with edges.
_DTYPES = {
    "number": np.dtype(float),
    "date": np.dtype("datetime64[D]"),
    "datetime": np.dtype("datetime64[us]"),
}


class Interval:
    """Declared range of the numbers or dates of one column, divided into bins.

    Bins contain their lower edge but not their upper edge; the last bin contains both.

    Integer bounds or edges declare whole numbers, as in ``Interval(1, 7)`` for the seven
    answers of a Likert scale. Numbers with fractions have at least one float among the
    bounds or edges, as in ``Interval(1.0, 7.0)``, `decimals`, as in ``decimals=2`` for
    amounts of money, or ``real=True``.

    A fraction between whole bounds is a value outside the domain. Between whole `edges`,
    it is counted in its bin, but synthesizers, which return numbers and not bins, treat
    any number with more decimals than declared as a value outside the domain.

    Parameters
    ----------
    low, high : float, date or datetime, optional
        Bounds of the range: both numbers, both dates, or both datetimes (without a time
        zone). A sequence as the first argument is `edges`. None is an open end of a range of numbers,
        if it is not known: estimators of a curator that take bounds, `DPHistogram` and `DPMarginalSynthesizer` find it
        with a part of their budget. All other estimators raise an error.
    bins : int, optional
        Number of bins between `low` and `high`. None declares the bounds only:
        synthesizers then find bins from noisy counts, and all other estimators use 10
        bins. Up to 10 whole numbers or days have a bin each, in all estimators.
        Bins of numbers have equal widths. Bins of dates have equal numbers of months if the range is a whole number
        of months that `bins` divides; otherwise equal widths, rounded down to days or
        microseconds. Bins of whole numbers have whole edges, rounded up; with as many bins
        as whole numbers or days, each has a bin.
    edges : sequence of float, date or datetime, optional
        Edges of the bins, instead of `low`, `high` and `bins`: at least 2, increasing,
        all of one type.
    missing : bool, default=False
        If True, missing is a declared value, with a cell after the bins.
    real : bool, default=False
        If True, the numbers have fractions although the edges are integers.
    decimals : int, optional
        Largest number of decimals of the numbers, from 0 to 15; 0 is for whole numbers.
        None allows any number of decimals, or only whole numbers if the edges are
        integers.

    Attributes
    ----------
    ends : tuple of float, date or datetime
        The first and the last edge; None for an open end.
    edges : tuple of float, date or datetime
        The edges of the bins. If each day has a bin, the last two edges are equal. An open end raises ValueError, as do
        ``len``, `labels`, `values` and `encode`.
    has_bins : bool
        True if `bins` or `edges` are declared, or at most 10 whole numbers or days;
        otherwise synthesizers find bins.
    takes_fractions : bool
        False for whole numbers between bounds, where a fraction is outside the domain.
    missing : bool
        The parameter `missing`.
    real : bool
        True if the numbers have fractions, as declared or by default.
    decimals : int or None
        Largest number of decimals; 0 if `real` is False, None for any number of decimals. Without a declared end,
        `real` is False and `decimals` None by default: a dtype of integers then declares whole numbers.

    Raises
    ------
    TypeError
        If an edge is not a number, date or datetime, or edges are of several types.
    ValueError
        If the edges are not finite or not increasing, if both `edges` and `low` are
        given, if datetimes have a time zone or nanoseconds, if there are more `bins` than
        whole numbers or days, if whole numbers are beyond 2**52, or if `decimals` is out
        of range, exceeds the precision of floats at the bounds, or contradicts `real`.

    Notes
    -----
    If the edges are dates, a datetime is in the bin of its day, and the last bin includes
    the whole last day. If the edges are datetimes, a date is its midnight.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Interval
    >>> Interval([0, 38, 120]).labels
    ('[0, 38)', '[38, 120]')
    >>> len(Interval(16, 70))
    10
    >>> Interval(0, 100, bins=4).edges
    (0.0, 25.0, 50.0, 75.0, 100.0)
    >>> Interval(0, 60, bins=20, decimals=2).real
    True
    >>> Interval(1, 7).labels, Interval(1, 7).real, Interval(1.0, 7.0).real
    (('1', '2', '3', '4', '5', '6', '7'), False, True)
    >>> Interval(0, 100, bins=2, missing=True).encode(np.array([10.0, np.nan])).tolist()
    [0, 2]
    >>> Interval(0, None).ends
    (0.0, None)
    >>> from datetime import date
    >>> years = Interval(date(2000, 1, 1), date(2003, 1, 1), bins=3)
    >>> years.labels
    ('[2000-01-01, 2001-01-01)', '[2001-01-01, 2002-01-01)', '[2002-01-01, 2003-01-01]')
    >>> years.encode(np.array([date(2000, 12, 31), date(2001, 1, 1)])).tolist()
    [0, 1]
    """

    observed = False  # True if the edges were read from private data
    releases: tuple[Release, ...] = ()  # Releases that found the edges
    # The ends that `fit` found, to which `encode` clips numbers. They are not compared or saved.
    found: tuple[bool, bool] = (False, False)

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
        # The range is given by the edges of its bins, or by its bounds and the number
        # of bins. `missing` declares missing values. `real` is True for numbers with
        # fractions; by default, the types of edges decide. `decimals` is the largest
        # number of decimals, and None for any number.
        for name, flag in (("missing", missing), ("real", real)):
            check_type(name, flag, bool, "True or False")
        # Interval([0, 38, 120]) declares edges.
        if np.iterable(low) and not isinstance(low, str) and edges is None:
            low, edges = None, low
        self.missing = missing
        self.releases = ()
        self.decimals: int | None = None
        if edges is None and (low is None or high is None):
            self._set_open(low, high, bins, real=real, decimals=decimals)
            return
        arguments = {"low": low, "high": high, "bins": bins, "edges": edges}
        given = [name for name, value in arguments.items() if value is not None]
        has_bounds = edges is None
        if not has_bounds and given != ["edges"]:
            raise ValueError(
                "Interval requires either `edges`, or `low` and `high` (with `bins`), "
                f"got {' and '.join(given)}."
            )
        declared: object = (low, high) if has_bounds else edges
        if np.iterable(declared) and not isinstance(declared, str):
            declared = tuple(declared)
        is_whole = decimals == 0 or (
            decimals is None and not real and are_integers(declared)
        )
        if has_bounds:
            self._edges = _edges_between(low, high, bins, is_whole=is_whole)
        else:
            self._edges = parse_edges(declared, "`edges`", is_whole=is_whole)
        if len(self._edges) < 2:
            raise ValueError(
                f"Interval requires at least 2 edges, got {len(self._edges)}."
            )
        self.ends: tuple[Any, Any] = self._edges[0], self._edges[-1]
        *inner, last = pairwise(self._edges)
        # The last bin is closed, so it may be a single day.
        is_day = bool(inner) and self.dtype == _DTYPES["date"] and last[0] == last[1]
        for lower, upper in inner if is_day else [*inner, last]:
            if lower >= upper:
                raise ValueError(
                    "`edges` of an Interval must increase, got "
                    f"{format_edge(lower)} before {format_edge(upper)}."
                )
        is_number = self.dtype.kind == "f"
        if not is_number and (real or decimals is not None):
            raise ValueError(
                "`real` and `decimals` of an Interval require edges that are numbers, "
                "got dates."
            )
        if decimals is not None:
            self._check_decimals(decimals, real)
            self.decimals = int(decimals)
        elif is_number and is_whole:
            self.decimals = 0  # dates have no decimals
        self.real = is_number and not is_whole
        self.takes_fractions = not (has_bounds and self.decimals == 0)
        self.has_bins = not has_bounds or bins is not None or has_single_values(self)

    def _set_open(
        self, low: object, high: object, bins: Any, *, real: bool, decimals: Any
    ) -> None:
        """Set the fields of a range of numbers with an open end."""
        declared = tuple(end for end in (low, high) if end is not None)
        is_whole = decimals == 0 or (decimals is None and not real and bool(declared))
        is_whole &= are_integers(declared)
        parsed = parse_edges(declared, "`low` or `high`", is_whole=is_whole)
        if any(not isinstance(end, float) for end in parsed):
            raise ValueError(
                "`low` and `high` of an Interval of dates must both be given, got one."
            )
        if any(abs(end) > MAX_OPEN_END for end in parsed):
            raise ValueError(
                f"The end of an Interval beside an open end must be at most {MAX_OPEN_END:.0e}, "
                f"got {format_edge(parsed[0])}."
            )
        _check_bins(bins)
        self._edges, self._bins = (), bins
        (end,) = parsed or (None,)
        self.ends = (None, end) if low is None else (end, None)
        self.real = real or (bool(declared) and not is_whole)
        if decimals is not None:
            self._check_decimals(decimals, real)
            self.decimals, self.real = int(decimals), bool(decimals)
        elif is_whole:
            self.decimals = 0
        self.takes_fractions = self.decimals != 0
        self.has_bins = bins is not None

    def _check_decimals(self, decimals: int, real: bool) -> None:
        """Check `decimals`, the declared number of decimals; `real` is True if the numbers have fractions."""
        if not is_whole_number(decimals):
            raise TypeError(
                "`decimals` of an Interval must be a whole number or None, "
                f"got {_type_name(decimals)}."
            )
        # All decimal numbers with up to 15 significant digits are distinct floats.
        if not 0 <= decimals <= 15:
            raise ValueError(
                f"`decimals` of an Interval must be from 0 to 15, got {decimals}."
            )
        if real and decimals == 0:
            raise ValueError(
                "`decimals=0` (whole numbers) contradicts `real=True` (numbers with "
                "fractions). Omit one of them."
            )
        largest: Any = max(abs(end or 0.0) for end in self.ends)
        # Floats represent all multiples of half a step up to 2**52 steps.
        if decimals > 0 and largest * 10.0 ** int(decimals) > 2.0**52:
            raise ValueError(
                f"`decimals={decimals}` of an Interval with the bound "
                f"{format_edge(largest)} exceeds the precision of floats. Use fewer "
                "decimals, or `real=True`."
            )

    @property
    def is_open(self) -> bool:  # numpydoc ignore=RT01
        """True if an end is not declared."""
        return None in self.ends

    @property
    def edges(self) -> tuple[Any, ...]:  # numpydoc ignore=RT01
        """The edges of the bins; ValueError with an open end."""
        if self.is_open:
            raise ValueError(
                f"expected an Interval with both ends, got {self!r}. Declare both "
                "ends, `low` and `high`: a person's device sees no other rows. Only statistics, models "
                "and synthesizers of a curator find an end."
            )
        return self._edges

    def __len__(self) -> int:
        return len(self.edges) - 1 + self.missing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        """Return the fields by which declarations are compared."""
        form = self.has_bins, self.takes_fractions
        edges = (self.ends, self._bins) if self.is_open else self._edges
        return edges, form, self.missing, self.real, self.decimals

    def __repr__(self) -> str:
        if self.observed:
            return f"Interval({len(self)} bins, read from the data)"
        arguments = describe_interval(self)
        if self.is_open:
            arguments = dict.fromkeys(("low", "high")) | arguments
        texts = []
        for name, value in arguments.items():
            text = _shorten_edges(value) if name == "edges" else repr(value)
            texts.append(text if name in ("low", "high") else f"{name}={text}")
        return f"Interval({', '.join(texts)})"

    @property
    def dtype(self) -> np.dtype[Any]:  # numpydoc ignore=RT01
        """The dtype in which values are compared with the edges: ``float64``, ``datetime64[D]`` or ``[us]``."""
        return _DTYPES["number" if self.is_open else type_of_value(self.ends[0])]

    @property
    def labels(self) -> tuple[str | None, ...]:  # numpydoc ignore=RT01
        """The bins as text, whole numbers and days with a bin each as such; None for missing, if it is declared."""
        if has_single_values(self):
            return tuple(None if value is None else str(value) for value in self.values)
        texts = list(map(format_edge, self.edges))
        bins: list[str | None] = [f"[{low}, {high})" for low, high in pairwise(texts)]
        bins[-1] = f"[{texts[-2]}, {texts[-1]}]"
        return (*bins, None) if self.missing else tuple(bins)

    @property
    def values(self) -> tuple[Edge | int | None, ...]:  # numpydoc ignore=RT01
        """The midpoint of each bin, an int if whole; between whole bounds, a whole number; None for missing."""
        find = _find_midpoint if self.takes_fractions else _find_whole_middle
        midpoints = [find(low, high) for low, high in pairwise(self.edges)]
        return (*midpoints, None) if self.missing else tuple(midpoints)

    def read(self, column: object) -> NDArray[Any]:
        """Read a column as values that can be compared with the edges.

        Parameters
        ----------
        column : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
            The numbers or dates.

        Returns
        -------
        ndarray
            Array of `dtype`, or of the narrower floats of the column if these represent
            the edges; nan or NaT for missing.

        Raises
        ------
        ColumnError
            If the column does not contain numbers, or dates, as declared.
        """
        if self.dtype.kind != "f":
            return to_dates(column, self.dtype)
        numbers = to_numbers(column)
        # In a narrower precision, larger edges would be infinite.
        largest = max(-self.edges[0], self.edges[-1])
        if largest > float(np.finfo(numbers.dtype).max):
            numbers = numbers.astype(float)
        return numbers

    def encode(self, column: object) -> Codes:
        """Encode a column of numbers or dates by bin.

        Parameters
        ----------
        column : 1-D ndarray, pandas Series, polars Series or pyarrow ChunkedArray
            The numbers or dates.

        Returns
        -------
        ndarray of unsigned integers
            Index of the bin of each value. Missing values have the index after the last
            bin if they are declared. Values outside the domain, such as fractions between
            whole bounds, have ``len(self)``.

        Raises
        ------
        ColumnError
            If the column does not contain numbers, or dates, as declared.
        """
        values = self.read(column)
        fractions: Any = []
        if not self.takes_fractions:
            values, moved, is_fraction = round_numbers(values, 0)
            fractions = moved[is_fraction]
        # The edges are rounded to the precision of the column, so that a float32 of 0.3 is
        # equal to the edge 0.3.
        edges = np.array(self.edges, values.dtype)
        if any(self.found):
            low, high = np.where(self.found, edges[[0, -1]], [-np.inf, np.inf])
            values = np.clip(values, low, high)
        missing = len(self.edges) - 1 if self.missing else len(self)
        codes = encode_numbers(values, edges, len(self), missing)
        codes[fractions] = len(self)
        return codes


def drop_bins(interval: Interval) -> Interval:
    """Return an interval with the bounds, missing values and decimals of an interval, without declared bins."""
    # Edges are floats, which declare fractions unless `decimals` is 0.
    whole = Interval(
        interval.edges[0],
        interval.edges[-1],
        missing=bool(interval.missing),
        decimals=interval.decimals,
    )
    whole.observed, whole.releases = interval.observed, interval.releases
    whole.found = interval.found
    return whole


def widen_interval(interval: Interval, *, bins: int | None = None) -> Interval:
    """Return the widest interval for open ends, by which columns are checked before limits are found."""
    end = MAX_OPEN_END
    if interval.decimals is not None:
        end = (MAX_WHOLE_NUMBER - 1) / 10.0**interval.decimals
    low, high = interval.ends
    low, high = -end if low is None else low, end if high is None else high
    return close_interval(interval, low, high, bins=bins)


def close_interval(
    interval: Interval, low: float, high: float, *, bins: int | None = None
) -> Interval:
    """Return an interval with limits that were found, and with its number of bins or `bins`.

    Limits beyond the precision of whole numbers or decimals are of real numbers. Limits that are too near for the bins
    are moved outward.
    """
    decimals, n_bins = interval.decimals, interval._bins or bins
    width = 4 * (n_bins or 1) * float(np.spacing(max(abs(low), abs(high))))
    if decimals == 0:
        low, high = float(math.floor(low)), float(math.ceil(high))
        width = (n_bins or 2) - 1
    if high - low < width:
        is_high_open = interval.ends[1] is None
        low, high = (low, low + width) if is_high_open else (high - width, high)
    if max(abs(low), abs(high)) * 10.0 ** (decimals or 0) > MAX_WHOLE_NUMBER:
        decimals = None
    closed = Interval(
        low,
        high,
        bins=n_bins,
        missing=bool(interval.missing),
        real=decimals is None,
        decimals=decimals,
    )
    closed.observed, closed.releases = interval.observed, interval.releases
    closed.found = interval.ends[0] is None, interval.ends[1] is None
    return closed


def has_single_values(interval: Interval) -> bool:
    """Check if each bin has one whole number or day, between bounds."""
    if interval.is_open:
        return False
    low, high = interval.ends
    step = _find_step(low, not interval.takes_fractions)
    return step is not None and len(interval) - interval.missing > (high - low) // step


def describe_interval(interval: Interval) -> dict[str, Any]:
    """Return the arguments of an interval by name: its bounds with the number of bins if it is even, or its edges."""
    bounds = _find_bounds(interval)
    if bounds is None:
        declared = list(map(shorten_edge, interval.edges))
        arguments: dict[str, Any] = {"edges": declared}
    else:
        declared = [bounds[name] for name in ("low", "high") if name in bounds]
        arguments = bounds
    if interval.missing:
        arguments["missing"] = True
    default = 0 if declared and are_integers(declared) else None
    if not declared and interval.real:
        default = -1  # without an end, the dtype decides
    if interval.dtype.kind != "M" and interval.decimals != default:
        is_real = interval.decimals is None
        arguments |= {"real": True} if is_real else {"decimals": interval.decimals}
    return arguments


def _find_bounds(interval: Interval) -> dict[str, Any] | None:
    """Return the arguments `low`, `high` and `bins` of an interval; None if its bins have other edges."""
    named = zip(("low", "high"), interval.ends, strict=True)
    bounds: dict[str, Any] = {
        x: shorten_edge(end) for x, end in named if end is not None
    }
    if interval.is_open:
        return bounds | ({"bins": interval._bins} if interval.has_bins else {})
    low, high = interval.ends
    bins = len(interval.edges) - 1
    if not interval.has_bins or (has_single_values(interval) and bins <= DEFAULT_BINS):
        return bounds
    if interval.takes_fractions:
        # Even edges of fractions and dates declare the same as bounds.
        step = _find_step(low, is_whole=False)
        with np.errstate(all="ignore"):
            is_even = interval.edges == tuple(make_even_edges(low, high, bins, step))
        if not is_even or interval.decimals == 0:
            return None
    return bounds | {"bins": bins}


def are_integers(declared: object) -> bool:
    """Check if edges or bounds, as written, are integers, which declare whole numbers."""
    return np.iterable(declared) and all(isinstance(e, Integral) for e in declared)


def _edges_between(
    low: Any, high: Any, bins: Any, *, is_whole: bool
) -> tuple[Any, ...]:
    """Check bounds and a number of bins, and return the edges of equal bins between the bounds."""
    _check_bins(bins)
    low, high = parse_edges([low, high], "`low` and `high`", is_whole=is_whole)
    step = _find_step(low, is_whole)
    if step == 1:
        low, high = np.ceil(low).item(), np.floor(high).item()
    if low >= high:
        raise ValueError(
            "`low` of an Interval must be less than high, got "
            f"{format_edge(low)} and {format_edge(high)}."
        )
    if step:
        n_values = int((high - low) // step) + 1
        bins = bins or min(DEFAULT_BINS, n_values)
        if bins > n_values:
            raise ValueError(
                f"`bins` of an Interval must be at most its {n_values} whole numbers or "
                f"days, got {bins}. For fractions, set `real=True`; for times of day, "
                "declare datetimes."
            )
    return tuple(make_even_edges(low, high, int(bins or DEFAULT_BINS), step))


def _check_bins(bins: int | None) -> None:
    """Check a number of bins, which may be None."""
    if bins is not None and (not is_whole_number(bins) or bins < 1):
        raise ValueError(
            f"`bins` of an Interval must be a whole number of at least 1, got {bins!r}."
        )


def _find_step(edge: Edge, is_whole: bool) -> Any:
    """Return the distance between successive whole numbers or days, by an edge; None for other types."""
    steps = {"number": 1 if is_whole else None, "date": timedelta(days=1)}
    return steps.get(type_of_value(edge))


def _find_whole_middle(low: float, high: float) -> int:
    """Return the middle of the whole numbers of a bin, rounded down."""
    return int((math.ceil(low) + high) // 2)


def _find_midpoint(low: float, high: float) -> Edge | int:
    """Return the midpoint of a bin of numbers, as int if it is whole, or of dates, rounded down."""
    if not isinstance(low, float):
        return low + (high - low) // 2
    midpoint = (low + high) / 2
    return int(midpoint) if midpoint.is_integer() else midpoint


@contextmanager
def name_column_in_errors(name: ColumnName) -> Iterator[None]:
    """Prefix the errors of a block of code with the name of a column."""
    try:
        yield
    except (TypeError, ValueError) as error:
        # **Privacy.** `call_safely` has replaced errors that may quote values of the data.
        # A ColumnError is a phrase without a period.
        message = str(error).removesuffix(".")
        raise type(error)(f"Column {name!r}: {message}.") from None


def _type_name(value: object) -> str:
    """Name the class of a value for an error."""
    return type(value).__name__


def _shorten_edges(edges: Sequence[Any]) -> str:
    """Format edges as a list, in which all edges after the sixth, except the last one, are omitted."""
    texts = list(map(repr, edges))
    if len(texts) > MAX_SHOWN_VALUES:
        texts[MAX_SHOWN_VALUES - 2 : -1] = ["…"]
    return f"[{', '.join(texts)}]"


def _shorten(texts: Iterable[str]) -> str:
    """Format strings as a list, in which long strings and all strings after the eighth are shortened."""
    shortened = []
    for text in texts:
        shortened.append(text if len(text) <= 200 else f"{text:.199}…")
    if len(shortened) > MAX_SHOWN_VALUES:
        shortened[MAX_SHOWN_VALUES:] = "…"
    return f"[{', '.join(shortened)}]"


def _interval_to_json(interval: Interval) -> dict[str, Any]:
    """Return the arguments of an Interval as types of JSON, with its edges unless they follow from whole bounds."""
    described = describe_interval(interval)
    names: Iterable[str] = {"low", "high", "bins"}
    if interval.has_bins and interval.takes_fractions and not interval.is_open:
        described, names = {"edges": list(interval.edges)}, {"edges"}
    names = sorted(described.keys() & names)
    arguments = {name: value_to_json(described[name]) for name in names}
    for name in ("missing", "real", "decimals"):
        arguments[name] = getattr(interval, name)
    return arguments


def _interval_from_json(content: dict[str, Any]) -> Interval:
    """Return the Interval of the output of `_interval_to_json`."""
    check_file_bins(content)
    names = ("low", "high", "bins", "edges", "missing", "real", "decimals")
    arguments = {x: value_from_json(content[x]) for x in names if x in content}
    return Interval(**arguments)


def check_file_bins(content: Mapping[str, Any]) -> None:
    """Check the number of bins that a file declares; it has a limit, because bins need memory."""
    bins = content.get("bins")
    if isinstance(bins, int) and bins > MAX_DECLARED_VALUES:
        raise ValueError(
            f"`bins` must be at most {MAX_DECLARED_VALUES:,} in a file, got {bins}."
        )


register_type("interval", Interval, _interval_to_json, _interval_from_json)


# Cached, because making a decoder takes as long as encoding a small batch.
@lru_cache(maxsize=256)
def find_decoder(
    attribute: Categories | Interval, library: str, is_ordered: bool | None
) -> Callable[[Codes], Any]:
    """Return a function that converts codes to a column in a library; the code of a bin becomes its midpoint.

    `is_ordered` is the result of `find_order`.
    """
    if isinstance(attribute, Interval) and attribute.dtype.kind == "M":
        midpoints = np.array(attribute.values, attribute.dtype)
        return lambda codes: to_column(midpoints[codes], library)
    if is_mixed(attribute):
        if library in ("numpy", "pandas"):
            return to_objects(attribute.values).__getitem__
        # In other libraries, a column cannot have numbers and text.
        attribute = Categories(map(to_text, attribute.values))
    declared_type = type_of_attribute(attribute)
    # The midpoint of a bin of whole numbers may have a fraction.
    if declared_type == "whole":
        declared_type = type_of_declared(attribute.values)
    dtype = find_dtype(library, declared_type, attribute.values, is_ordered=is_ordered)
    return make_decoder(attribute.values, library, dtype)


def find_order(attribute: Categories | Interval, column: object) -> bool | None:
    """Find the order of the output categories of a column: True, False, or None for a dtype without categories.

    **Privacy.** The categories of the dtype of a column are private, unless they are
    ordered, which declares them.
    """
    if isinstance(attribute, Interval) or not has_categories(column):
        return None
    return attribute.ordered or has_order_of(column, attribute.values)


def type_of_attribute(attribute: Categories | Interval) -> str:
    """Return the name of the type of the values of a column, as `type_of_declared` does."""
    if isinstance(attribute, Interval):
        if attribute.is_open:
            return "whole" if attribute.decimals == 0 else "real"
        return type_of_declared(attribute.edges, real=attribute.real)
    return "string" if is_mixed(attribute) else type_of_declared(attribute.values)


def dtype_of_attribute(
    attribute: Categories | Interval, library: str, column: object
) -> Any:
    """Return the dtype of declared values in a library; categories if possible, if the dtype of `column` has them."""
    if is_mixed(attribute):
        if library in ("numpy", "pandas"):
            return np.dtype(object)
        attribute = Categories(map(to_text, attribute.values))
    declared_type = type_of_attribute(attribute)
    # pandas has no dtype of days, so bins of dates become datetimes.
    is_binned = isinstance(attribute, Interval)
    if is_binned and (library, declared_type) == ("pandas", "date"):
        declared_type = "datetime"
    is_ordered = find_order(attribute, column)
    return find_dtype(library, declared_type, attribute.values, is_ordered=is_ordered)


# The category of all values that are not found. Surveys have "other" and "Other" as values; a
# value that equals this text is counted in this category, too.
OTHER = "(other)"


class FoundCategories(Categories):
    """The values of one column that a release found, and `OTHER` as the last value, which all other values are.

    The values are texts, whole numbers or booleans, and None for missing; values of several types become texts. Columns
    are read as texts, so 1, 1.0 and "1" are one value. All other objects, such as numbers with a fraction, are `OTHER`.
    Without `found`, the values are declared as values that a release finds.
    """

    def __init__(self, found: Iterable[Any] | None = None) -> None:
        self.is_open = found is None
        values: list[Any] = [value for _, value in map(to_typed, found or ())]
        texts = list(map(to_text, values))
        if len(types_of_values(values)) > 1:
            values = texts = sorted(set(texts), key=lambda text: (text is None, text))
        if OTHER in texts:
            raise TypeError(
                "expected texts, whole numbers or booleans, got another value. Declare an "
                "Interval for dates and for numbers with fractions."
            )
        super().__init__([*texts, OTHER])
        self.values = (*values, OTHER)
        self._coder = ValueCoder(texts)

    @property
    def found(self) -> tuple[Any, ...]:
        """The values that were found, without `OTHER`."""
        return self.values[:-1]

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), OTHER, self.is_open)

    def encode(self, column: object) -> Codes:
        """Encode a column by value; every value has a code."""
        # The code of an unknown value is the number of values that were found.
        if type_of_column(column) == "string":
            return self._coder.encode(column)
        indices, values = list_values(column)
        return self._coder.encode(to_objects(list(map(to_text, values)))).take(indices)


def is_mixed(attribute: Categories | Interval) -> bool:
    """Return True for numbers or booleans that a release found, beside the text of all other values."""
    is_found = isinstance(attribute, FoundCategories)
    return is_found and len(types_of_values(attribute.values)) > 1


def read_texts(column: Column) -> Any:
    """Return a column of text, or an array of the texts of other values; see `to_text`."""
    if type_of_column(column) == "string":
        return column
    indices, values = list_values(column)
    return to_objects(list(map(to_text, values))).take(indices)


def list_values(column: Column) -> tuple[Indices, list[Any]]:
    """Return the index of the value of each row, and the values, which may be repeated."""
    cells = np.asarray(column)
    is_number = cells.dtype.kind in "iub" or cells.dtype in (np.float32, np.float64)
    if not is_number:
        cells = to_objects(to_object_list(column))
    # Methods of other classes are not called, because they may run any code.
    if is_number or set(map(type, cells)) <= {str, float, type(None)}:
        indices, distinct = pd.factorize(cells, use_na_sentinel=False)
        return indices, distinct.tolist()
    return np.arange(len(cells)), cells.tolist()


def to_text(value: Any) -> str | None:
    """Return the text of a text, a whole number or a boolean; None if missing, and `OTHER` for other objects."""
    _, known = to_typed(value)
    return None if known is None else str(known)


def to_typed(value: Any) -> tuple[str, str | int | bool | None]:
    """Return the type and the value of a text, a whole number or a boolean; None if missing, otherwise `OTHER`.

    Types distinguish True from 1, and sort booleans and numbers before texts.
    """
    # Methods of subclasses of Python's types are not called, because they may run any code.
    kind = type(value)
    if issubclass(kind, str):
        return "string", str.__str__(value)
    if kind in (bool, np.bool_):
        return "boolean", bool(value)
    if kind in (int, float) or issubclass(kind, np.integer | np.floating):
        if value != value:
            return "unknown", None
        # The comparison excludes infinite numbers, and integers with too many digits for a text.
        is_whole = abs(value) <= MAX_WHOLE_NUMBER and value == int(value)
        return ("number", int(value)) if is_whole else ("string", OTHER)
    return ("unknown", None) if is_missing(value) else ("string", OTHER)


def _to_json(values: FoundCategories) -> list[Any] | None:
    return None if values.is_open else list(values.found)


register_type("found_categories", FoundCategories, _to_json, FoundCategories)
