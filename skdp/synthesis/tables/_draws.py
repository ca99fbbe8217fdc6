"""Numbers and dates drawn within bins."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain import Categories, Interval
from skdp.synthesis.tables._shapes import Shape
from skdp.tables import held_dates, kind_of, time_type, to_dates

_LITTLE = 1e-12  # the share of an empty cell, for the mean of a bin without records


def bin_ends(
    interval: Interval, like: Any = None
) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Return the least and the largest of what is drawn in each bin of a column, and the step between values."""
    edges = np.array(interval.edges, interval.dtype)
    if edges.dtype.kind != "f":
        return _date_ends(edges, None if like is None else time_type(like))
    dtype = (
        np.dtype(float if interval.real else int)
        if like is None
        else _number_type(like)
    )
    if dtype.kind in "iu":
        return *_whole_numbers(edges, dtype), 1
    if interval.decimals:
        return *_decimal_numbers(edges, interval.decimals), 10.0**-interval.decimals
    edges = edges.astype(dtype)
    return edges[:-1], np.nextafter(edges[1:], edges[:-1]), 0


def ends_of(values: Categories | Interval) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the least and the largest value of each declared cell that is not missing."""
    if isinstance(values, Interval):
        return bin_ends(values)[:2]
    found = listed_values(values)
    found = found[~np.isnan(found)]
    return found, found


def values_of(values: Categories | Interval, column: Any) -> NDArray[Any]:
    """Read a column as numbers or dates that can be compared with others; undeclared values of a list are missing."""
    if isinstance(values, Interval):
        return values.read(column)
    listed = listed_values(values)
    return np.append(
        listed, np.array(["nan" if listed.dtype.kind == "f" else "NaT"], listed.dtype)
    )[values.encode(column)]


def draw(
    interval: Interval,
    codes: NDArray[np.integer],
    like: Any,
    rng: np.random.Generator,
    inside: NDArray[np.float64] | None = None,
) -> NDArray[np.number | np.datetime64]:
    """Draw a number or a date in each bin, or take that at a given place: a whole one, if the column has these."""
    first, last, step = bin_ends(interval, like)
    bins = np.minimum(codes, first.size - 1)
    if interval.dtype.kind != "f":
        unit = step.astype(np.int64)
        low, high = (ends.astype(np.int64)[bins] // unit for ends in (first, last))
        if inside is None:
            return (rng.integers(low, high, endpoint=True) * unit).astype(first.dtype)
        return (
            (low + np.floor(inside * (high - low + 1)).astype(np.int64)) * unit
        ).astype(first.dtype)
    dtype, uniform = (
        _number_type(like),
        rng.random(codes.size) if inside is None else inside,
    )
    if step:
        n_steps = np.rint((last - first) / step) + 1
        numbers = first[bins] + np.floor(uniform * n_steps[bins]) * step
    else:
        numbers = first[bins] + uniform * np.diff(np.array(interval.edges, dtype))[bins]
    numbers = np.minimum(numbers, last[bins])
    return round_as_declared(numbers, interval).astype(dtype)


def round_as_declared(numbers: NDArray[Any], interval: Interval) -> NDArray[Any]:
    """Return the floats nearest to numbers of as many decimals as declared: sums of steps are off by a last bit."""
    if not interval.decimals or numbers.dtype.kind != "f":
        return numbers
    return np.rint(numbers * 10.0**interval.decimals) / 10.0**interval.decimals


def middles(interval: Interval, like: Any, shape: Shape | None = None) -> NDArray[Any]:
    """Return the mean of what is drawn in each bin."""
    edges = np.array(interval.edges, interval.dtype)
    if shape is not None:
        grid, shares = (
            np.array(shape.grid.edges, interval.dtype),
            np.diff(shape.below) + _LITTLE,
        )
        fine, starts = middles(shape.grid, like), np.searchsorted(grid, edges[:-1])
        beyond = (fine - edges[0]).astype(float)
        means = np.add.reduceat(beyond * shares, starts) / np.add.reduceat(
            shares, starts
        )
        return edges[0] + means.astype((fine - edges[0]).dtype)
    if interval.dtype.kind != "f":
        return edges[:-1] + (edges[1:] - edges[:-1]) // 2
    first, last, step = bin_ends(interval, like)
    if not step:
        first, last = edges[:-1], edges[1:]
    return first / 2 + last / 2  # their sum may be beyond the range of floats


def ends_of_cells(grid: Interval) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the largest of what is drawn in each fine cell, beyond the start of the grid."""
    first, last, _ = bin_ends(grid)
    return (first - first[0]).astype(float), (last - first[0]).astype(float)


