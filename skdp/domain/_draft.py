"""The values that occur in a table, as declarations: of a public table, or a draft to be edited before any release."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain._attributes import Interval
from skdp.domain._dtypes import domains_of_dtypes
from skdp.tables import (
    ColumnError,
    Table,
    distinct_values,
    has_more_decimals,
    is_frame,
    is_whole_number,
    kind_of,
    read_table,
    to_numbers,
)

_N_BINS = 32
"""Bins of a column of many numbers or dates: what a person reads at a glance."""

MAX_DRAFT_DECIMALS = 6
"""Decimals that are drafted, as of degrees; numbers with more may have any fraction.

Of fractions below a million, 1 of 500 is as near to one of six decimals as errors of floats are: sixteen times the last
place, 1.2e-10, of steps of 1e-6."""

_MAX_PUBLIC_VALUES = 1_000
"""Values of a public column that are listed; nobody has to read them, as those of a draft."""

_MAX_PUBLIC_NUMBERS = 2 * _N_BINS
"""Different numbers of a public column that are listed; more are cut into bins.

Values of a list are counted together if they are rare against the noise, so a list is finer where noise
is small. Of distances of pairs with protected columns with 32, those with 64 are on LSAC and COMPAS .62 to
.87 at an epsilon of 4, .71 to 1.07 at 1, and .90 to 1.03 at .5. With 100, those of Adult at 4 are .92 to .97
by single values, but 1.2 to 1.3 by the bins of its domain."""


def read_public_values(
    table: Table, names: Collection[Any]
) -> tuple[dict[Any, list[Any] | Interval], dict[Any, str]]:
    """Read the values of public columns: a list of each, or bins of many numbers or dates.

    Of columns of which neither can be made, missing stands for all values; returned is why, too.
    """
    values: dict[Any, list[Any] | Interval] = {}
    left_out = {}
    for name, column in zip(table.names, table.columns, strict=True):
        if name not in names:
            continue
        try:
            distinct, has_missing = distinct_values(column)
            # Missing is the only value of a column without others.
            if not distinct:
                values[name] = [None]
                continue
            # Asked for as many bins as there are numbers, `_draft_values` lists them.
            n_bins = len(distinct)
            if n_bins > _MAX_PUBLIC_NUMBERS:
                n_bins = _N_BINS
            listed = _draft_values(column, distinct, n_bins, _MAX_PUBLIC_VALUES)
        except (ColumnError, _LeftOut) as error:
            values[name] = [None]
            left_out[name] = str(error)
            continue
        if isinstance(listed, Interval) and listed.dtype.kind == "f":
            # Later rows may have fractions.
            listed = Interval(edges=listed.edges, real=True)
        values[name] = _with_missing(listed) if has_missing else listed
    return values, left_out


class _LeftOut(ValueError):
    """No domain can be drafted for a column; the message continues "it ..." and holds no value."""


def draft_columns(
    frame: Any, *, bins: int, max_values: int
) -> tuple[dict[Any, list[Any] | Interval], dict[Any, str]]:
    """Return the values that occur in each column, or bins of them, and why each other column has none."""
    # Numbers with more than `bins` distinct values become bins of equal width, with ends
    # rounded outwards; with more than `max_values`, dates become at most `bins` days,
    # weeks, months or years, and other columns are left out.
    for name, number in (("bins", bins), ("max_values", max_values)):
        if not is_whole_number(number) or number < 1:
            raise ValueError(
                f"{name} must be a whole number of at least 1, got {number!r}"
            )
    if not is_frame(frame):
        raise TypeError(
            f"expected a pandas, polars or pyarrow table, got {type(frame).__name__}"
        )
    table = read_table(frame)
    declared, _ = domains_of_dtypes(table)
    columns = {}
    left_out = {}
    for name, column in zip(table.names, table.columns, strict=True):
        try:
            distinct, has_missing = distinct_values(column)
            values: list[Any] | Interval
            if name in declared:
                values = declared[name]
            else:
                values = _draft_values(column, distinct, bins, max_values)
        except (ColumnError, _LeftOut) as error:
            left_out[name] = str(error)
            continue
        columns[name] = _with_missing(values) if has_missing else values
    return columns, left_out


def _with_missing(values: list[Any] | Interval) -> list[Any] | Interval:
    if isinstance(values, Interval):
        return Interval(
            edges=values.edges,
            missing=True,
            real=values.real,
            decimals=values.decimals,
        )
    return [*values, None]


def _draft_values(
    column: Any, values: list[Any], bins: int, max_values: int
) -> list[Any] | Interval:
    """Return the values to list of a column, or the bins of an interval."""
    # All values are of one kind, as `distinct_values` checks.
    kind = kind_of(values[0]) if values else ""
    if kind == "boolean":
        return [False, True]
    if kind == "number":
        if len(values) > bins:
            return _cut_numbers(to_numbers(column), bins)
        if not all(map(math.isfinite, values)):
            raise _LeftOut("holds infinite numbers")
        return [int(value) if value == int(value) else value for value in values]
    if kind in ("date", "datetime") and len(values) > max_values:
        return Interval(edges=_cut_dates(values, bins))
    if kind not in ("string", "date", "datetime"):
        raise _LeftOut(f"holds values of type {kind}" if kind else "holds no value")
    if len(values) > max_values:
        raise _LeftOut(
            f"has more than {max_values} distinct values; declare them by hand, "
            "grouped, or drop it"
        )
    return values


def _cut_numbers(numbers: NDArray[np.floating], bins: int) -> Interval:
    """Cut the range of numbers into at most `bins` bins of a round width, from a multiple of it."""
    finite = numbers[np.isfinite(numbers)]
    if finite.size == 0:
        raise _LeftOut("holds infinite numbers")
    low, high = Fraction(float(finite.min())), Fraction(float(finite.max()))
    are_whole = bool((finite == np.floor(finite)).all())
    most = max(bins, 2)  # one bin around 0 has no multiples of a width as ends
    for width in _round_widths((high - low) / most, are_whole):
        first, end = math.floor(low / width), math.ceil(high / width)
        # The last bin is closed, so whole numbers get one more bin: all are equally wide.
        if are_whole:
            end = math.floor(high / width) + 1
        n_bins = max(end - first, 1)
        if n_bins <= most:
            break
    low, high = first * width, (first + n_bins) * width
    try:
        with np.errstate(all="ignore"):
            interval = Interval(
                float(low), float(high), bins=min(n_bins, bins), real=not are_whole
            )
    except (ValueError, OverflowError):
        raise _LeftOut(
            "has a range that floating-point numbers cannot cut into bins"
        ) from None
    return interval if are_whole else _with_decimals(interval, finite)


def _with_decimals(interval: Interval, numbers: NDArray[np.floating]) -> Interval:
    """Declare how many decimals all numbers have, if they are few."""
    for decimals in range(1, MAX_DRAFT_DECIMALS + 1):
        if has_more_decimals(numbers, decimals).any():
            continue
        # An error where floats at the ends hold fewer.
        with suppress(ValueError):
            return Interval(edges=interval.edges, decimals=decimals)
    return interval


def _round_widths(least: Fraction, are_whole: bool) -> Iterator[Fraction]:
    """Yield 1, 2 and 5 times the powers of ten, from some width on."""
    n_digits = len(str(least.numerator)) - len(str(least.denominator))
    for power in itertools.count(n_digits - 1):
        for step in (1, 2, 5):
            width = step * Fraction(10) ** power
            if width >= least and (width.denominator == 1 or not are_whole):
                yield width


# Usual widths of bins of times, as units of NumPy and their numbers, to a tenth of the
# calendar.
_WIDTHS = (
    *[("s", 1), ("s", 15), ("m", 1), ("m", 15), ("h", 1), ("h", 6)],
    *[("D", 1), ("D", 7), ("M", 1), ("M", 3), ("Y", 1), ("Y", 2), ("Y", 5)],
    *[("Y", 10), ("Y", 20), ("Y", 50), ("Y", 100), ("Y", 1000)],
)

_FIRST_MONDAY = "0001-01-01"
# Bins begin on multiples of their width from here: weeks on Mondays, decades in years
# that end in 0.
_FIRST_YEAR = "0000"


def _cut_dates(values: Sequence[Any], bins: int) -> list[date]:
    """Cut the range of sorted dates into at most `bins` bins of a usual width; midnights count as days."""
    low, high = values[0], values[-1]
    if getattr(low, "tzinfo", None) is not None:
        raise _LeftOut("holds times with a time zone, for which there are no bins")
    are_times = False
    if kind_of(low) == "datetime":
        are_times = any(value != value.normalize() for value in values)
        try:
            low, high = low.to_pydatetime(warn=False), high.to_pydatetime(warn=False)
        except ValueError:
            raise _LeftOut(
                "has times beyond the year 9999, for which there are no bins"
            ) from None
    ends = np.array([low, high], "datetime64[s]")
    most = max(bins, 2)  # as for numbers: one bin may not cover it
    for unit, multiple in _WIDTHS:
        if unit in "smh" and not are_times:
            continue
        first_text = _FIRST_YEAR if unit in "MY" else _FIRST_MONDAY
        origin = np.array(first_text, f"datetime64[{unit}]")
        n_units = (ends.astype(f"datetime64[{unit}]") - origin).astype(int)
        first, last = (n_units // multiple).tolist()
        if last - first < most:
            break
    edges = origin + np.arange(first, last + 2) * multiple
    # An edge may be beyond the calendar of Python.
    kind = datetime if are_times else date
    time_unit = "datetime64[us]" if are_times else "datetime64[D]"
    calendar = np.array([kind.min, kind.max], time_unit)
    edges = np.unique(np.clip(edges.astype(time_unit), calendar[0], calendar[1]))
    # The widest bins may still be too many.
    dates: list[date] = (edges if edges.size <= bins + 1 else edges[[0, -1]]).tolist()
    return dates
