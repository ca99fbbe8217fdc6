"""The edges of bins: read, and made of the ends of a range."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from skdp.coding import kind_of

Edge = float | date
"""A number, a date or a datetime (a subclass of date)."""

_MICROSECOND = timedelta.resolution
_EVERY_MONTH = 28
"""The last day that every month has."""


def even_edges(low: Any, high: Any, bins: int) -> list[Any]:
    """Return the edges of `bins` even bins; bins of dates have equal numbers of months if possible."""
    if isinstance(low, float):
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # edges that are not finite are refused later
            return np.linspace(low, high, bins + 1).tolist()
    months = 12 * (high.year - low.year) + high.month - low.month
    if (
        months
        and months % bins == 0
        and low.day <= _EVERY_MONTH
        and _after(low, months) == high
    ):
        return [_after(low, index * months // bins) for index in range(bins + 1)]
    span = (high - low) // _MICROSECOND
    return [low + index * span // bins * _MICROSECOND for index in range(bins + 1)]


def _after(start: Any, months: int) -> Any:
    year, month = divmod(12 * start.year + start.month - 1 + months, 12)
    return start.replace(year=year, month=month + 1)


def read_edges(edges: Any, what: str) -> tuple[Any, ...]:
    if isinstance(edges, str) or not np.iterable(edges):
        raise TypeError(
            f"{what} of an Interval must be a sequence, got {type(edges).__name__}"
        )
    found = tuple(map(_read_edge, edges))
    if len({kind_of(edge) for edge in found}) > 1:
        raise TypeError(
            f"{what} of an Interval must be all numbers, all dates, or all datetimes"
        )
    return found


def _read_edge(edge: Any) -> Edge:
    if isinstance(edge, date | np.datetime64):
        if pd.isna(edge):
            raise ValueError("Interval needs edges that are finite, got a missing date")
        if isinstance(edge, pd.Timestamp | np.datetime64):
            edge = pd.Timestamp(edge)
            if edge.nanosecond:
                raise ValueError(
                    "Interval holds datetimes to the microsecond, not the nanosecond"
                )
            edge = edge.to_pydatetime()
        if isinstance(edge, datetime) and edge.tzinfo is not None:
            raise ValueError("Interval needs datetimes without a time zone")
        return edge
    if isinstance(edge, bool | np.bool_) or not isinstance(edge, Real | Decimal):
        raise TypeError(
            f"Interval needs edges that are numbers, dates or datetimes, got {type(edge).__name__}"
        )
    try:
        number = float(edge)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("Interval needs edges that are finite")
    return number
