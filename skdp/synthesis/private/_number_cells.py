"""Fine public cells within the bins of numbers and dates, and numbers drawn within them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Codes, Floats, Indices, Integers, Mask
from skdp.domain import Domain, Interval, make_edge_array, type_of_attribute
from skdp.synthesis.model import Marginal
from skdp.tables import number_dtype

# Tuned by benchmarks/synthesis_numbers.py.
MAX_VALUE_CELLS = 512
"""Largest number of whole numbers or dates of an interval that get separate cells."""

N_PARTS = 32
"""Parts of a divided cell; two divisions of a cell of an even grid find single real numbers."""

POINT_WIDTH = 2.0**-20
"""Width of the cell of a single real number, relative to the interval."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The numbers or dates that rows may have in each bin of an interval."""

    first: NDArray[Any]
    """The smallest number of each bin."""
    last: NDArray[Any]
    """The largest number of each bin."""
    step: Any
    """The distance between successive numbers; 0 for real numbers."""

    @classmethod
    def of(cls, interval: Interval) -> Steps:
        """Find the numbers or dates that rows may have in the bins of an interval.

        They are a grid of whole numbers, decimals or days with a step size; the step of real numbers is 0.
        """
        edges = make_edge_array(interval.edges, interval.dtype)
        if edges.dtype.kind == "M":
            return cls._of_dates(edges)
        if interval.decimals is not None:
            unit = 10.0**interval.decimals
            steps = _first_steps(edges, interval.decimals)
            largest = max(steps[0], steps[-1] - (steps[-1] / unit > edges[-1]))
            return cls._between(steps, largest, unit)
        first, stop = edges[:-1].copy(), edges[1:].copy()
        last = np.nextafter(stop, first)
        stop[-1] = np.nextafter(stop[-1], np.inf)  # The last bin is closed.
        is_point = _is_point(edges)
        first[is_point] = _find_roundest(first[is_point], stop[is_point])
        return cls(first, np.maximum(first, last), 0)

    @classmethod
    def _of_dates(cls, edges: NDArray[np.datetime64]) -> Steps:
        """Find the dates in bins with these edges: whole days, seconds or microseconds."""
        steps, unit = _count_units(edges)
        # The last bin of datetimes contains its upper edge.
        is_closed = edges.dtype != "datetime64[D]"
        numbers = cls._between(steps, steps[-1] - (not is_closed), 1)

        def to_dates(counts: NDArray[Any]) -> NDArray[np.datetime64]:
            return counts.astype(np.int64).astype(unit).astype(edges.dtype)

        step = np.diff(to_dates(np.arange(2)))[0].astype(np.int64)
        return cls(to_dates(numbers.first), to_dates(numbers.last), step)

    @classmethod
    def _between(cls, steps: NDArray[Any], largest: float, unit: float) -> Steps:
        """Find the multiples of 1 / `unit` in each bin, given the first multiple of each edge and the largest one."""
        # A bin that contains no multiple, such as from 3.1 to 3.9, gets the nearest one.
        first = np.minimum(steps[:-1], largest)
        last = np.clip(steps[1:] - 1, first, largest)
        last[-1] = largest  # The last bin is closed.
        first = np.minimum(first, last)
        if unit == 1:
            return cls(first, last, 1)
        return cls(first / unit, last / unit, 1 / unit)

    @property
    def n_values(self) -> Floats:
        """The number of values of each bin; for real numbers, the width of each bin."""
        width = (self.last - self.first).astype(float)
        return np.rint(width / self.step) + 1 if self.step else width


def _count_units(dates: NDArray[np.datetime64]) -> tuple[Integers, Any]:
    """Convert dates to integers of days, of seconds if all of them are whole seconds, or of microseconds.

    Also return the dtype of dates with this unit.
    """
    unit = dates.dtype
    seconds = dates.astype("datetime64[s]")
    if np.datetime_data(unit)[0] == "us" and (seconds == dates).all():
        unit = seconds.dtype
    return dates.astype(unit).astype(np.int64), unit


def _first_steps(edges: Floats, decimals: int) -> Floats:
    """Return the smallest decimal number that is at least each edge, in units of the last decimal."""
    unit = 10.0**decimals
    # The product of an edge and the unit may be rounded, but the quotient is the float of
    # the decimal number.
    steps = np.rint(edges * unit)
    return steps + (steps / unit < edges)


