"""Columns of dates, datetimes and durations as numbers of days."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import compress
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import Column, ColumnName, Floats
from skdp.domain import Interval
from skdp.tables import Table, library_of, to_dates, type_of_column

# Types of columns of times.
DATE, DATETIME, DURATION = "date", "datetime", "duration"

SECONDS_PER_DAY = 86_400
MICROSECONDS_PER_DAY = 1_000_000 * SECONDS_PER_DAY

# Ranges of days of dates, of the years 1 to 9999, and of durations, which Python represents.
DAYS, MAX_DAYS = (-719_162.0, 2_932_896.0), (-9e7, 9e7)

# Types of the ends of bounds of columns of Python objects.
_TIME = date | timedelta | np.datetime64 | np.timedelta64


def find_times(table: Table, names: Sequence[Any], bounds: object) -> dict[Any, str]:
    """Return the type of each named column of dates, datetimes or durations.

    A column of Python objects has the type of its declared bounds.
    """
    times = {}
    for name in names:
        column = table.columns[table.names.index(name)]
        column_type = type_of_column(column)
        if column_type in (DATE, DATETIME):
            times[name] = column_type
        elif _is_duration(column):
            times[name] = DURATION
        elif str(getattr(column, "dtype", "")) == "object":
            for end in _list_ends(bounds, name):
                if isinstance(end, _TIME):
                    is_date = isinstance(end, date | np.datetime64)
                    times[name] = DATETIME if is_date else DURATION
    return times


def _is_duration(column: Column) -> bool:
    """Return True for a dtype of durations."""
    if library_of(column) == "numpy":
        return bool(column.dtype.kind == "m")
    dtype = nw.from_native(column, series_only=True).dtype
    return isinstance(dtype, nw.Duration)


def _list_ends(bounds: object, name: ColumnName) -> list[Any]:
    """Return the declared ends of a column; none without a pair."""
    if isinstance(bounds, Mapping):
        bounds = bounds.get(name)
    ends = bounds.ends if isinstance(bounds, Interval) else bounds
    return list(ends) if isinstance(ends, tuple | list) else []


def convert_times(table: Table, times: Mapping[Any, str]) -> Table:
    """Return a table whose columns of times are numbers of days: since 1970 for dates; missing values are nan."""
    columns = [
        _to_days(column, times[name]) if name in times else column
        for name, column in zip(table.names, table.columns, strict=True)
    ]
    return Table(table.names, tuple(columns), table.native, has_dtypes=table.has_dtypes)


def _to_days(column: Column, kind: str) -> Floats:
    """Convert a column of times to numbers of days."""
    if kind != DURATION:
        cells: NDArray[Any] = to_dates(column, "datetime64[us]")
    elif library_of(column) != "numpy" and _is_duration(column):
        cells = nw.from_native(column, series_only=True).to_numpy()
    else:
        cells = np.asarray(column)
    if cells.dtype == object:  # other objects than durations are missing
        # Methods of other classes are not called, because they may run any code.
        types = (timedelta, pd.Timedelta, np.timedelta64)
        durations = [x if type(x) in types else None for x in cells.tolist()]
        cells = np.array(durations, "timedelta64[us]")
    unit = "timedelta64[us]" if kind == DURATION else "datetime64[us]"
    cells = cells.astype(unit)
    days: Floats = cells.astype(np.int64) / MICROSECONDS_PER_DAY
    return np.where(np.isnat(cells), np.nan, days)


def convert_bounds(bounds: Any, times: Mapping[Any, str]) -> Any:
    """Return bounds whose ends of times are numbers of days, integers for days of columns of dates."""
    if not times or bounds is None:
        return bounds
    if isinstance(bounds, Mapping):
        return {
            name: _convert_pair(declared, times[name], name)
            if name in times
            else declared
            for name, declared in bounds.items()
        }
    (name, kind), *_ = times.items()
    if any(isinstance(pair, list | tuple | np.ndarray) for pair in bounds):
        raise TypeError(
            "`bounds` must be a mapping of column name to pair with columns of dates or "
            f"durations, {list(times)}, got a row for each column."
        )
    return _convert_pair(bounds, kind, name)


def _convert_pair(declared: Any, kind: str, name: ColumnName) -> Any:
    """Return the bounds of a column of times as numbers of days."""
    ends = declared.ends if isinstance(declared, Interval) else declared
    if ends is None:
        return None
    return tuple(_convert_end(end, kind, name) for end in ends)


def _convert_end(end: object, kind: str, name: ColumnName) -> Any:
    """Return an end of bounds as a number of days; None stays open."""
    if end is None:
        return None
    expected = timedelta | np.timedelta64 if kind == DURATION else date | np.datetime64
    if not isinstance(end, expected) or end != end:
        what = "durations, such as timedelta(days=1)" if kind == DURATION else "dates"
        raise TypeError(
            f"`bounds` of column {name!r} must be two {what}, or None for an open end, "
            f"got {type(end).__name__}."
        )
    if getattr(end, "tzinfo", None) is not None:
        raise ValueError(
            f"`bounds` of column {name!r} must be dates without a time zone, got one "
            "with a time zone."
        )
    unit = "timedelta64[us]" if kind == DURATION else "datetime64[us]"
    microseconds = int(np.array(end, unit).astype(np.int64))
    days, rest = divmod(microseconds, MICROSECONDS_PER_DAY)
    return days if kind == DATE and not rest else microseconds / MICROSECONDS_PER_DAY


def to_times(days: ArrayLike, *, is_duration: bool) -> NDArray[Any]:
    """Convert numbers of days to durations, or to dates with the time of day in seconds; nan is missing."""
    unit, limits = (
        ("timedelta64[s]", MAX_DAYS) if is_duration else ("datetime64[s]", DAYS)
    )
    clipped = np.clip(np.asarray(days, float), *limits)
    seconds = np.rint(np.nan_to_num(clipped) * SECONDS_PER_DAY).astype(np.int64)
    times = seconds.astype(unit)
    times[np.isnan(clipped)] = "NaT"
    # Libraries have different ranges of seconds.
    return times.astype(unit.replace("[s]", "[us]"))


def format_days(days: float, kind: str) -> str:
    """Format a number of days as a date, or as a duration."""
    if kind == DURATION:
        return f"{days:,.12g} days"
    text = str(to_times([days], is_duration=False)[0].astype("datetime64[s]"))
    return text.removesuffix("T00:00:00")


def format_ranges(
    names: Sequence[Any], ranges: Floats, times: Mapping[Any, str]
) -> list[str]:
    """Format ranges of columns, (n_columns, 2), for the note of method; `times` has the types of columns of times."""
    is_open = np.array(np.isinf(ranges).all(axis=1))
    texts = [
        f"{name} from {_format_end(low, times.get(name))} to "
        f"{_format_end(high, times.get(name))}"
        for name, (low, high) in zip(
            compress(names, ~is_open), ranges[~is_open].tolist(), strict=True
        )
    ]
    if is_open.any():
        opened = ", ".join(map(str, compress(names, is_open)))
        texts.append(f"{opened} between limits that are found")
    return texts


def _format_end(end: float, kind: str | None) -> str:
    """Format the end of a range for the note of method."""
    if not math.isfinite(end):
        return "a limit that is found"
    return f"{end:,.12g}" if kind is None else format_days(end, kind)
