"""Numbers and dates drawn within bins, and put in order between columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Categories, Interval, declared_kind
from skdp.synthesis.tables._shapes import Shape
from skdp.tables import as_objects, kind_of, number_dtype, to_dates

_LITTLE = 1e-12
"""The share of an empty cell, for the mean of a bin without records."""


def bin_ends(interval: Interval) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Return the least and largest of what is drawn in each bin, and the step."""
    edges = np.array(interval.edges, interval.dtype)
    if edges.dtype.kind != "f":
        return _date_ends(edges)
    dtype = number_dtype(declared_kind(interval))
    if dtype.kind in "iu":
        return *_whole_numbers(edges, dtype), 1
    if interval.decimals:
        return *_decimal_numbers(edges, interval.decimals), 10.0**-interval.decimals
    return edges[:-1], np.nextafter(edges[1:], edges[:-1]), 0


def count_values(grid: Interval) -> NDArray[np.float64]:
    """Return the number of values that may be drawn in each cell; of real numbers, its width."""
    lowest, highest, step = bin_ends(grid)
    if not step:
        return np.diff(np.array(grid.edges))
    return np.asarray(np.rint((highest - lowest) / step) + 1, float)


def values_of(values: Categories | Interval, column: Any) -> NDArray[Any]:
    """Read a column as numbers or dates; undeclared values of a list are missing."""
    if isinstance(values, Interval):
        return values.read(column)
    listed = listed_values(values)
    missing = np.array(["nan" if listed.dtype.kind == "f" else "NaT"], listed.dtype)
    return np.append(listed, missing)[values.encode(column)]


def listed_values(values: Categories) -> NDArray[Any]:
    """Return declared numbers or dates, which compare with edges; nan if missing."""
    kind = kind_of(next(value for value in values.values if value is not None))
    listed = as_objects(values.values)
    if kind == "number":
        return listed.astype(float)
    return to_dates(listed, "datetime64[D]" if kind == "date" else "datetime64[us]")


def draw(
    interval: Interval,
    codes: NDArray[np.integer],
    rng: np.random.Generator,
    positions: NDArray[np.float64] | None = None,
) -> NDArray[np.number | np.datetime64]:
    """Draw a number or a date in each bin, or take that at a given position."""
    lowest, highest, step = bin_ends(interval)
    bins = np.minimum(codes, lowest.size - 1)
    if interval.dtype.kind != "f":
        unit = step.astype(np.int64)
        low = lowest.astype(np.int64)[bins] // unit
        high = highest.astype(np.int64)[bins] // unit
        if positions is None:
            steps = rng.integers(low, high, endpoint=True)
        else:
            steps = low + np.floor(positions * (high - low + 1)).astype(np.int64)
        return (steps * unit).astype(lowest.dtype)
    if positions is None:
        positions = rng.random(codes.size)
    if step:
        n_steps = np.rint((highest - lowest) / step) + 1
        numbers = lowest[bins] + np.floor(positions * n_steps[bins]) * step
    else:
        widths = np.diff(np.array(interval.edges))
        numbers = lowest[bins] + positions * widths[bins]
    numbers = np.minimum(numbers, highest[bins])
    dtype = number_dtype(declared_kind(interval))
    return round_as_declared(numbers, interval).astype(dtype)


def round_as_declared(numbers: NDArray[Any], interval: Interval) -> NDArray[Any]:
    """Return the floats nearest to numbers of as many decimals as declared."""
    if not interval.decimals or numbers.dtype.kind != "f":
        return numbers
    # A number that was added up of steps may be off by a last bit; a whole number of
    # steps, divided, is not.
    steps_per_unit = 10.0**interval.decimals
    return np.rint(numbers * steps_per_unit) / steps_per_unit


def middles(interval: Interval, shape: Shape | None = None) -> NDArray[Any]:
    """Return what stands for each bin: the mean of what is drawn in it, or nearly."""
    # By a shape, the mean of the middles of its fine cells by their shares. Without one,
    # numbers are drawn evenly between the ends of a bin, and their mean is the middle.
    # Of dates it is the middle of the edges, rounded down.
    edges = np.array(interval.edges, interval.dtype)
    if shape is not None:
        grid = np.array(shape.grid.edges, interval.dtype)
        shares = np.diff(shape.below) + _LITTLE
        starts = np.searchsorted(grid, edges[:-1])
        distances = middles(shape.grid) - edges[0]
        sums = np.add.reduceat(distances.astype(float) * shares, starts)
        means = sums / np.add.reduceat(shares, starts)
        return edges[0] + means.astype(distances.dtype)
    if interval.dtype.kind != "f":
        return edges[:-1] + (edges[1:] - edges[:-1]) // 2
    lowest, highest, step = bin_ends(interval)
    if not step:
        lowest = edges[:-1]
        highest = edges[1:]
    return lowest / 2 + highest / 2  # their sum may be beyond the range of floats


def _steps_between(
    lowest: NDArray[Any], highest: NDArray[Any], least: Any, most: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the first and the last step of each bin; the nearest one, if none."""
    lowest = np.clip(lowest, least, most)
    highest = np.clip(highest, least, most)
    highest[-1] = most  # the last bin is closed
    return np.minimum(lowest, highest), highest


def _whole_numbers(
    edges: NDArray[np.float64], dtype: np.dtype[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and last whole number of each bin that a dtype holds."""
    limits = np.iinfo(dtype)
    least = max(np.ceil(edges[0]), float(limits.min))
    most = min(np.floor(edges[-1]), float(limits.max))
    if most > limits.max:  # rounded up
        most = float(np.nextafter(most, 0.0))
    above = np.ceil(edges)
    return _steps_between(above[:-1], above[1:] - 1, least, most)


def _decimal_numbers(
    edges: NDArray[np.float64], decimals: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and last number of some decimals in each bin."""
    unit = 10.0**decimals
    # An edge is multiplied with an error of its last bits: the number of steps is
    # corrected by comparison.
    above = np.rint(edges * unit)
    above += above / unit < edges
    least = above[0]
    most = max(least, above[-1] - (above[-1] / unit > edges[-1]))
    lowest, highest = _steps_between(above[:-1], above[1:] - 1, least, most)
    return lowest / unit, highest / unit


def _date_ends(edges: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Return the ends of bins of whole days, whole seconds, or microseconds."""
    seconds = edges.astype("datetime64[s]")
    step = edges.dtype
    if np.datetime_data(step)[0] == "us" and (seconds == edges).all():
        step = seconds.dtype
    steps = edges.astype(step).astype(np.int64)
    lowest, highest = _steps_between(steps[:-1], steps[1:] - 1, steps[0], steps[-1])
    unit = np.ones(1, f"timedelta64[{np.datetime_data(step)[0]}]")
    unit = unit.astype(f"timedelta64[{np.datetime_data(edges.dtype)[0]}]")
    lowest = lowest.astype(step).astype(edges.dtype)
    highest = highest.astype(step).astype(edges.dtype)
    return lowest, highest, unit[0]