def draw_within(interval: Interval, bins: Codes, positions: Floats) -> NDArray[Any]:
    """Return the number or date at a position from 0 to 1 within a bin, for each row.

    `bins` has the bin of each row, and `positions` its position within the bin; both of shape (n_rows,).
    """
    steps = Steps.of(interval)
    first, last = steps.first[bins], steps.last[bins]
    if first.dtype.kind == "M":
        n_steps = (last - first).astype(np.int64) // steps.step + 1
        moved = np.floor(positions * n_steps).astype(np.int64) * steps.step
        return first + moved.astype(f"timedelta64[{np.datetime_data(first.dtype)[0]}]")
    if not steps.step:
        return np.minimum(
            first + positions * np.diff(np.array(interval.edges))[bins], last
        )
    numbers = first + np.floor(positions * steps.n_values[bins]) * steps.step
    numbers = np.minimum(numbers, last)
    if interval.decimals:
        unit = 10.0**interval.decimals
        return np.rint(numbers * unit) / unit
    return numbers.astype(number_dtype(type_of_attribute(interval)))


def find_middles(interval: Interval) -> NDArray[Any]:
    """Return the middle of the numbers of each bin; dates are rounded down."""
    steps = Steps.of(interval)
    if steps.first.dtype.kind == "M":
        return steps.first + (steps.last - steps.first) // 2
    if not steps.step:
        edges = np.array(interval.edges)
        return edges[:-1] / 2 + edges[1:] / 2
    return steps.first / 2 + steps.last / 2


def cut_finely(interval: Interval) -> Interval:
    """Cut the declared bins of an interval into fine cells by public facts; return the interval if none is finer."""
    edges = make_edge_array(interval.edges, interval.dtype)
    if not interval.has_bins:  # only the bounds are declared
        edges = edges[[0, -1]]
    bins = with_edges(interval, edges)
    fine = _cut_dates(edges) if edges.dtype.kind == "M" else _cut_numbers(bins)
    return interval if fine.size == edges.size else with_edges(interval, fine)


