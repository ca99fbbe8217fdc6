"""Conditions on columns, as weights of their cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics import find_range
from skdp.domain import Categories, Domain, Interval
from skdp.synthesis.tables import Shape
from skdp.tables import as_objects, is_missing, to_dates

_AGES = tuple(np.array(["-0001-01-01", "10001-01-01"], "datetime64[us]"))
"""Before and after all dates of Python."""

_LITTLE = 1e-6
"""The least share of a bin, and of its remainder, that is not taken for rounding."""


def read_conditions(
    domain: Domain, conditions: Any, shapes: Mapping[Any, Shape] | None = None
) -> dict[int, NDArray[np.float64]]:
    """Turn conditions into what share of each cell fulfils them."""
    if not isinstance(conditions, Mapping):
        raise TypeError(
            "conditions must be a mapping of column to values or (low, high), got "
            f"{type(conditions).__name__}"
        )
    weights = {}
    for name, condition in conditions.items():
        column = find_column(domain, name)
        values = domain[name]
        if not isinstance(condition, tuple):
            weights[column] = _value_weights(name, values, condition)
            continue
        if len(condition) != 2:
            raise ValueError(
                f"the range of column {name!r} must be a pair (low, high); a list is "
                "for values"
            )
        shape = shapes.get(name) if shapes else None
        weights[column] = range_weights(name, values, *condition, shape)
    return weights


def find_column(domain: Domain, name: Any, parameter: str = "") -> int:
    """Return the number of a column."""
    if name not in domain.columns:
        prefix = f"{parameter}: " if parameter else ""
        raise ValueError(
            f"{prefix}there is no column {name!r}; the columns are "
            f"{list(domain.columns)}"
        )
    return domain.columns.index(name)


def find_columns(
    domain: Domain, names: Iterable[Any], parameter: str = ""
) -> list[int]:
    """Return the numbers of distinct columns, at least one."""
    listed = list(names)
    columns = [find_column(domain, name, parameter) for name in listed]
    if not columns or len(set(columns)) < len(columns):
        prefix = f"{parameter}: " if parameter else ""
        raise ValueError(
            f"{prefix}columns must name at least one column, each once, got {listed}"
        )
    return columns


def range_weights(
    name: Any,
    values: Categories | Interval,
    low: Any,
    high: Any,
    shape: Shape | None = None,
) -> NDArray[np.float64]:
    """Return which share of each cell is in a half-open range."""
    if not isinstance(values, Interval):
        return find_range(name, values, low, high).astype(float)
    if values.dtype.kind == "f":
        start, stop = _read_numbers(name, low, high)
        edges = np.array(values.edges, float)
    else:
        start, stop = _read_dates(name, low, high)
        edges = np.array(values.edges, "datetime64[us]")
    if start > stop:
        raise ValueError(
            f"the range of column {name!r} must be (low, high): low must not be above "
            "high"
        )
    lowest = np.clip(start, edges[:-1], edges[1:])
    highest = np.clip(stop, edges[:-1], edges[1:])
    # Numbers are taken as evenly spread over the width of their bin.
    weights = (highest - lowest) / np.diff(edges)
    if shape is not None:
        # Of its records. What the shape says is an estimate: a part of a bin is never
        # for certain all or none of it.
        bin_shares = shape.share_below(edges[1:]) - shape.share_below(edges[:-1])
        shares = shape.share_below(highest) - shape.share_below(lowest)
        parts = weights.copy()
        np.divide(shares, bin_shares, out=parts, where=bin_shares > 0)
        parts = np.clip(parts, _LITTLE, 1 - _LITTLE)
        weights = np.where((weights > 0) & (weights < 1), parts, weights)
    if values.missing:  # it is in no range
        weights = np.append(weights, 0.0)
    return weights


def _read_numbers(name: Any, low: Any, high: Any) -> tuple[Any, Any]:
    if low is None:
        low = -np.inf
    if high is None:
        high = np.inf
    for end in (low, high):
        is_number = isinstance(end, int | float | np.number)
        if not is_number or isinstance(end, bool) or np.isnan(end):
            raise TypeError(
                f"the ends of a range of column {name!r} must be numbers or None, got "
                f"{type(end).__name__}"
            )
    return low, high


def _read_dates(name: Any, low: Any, high: Any) -> tuple[Any, Any]:
    ends = as_objects([low, high])
    dates = list(to_dates(ends, "datetime64[us]"))
    for index, end in enumerate(ends):
        if end is None:
            dates[index] = _AGES[index]
        elif np.isnat(dates[index]):
            raise TypeError(
                f"the ends of a range of column {name!r} must be dates, datetimes "
                f"without a time zone, or None, got {type(end).__name__}"
            )
    return dates[0], dates[1]


def _value_weights(
    name: Any, values: Categories | Interval, condition: Any
) -> NDArray[np.float64]:
    """Return 1 for the values of a condition, 0 for others."""
    weights = np.zeros(len(values))
    if isinstance(values, Interval):
        if values.missing and is_missing(condition):
            weights[-1] = 1
            return weights
        raise ValueError(
            f"column {name!r} has bins: ask for a range, a tuple (low, high)"
        )
    is_list = isinstance(condition, Iterable) and not isinstance(condition, str | bytes)
    listed = list(condition) if is_list else [condition]
    listed = [None if is_missing(value) else value for value in listed]
    codes = values.encode(as_objects(listed))
    if (codes == len(values)).any():
        raise ValueError(
            f"a value for column {name!r} is not among its declared ones, {values!r}"
        )
    weights[codes] = 1
    return weights