def listed_values(values: Categories) -> NDArray[Any]:
    """Return declared numbers or dates as what compares with the edges of an interval, nan or NaT for missing."""
    kind = kind_of(next(value for value in values.values if value is not None))
    if kind == "number":
        return np.array(
            [np.nan if value is None else value for value in values.values], float
        )
    listed = np.array([*values.values, None], object)[:-1]
    return to_dates(listed, "datetime64[D]" if kind == "date" else "datetime64[us]")


def _whole_numbers(
    edges: NDArray[np.float64], dtype: np.dtype[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and last whole number of a bin; the nearest one that the domain and the dtype hold, if none."""
    limits = np.iinfo(dtype)
    least, most = (
        max(np.ceil(edges[0]), float(limits.min)),
        min(np.floor(edges[-1]), float(limits.max)),
    )
    if most > limits.max:  # rounded up
        most = float(np.nextafter(most, 0.0))
    first, last = (
        np.clip(np.ceil(edges[:-1]), least, most),
        np.clip(np.ceil(edges[1:]) - 1, least, most),
    )
    last[-1] = most  # the last bin is closed
    first[last < first] = last[last < first]
    return first, last


def _decimal_numbers(
    edges: NDArray[np.float64], decimals: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and last number of some decimals in each bin; the nearest one of the domain, if none."""
    unit = 10.0**decimals
    # An edge is multiplied with an error of its last bits: the number of steps is corrected by comparison.
    above = np.rint(edges * unit)
    above += above / unit < edges
    least, most = above[0], above[-1] - (above[-1] / unit > edges[-1])
    most = max(least, most)
    first, last = np.clip(above[:-1], least, most), np.clip(above[1:] - 1, least, most)
    last[-1] = most  # the last bin is closed
    first[last < first] = last[last < first]
    return first / unit, last / unit


def _date_ends(
    edges: NDArray[Any], kept: np.dtype[Any] | None
) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Return the ends of bins of dates: whole days, otherwise whole seconds if the edges are, or microseconds."""
    seconds = edges.astype("datetime64[s]")
    step = (
        _coarser(edges.dtype, seconds.dtype)
        if (seconds == edges).all()
        else edges.dtype
    )
    step = step if kept is None else _coarser(step, kept)
    first, last = (
        ends.astype(step).astype(edges.dtype)
        for ends in _whole_steps(held_dates(edges, kept), step)
    )
    unit = np.ones(1, f"timedelta64[{np.datetime_data(step)[0]}]")
    return (
        first,
        last,
        unit.astype(f"timedelta64[{np.datetime_data(edges.dtype)[0]}]")[0],
    )


def _coarser(one: np.dtype[Any], other: np.dtype[Any]) -> np.dtype[Any]:
    return other if np.promote_types(one, other) == one else one


def _whole_steps(
    edges: NDArray[np.datetime64], step: np.dtype[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and the last whole step in each bin; the nearest one of the domain, if it has none."""
    below = edges.astype(step)
    above = below.astype(np.int64) + (below.astype(edges.dtype) < edges)
    least, most = above[0], below[-1].astype(np.int64)
    first, last = np.clip(above[:-1], least, most), np.clip(above[1:] - 1, least, most)
    last[-1] = most  # the last bin is closed
    return np.minimum(first, last), last


def _number_type(like: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of the numbers of a column; that of floats, where the column's own says nothing."""
    dtype = (
        like.dtype
        if isinstance(like, np.ndarray | pd.Series)
        else nw.from_native(like, series_only=True).dtype
    )
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if isinstance(dtype, nw.dtypes.DType):
        name = str(dtype).lower()  # Int64 is np.int64
        return np.dtype(name if dtype.is_numeric() and hasattr(np, name) else "float64")
    found = getattr(dtype, "numpy_dtype", dtype)
    return (
        found
        if isinstance(found, np.dtype) and found.kind in "iuf"
        else np.dtype(float)
    )