def _cut_dates(declared: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Return edges of at most `MAX_VALUE_CELLS` cells of equal width, of the first and last date, and `declared`."""
    steps, unit = _count_units(declared)
    low, high = int(steps[0]), int(steps[-1])
    n_cells = min(MAX_VALUE_CELLS, high - low)
    # Integers of Python do not overflow.
    fine = [low + cell * (high - low) // n_cells for cell in range(n_cells)]
    # Many records may equal a bound, because values are clipped to it or it codes a missing date.
    fine += [low + 1, high - 1]
    return np.union1d(declared, np.array(fine).astype(unit).astype(declared.dtype))


def _cut_numbers(interval: Interval) -> Floats:
    """Return the edges of fine cells of numbers, together with the declared edges, ascending.

    If the interval has few different numbers, each of them has a cell.
    """
    declared = np.array(interval.edges)
    low, high = float(declared[0]), float(declared[-1])
    unit = np.inf if interval.decimals is None else 10.0**interval.decimals
    # Many records may have the largest or the smallest number, to which others are
    # clipped. For real numbers, `high` adds no edge.
    last = (np.floor(high * unit) - 0.5) / unit if unit < np.inf else high
    if (high - low) * unit <= MAX_VALUE_CELLS:
        steps = np.arange(np.ceil(low * unit), np.floor(high * unit)) / unit
        return _join_edges(interval, np.append(steps, last))
    # Even cells for any body, cells that grow from 0 for long tails, and single numbers
    # that many records may have: round numbers, or all whole numbers if they are few.
    smallest = max(2.0**-16 * (high - low), low, -high)
    growing = np.geomspace(smallest, max(abs(low), abs(high)), 128)
    even = np.linspace(low, high, 129)
    single = np.append(_list_round_numbers(max(-low, high)), low)
    if high - low <= MAX_VALUE_CELLS / 2:
        single = np.arange(np.ceil(low), high)
    if unit < np.inf:
        single = np.unique(np.rint(single * unit) / unit)
    single = single[(single >= low) & (single <= high)]
    width = 1 / unit if unit < np.inf else POINT_WIDTH * (high - low)
    kept = np.concatenate([declared, single, single + width])
    fine = np.concatenate([even, growing, -growing])
    if unit < np.inf:
        fine = np.rint(fine * unit) / unit
    fine = fine[(fine >= low) & (fine <= high)]
    # Other edges are not next to a single number.
    distances = np.abs(fine[:, np.newaxis] - kept).min(axis=1)
    fine = np.concatenate([fine[distances > width], single, single + width, [last]])
    return _join_edges(interval, fine)


def _list_round_numbers(largest: float) -> Floats:
    """List 0 and the numbers of four decades with one digit, or with 5 as the second digit."""
    decade = min(math.floor(math.log10(largest)), 307)  # 9.5e308 is no float
    digits = np.concatenate([np.arange(1, 10), np.arange(1.5, 9)])
    positive = np.outer(digits, 10.0 ** np.arange(decade - 3, decade + 1)).ravel()
    return np.concatenate([-positive, np.zeros(1), positive])


def _join_edges(interval: Interval, fine: Floats) -> Floats:
    """Add fine edges to the declared edges, except for edges that would create a cell without numbers."""
    declared = np.array(interval.edges)
    fine = np.unique(fine[(fine > declared[0]) & (fine < declared[-1])])[::-1]
    if interval.decimals is not None:
        # For example, no whole number is between a declared edge 18.5 and an edge 19: the
        # first whole number of both is 19. Of fine edges with the same first number, such
        # as -0.7 and -0.6 - 0.1 in floats, the largest is kept.
        steps, index = np.unique(
            _first_steps(fine, interval.decimals), return_index=True
        )
        declared_steps = _first_steps(declared[:-1], interval.decimals)
        fine = fine[index[~np.isin(steps, declared_steps)]]
    return np.union1d(declared, fine)


def divide_cells(cells: Interval, is_divided: Mask) -> tuple[Interval, Mask]:
    """Divide some cells of an interval into at most `N_PARTS` parts; also mark the parts of those that are divided."""
    edges = make_edge_array(cells.edges, cells.dtype)
    unit: object = None
    numbers: Any = edges
    if edges.dtype.kind == "M":
        numbers, unit = _count_units(edges)
    low, high = numbers[:-1][is_divided], numbers[1:][is_divided]
    steps = np.arange(1, N_PARTS)[:, np.newaxis]
    if unit is not None:
        fine = (low + (high - low) * steps // N_PARTS).ravel()
        fine = np.union1d(edges, fine.astype(unit).astype(edges.dtype))
    else:
        fine = (low + (high - low) * (steps / N_PARTS)).ravel()
        if cells.decimals is not None:
            fine = np.rint(fine * 10.0**cells.decimals) / 10.0**cells.decimals
        fine = _join_edges(cells, fine)
    parts = np.searchsorted(edges, fine[:-1], side="right") - 1
    is_part = is_divided & (np.bincount(parts, minlength=is_divided.size) > 1)
    return with_edges(cells, fine), is_part[parts]


def add_cells(
    cells: Interval, found: Sequence[tuple[NDArray[Any], NDArray[Any]]]
) -> Interval:
    """Add narrower cells, lists of their lower and upper edges, to cells: the narrowest of those within each other."""
    if not found:
        return cells
    low, high = map(np.concatenate, zip(*found, strict=True))
    order = np.lexsort((-high.astype(float), low))
    low, high = low[order], high[order]
    is_narrowest = np.append(low[1:] >= high[:-1], True)[: low.size]
    edges = [
        make_edge_array(cells.edges, cells.dtype),
        low[is_narrowest],
        high[is_narrowest],
    ]
    return with_edges(cells, np.unique(np.concatenate(edges)))


def with_edges(interval: Interval, edges: NDArray[Any]) -> Interval:
    """Return an interval with other edges, and the same missing values, decimals, type of numbers and releases."""
    if edges.dtype == "datetime64[D]":
        # The last bin of days ends at the beginning of the next day.
        edges = np.append(edges[:-1], edges[-1] - np.timedelta64(1, "D"))
    cut = Interval(
        edges=edges.tolist(),
        missing=interval.missing,
        real=interval.real,
        decimals=interval.decimals,
    )
    cut.releases, cut.found = interval.releases, interval.found
    return cut


def find_intervals(domain: Domain) -> dict[int, Interval]:
    """Return the intervals of the columns of numbers and dates, by index of the column."""
    intervals = {}
    for column, name in enumerate(domain.columns):
        values = domain[name]
        if isinstance(values, Interval):
            intervals[column] = values
    return intervals


def cut_domain(domain: Domain) -> dict[int, Interval]:
    """Cut each interval of a domain into fine cells; return intervals with more cells than bins, by index."""
    cells = {}
    for column, interval in find_intervals(domain).items():
        low, high = interval.edges[0], interval.edges[-1]
        if isinstance(low, float) and not math.isfinite(high - low):
            raise ValueError(
                f"The Interval of column {domain.columns[column]!r} must have a width "
                f"of at most {sys.float_info.max:.1e}, got {low:g} to {high:g}. "
                "Declare narrower bounds."
            )
        fine = cut_finely(interval)
        if fine is not interval:
            cells[column] = fine
    return cells


def find_starts(bins: Interval, cells: Interval) -> Indices:
    """Return the index of the first cell of each bin, followed by the number of cells; shape (n_bins + 1,)."""
    edges = make_edge_array(bins.edges, cells.dtype)
    return np.searchsorted(make_edge_array(cells.edges, cells.dtype), edges)


def find_bins(bins: Interval, cells: Interval) -> Indices:
    """Return the bin of each cell, and one more bin for missing values."""
    starts = find_starts(bins, cells)
    return np.append(
        np.repeat(np.arange(starts.size - 1), np.diff(starts)), starts.size - 1
    )


def find_points(cells: Interval) -> Mask:
    """Mark the cells that contain only one number, which is their lower edge."""
    edges = make_edge_array(cells.edges, cells.dtype)
    if cells.decimals is not None or edges.dtype.kind == "M":
        return np.zeros(edges.size - 1, bool)
    return _is_point(edges)


def _is_point(edges: Floats) -> Mask:
    """Mark the cells between edges of real numbers that contain only one number."""
    return np.diff(edges) < 2 * POINT_WIDTH * (edges[-1] - edges[0])


def find_single(cells: Interval) -> Mask:
    """Mark the cells that contain only one number or date."""
    steps = Steps.of(cells)
    return steps.n_values == 1 if steps.step else find_points(cells)


def _find_roundest(low: Floats, high: Floats) -> Floats:
    """Return the number with the fewest decimals from each lower bound up to, but below, its upper bound."""
    numbers = low.copy()
    with np.errstate(over="ignore"):
        for decimals in range(15, -16, -1):
            # The quotient by a power of 10 is the float of the decimal number.
            unit = 10.0 ** abs(decimals)
            scaled = low * unit if decimals >= 0 else low / unit
            rounded = np.ceil(scaled)
            rounded = rounded / unit if decimals >= 0 else rounded * unit
            is_within = (rounded >= low) & (rounded < high)
            numbers[is_within] = rounded[is_within]
    return numbers


@dataclass(frozen=True, eq=False)
class Shape:
    """The distribution of the numbers of a column within its bins, by fine cells."""

    cells: Interval
    starts: Indices
    """The index of the first cell of each bin, followed by the number of cells; shape (n_bins + 1,)."""
    proportions: Floats
    """The proportion of each cell in the records of its bin; shape (n_cells,)."""
    levels: tuple[Marginal, ...]
    """The noisy counts of the cells, and of blocks of cells."""

    @classmethod
    def uniform(cls, bins: Interval) -> Shape:
        """Return the uniform distribution within bins."""
        n_bins = len(bins.edges) - 1
        return cls(bins, np.arange(n_bins + 1), np.ones(n_bins), levels=())

    @property
    def bins(self) -> Indices:
        """The index of the bin of each cell; shape (n_cells,)."""
        return np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))

    @property
    def cumulative(self) -> Floats:
        """The rank of each edge, from b to b + 1 within bin b: the distribution function within bins (n_cells + 1,)."""
        sums = np.append(0.0, np.cumsum(self.proportions))
        # Rounding: the proportions of a bin may not add up to exactly 1.
        sums[self.starts] = np.arange(self.starts.size)
        return np.maximum.accumulate(sums)

    def draw(self, ranks: Floats) -> NDArray[Any]:
        """Return the numbers with these ranks, of shape (n_rows,).

        The integer part of a rank is the bin, and its fraction the proportion of the records of the bin that are
        smaller.
        """
        cumulative = self.cumulative
        bins = ranks.astype(np.intp)
        cells = np.searchsorted(cumulative, ranks, side="right") - 1
        cells = np.clip(cells, self.starts[bins], self.starts[bins + 1] - 1)
        low = cumulative[cells]
        width = np.maximum(cumulative[cells + 1] - low, np.finfo(float).tiny)
        positions = np.clip((ranks - low) / width, 0, np.nextafter(1, 0))
        positions[find_points(self.cells)[cells]] = 0
        return draw_within(self.cells, cells, positions)

    def rank(self, values: NDArray[Any]) -> Floats:
        """Return the ranks of numbers or dates, from b to b + 1 within bin b (see `cumulative`)."""
        edges = make_edge_array(self.cells.edges, self.cells.dtype)
        edges = edges.astype(values.dtype).astype(float)
        return np.interp(values.astype(float), edges, self.cumulative)
