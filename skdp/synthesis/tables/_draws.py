"""Numbers and dates drawn within bins, and put in order between columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

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


def ends_of(values: Categories | Interval) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the least and the largest value of each declared cell but missing."""
    if isinstance(values, Interval):
        lowest, highest, _ = bin_ends(values)
        return lowest, highest
    listed = listed_values(values)
    present = listed[~np.isnan(listed)]
    return present, present


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


_DIGITS = 6
"""To which a number of steps is known, after the errors of floats."""

_SORTS = 8
"""How often rows are sorted, after which bins get their values back."""

_SHUFFLES = 10
"""How often each row offers its values to another row of the same bin."""

Order: TypeAlias = Sequence[tuple[Any, Any]]
"""Pairs of columns of which the first is not above the second, the lowest first."""

Present: TypeAlias = Mapping[tuple[Any, Any], NDArray[np.bool_]]
"""For each pair, the rows in which neither value is missing."""


@dataclass(frozen=True, eq=False)
class Bins:
    """The bin of each row."""

    codes: NDArray[np.integer]

    @classmethod
    def of(cls, codes: NDArray[np.integer]) -> Self:
        """Make bins of codes."""
        # NumPy sorts integers of 16 bits by radix: in a tenth of the time.
        return cls(codes.astype(np.min_scalar_type(int(codes.max(initial=0)))))

    def sort(
        self, rng: np.random.Generator, values: NDArray[Any] | None = None
    ) -> NDArray[np.intp]:
        """Return the rows of each bin in turn, by values, ties in random order."""
        rows = rng.permutation(self.codes.size)
        if values is not None:
            rows = rows[np.argsort(values[rows], kind="stable")]
        return rows[np.argsort(self.codes[rows], kind="stable")]

    def draw_pairs(
        self, rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Draw pairs of rows of the same bin that have no row in common."""
        rows = self.sort(rng)
        first = rows[:-1:2]
        second = rows[1::2]
        is_same = self.codes[first] == self.codes[second]
        return first[is_same], second[is_same]


@dataclass(eq=False)
class Spread:
    """The values of a column, and the bounds between which they may be moved."""

    values: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    missing: NDArray[np.bool_]
    """Of these nothing is said."""
    step: Any = 0
    bins: Bins | None = None
    """If where the values are in their bins is known, and is to remain so."""


def fixed(values: NDArray[Any]) -> Spread:
    """Let no value move."""
    return Spread(values.copy(), values, values, np.isnan(values))


def spread(
    values: Categories | Interval,
    codes: NDArray[np.integer],
    drawn: Any,
    *,
    shaped: bool,
) -> Spread:
    """Let values move within their bins; `drawn` will hold what becomes of them."""
    if not isinstance(values, Interval):
        return fixed(listed_values(values)[codes])
    lowest, highest, step = bin_ends(values)
    bins = np.minimum(codes, lowest.size - 1)
    return Spread(
        drawn,
        lowest[bins],
        highest[bins],
        codes >= lowest.size,
        step,
        Bins.of(codes) if shaped else None,
    )


def keep_order(
    columns: Mapping[Any, Spread], order: Order, rng: np.random.Generator
) -> None:
    """Make each value at most the one that it has to be below."""
    if not order:
        return
    present = {}
    for below, above in order:
        present[below, above] = ~(columns[below].missing | columns[above].missing)
    movable = {}
    for name, column in columns.items():
        if column.bins is not None:
            movable[name] = column.bins
    if movable and _out_of_order(columns, order, present).any():
        # Which of the values of its bin a row has is not known: all permutations of
        # them have the same chance. The order says more: only those are left in which
        # rows are in order. One of them is found by sorting, and a random one by
        # exchanging values at random from there.
        _sort(columns, movable, order, present, rng)
        _shuffle(columns, movable, order, present, rng)
    _mend(columns, order, present, rng)


def _out_of_order(
    columns: Mapping[Any, Spread], order: Order, present: Present
) -> NDArray[np.bool_]:
    """Mark the rows in which a value is above one that it has to be below."""
    is_wrong = np.zeros(1, bool)
    for below, above in order:
        is_above = columns[below].values > columns[above].values
        is_wrong = is_wrong | (present[below, above] & is_above)
    return is_wrong


def _sort(
    columns: Mapping[Any, Spread],
    movable: Mapping[Any, Bins],
    order: Order,
    present: Present,
    rng: np.random.Generator,
) -> None:
    """Bring rows into order, as far as possible if each bin keeps its values."""
    # A row that is sorted has values that were not drawn for its bins. Of these only
    # the ranks within each bin are kept: the row of the lowest rank gets the lowest
    # value of the bin. That may bring some rows out of order again.
    values_of_bins = {}
    for name, bins in movable.items():
        values = columns[name].values
        values_of_bins[name] = values[bins.sort(rng, values)]
    for _ in range(_SORTS):
        sorted_values = {}
        for name, column in columns.items():
            sorted_values[name] = column.values.copy()
        if not _sort_rows(sorted_values, movable, order, present):
            break
        for name, bins in movable.items():
            rows = bins.sort(rng, sorted_values[name])
            columns[name].values[rows] = values_of_bins[name]


def _sort_rows(
    values: Mapping[Any, NDArray[Any]],
    movable: Collection[Any],
    order: Order,
    present: Present,
) -> bool:
    """Exchange values of a row in the wrong order; return whether there were any."""
    exchanged = False
    # Each round removes a pair in the wrong order from each row that has one.
    for _ in range(len(values) ** 2):
        is_sorted = True
        for below, above in order:
            is_above = values[below] > values[above]
            is_wrong = present[below, above] & is_above
            if not is_wrong.any():
                continue
            is_sorted = False
            exchanged = True
            smaller = values[above][is_wrong]
            larger = values[below][is_wrong]
            if below in movable:
                values[below][is_wrong] = smaller
            if above in movable:
                values[above][is_wrong] = larger
        if is_sorted:
            break
    return exchanged


def _shuffle(
    columns: Mapping[Any, Spread],
    movable: Mapping[Any, Bins],
    order: Order,
    present: Present,
    rng: np.random.Generator,
) -> None:
    """Exchange values of two random rows of a bin, if both rows are in order then."""
    for _ in range(_SHUFFLES):
        for name, bins in movable.items():
            values = columns[name].values
            pairs = [pair for pair in order if name in pair]
            first, second = bins.draw_pairs(rng)
            _swap(values, first, second)
            is_wrong = _out_of_order(columns, pairs, present)
            is_refused = is_wrong[first] | is_wrong[second]
            _swap(values, first[is_refused], second[is_refused])


def _swap(
    values: NDArray[Any], first: NDArray[np.intp], second: NDArray[np.intp]
) -> None:
    values[first], values[second] = values[second], values[first]


def _mend(
    columns: Mapping[Any, Spread],
    order: Order,
    present: Present,
    rng: np.random.Generator,
) -> None:
    """Move values within their bounds, in rows that are not in order."""
    # First the bounds become those that the order leaves: a lower bound is at most that
    # of what is above, and so are upper bounds. Where they have changed, values are
    # drawn again. Then two values in the wrong order can be exchanged and are still
    # between their bounds. In bins of the same edges, this gives all ordered values the
    # same probability.
    low = {}
    high = {}
    for name, column in columns.items():
        low[name] = column.low
        high[name] = column.high
    for below, above in order:
        largest = np.maximum(low[below], low[above])
        low[above] = np.where(present[below, above], largest, low[above])
    for below, above in reversed(order):
        smallest = np.minimum(high[below], high[above])
        high[below] = np.where(present[below, above], smallest, high[below])
    is_wrong = _out_of_order(columns, order, present)
    for name, column in columns.items():
        is_narrower = (low[name] > column.low) | (high[name] < column.high)
        moved = is_wrong & is_narrower
        if moved.any():
            uniforms = rng.random(np.count_nonzero(moved))
            column.values[moved] = _between(
                low[name][moved], high[name][moved], column.step, uniforms
            )
    values = {}
    for name, column in columns.items():
        values[name] = column.values
    _sort_rows(values, columns.keys(), order, present)


def _between(
    low: NDArray[Any], high: NDArray[Any], step: Any, uniforms: NDArray[np.float64]
) -> NDArray[Any]:
    """Draw numbers between two ends, multiples of a step unless it is 0."""
    if low.dtype.kind == "f" and step:
        # An end may be a given value between two steps: the next step inside counts.
        low = np.ceil(np.round(low / step, _DIGITS)) * step
        high = np.floor(np.round(high / step, _DIGITS)) * step
    # Where a given value leaves no room, the lower end is what is drawn.
    high = np.maximum(low, high)
    if not step:
        return np.minimum(low + uniforms * (high - low), high)
    n_steps = np.rint((high - low) / step) + 1
    return low + np.floor(uniforms * n_steps).astype(np.int64) * step
