"""Bounds that are found by noisy counts of cells which cover all floats, and grow with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp.base import floats_between, read_bounds
from skdp.central.statistics._batches import Batches
from skdp.central.statistics._noise import LARGEST, Noise
from skdp.central.statistics._sums import read_values
from skdp.privacy import Share
from skdp.randomness import ByteSource
from skdp.tables import Table

PRIVATE = "private"

# The bounds of a column of which the noise hides where its values are.
NOWHERE = -1.0, 1.0

# Powers of 2. Smaller numbers count as 0, and the difference of two larger ones may be
# infinite.
_LEAST, _MOST = -990, 1021

# What is added to the exponent of a float in its bits.
_BIAS = 1023

# The constants below are rounded, and were measured on 20 columns of 1,000 and 10,000
# rows at epsilon 1: halving or doubling one of them changes the mean error of means by
# less than a tenth, where no other figure is given.

# The shares of two looks: at cells around 0, and at some around a centre that these
# show, or 0 again.
_LOOKS = Fraction(1, 16), Fraction(15, 16)

# Cells from a power of 2 to the next, of the two looks. Narrow ones show where values
# far from 0 are: with 4 in the first look, errors of such columns are up to 3 times as
# large. Wide ones show more of a long tail: with 8 in the second, errors are larger by
# a sixth.
_FIRST, _SECOND = 16, 4

# With which chance noise is taken for values, in all windows of one width together: of
# a look, and of the cells next to clear values, where an error costs less.
_CHANCE_ANYWHERE, _CHANCE_NEAR = 1e-4, 1e-3

# Standard deviations of a count: a tail of as many values shows its law.
_ENOUGH = 40.0

# Powers of 2 that are looked at below and above the farthest clear values, and the width
# of the widest windows of cells. With 2 inside, errors are larger by a sixth.
_INSIDE, _OUTSIDE = 4, 8

# How much smaller a bound is than the other one if it is set to 0.
_NEAR_ZERO = 8

# A tail reaches r times its distance with a chance of r to the power of minus this,
# before the counts are seen.
_ENDING = 1.5

# The relative error of the counts that a law expects: no column follows one. With none,
# errors of hours of work, most of which are 40, are 3 times as large.
_MISFIT = 0.1

# Shapes of tails: 0 is that of a Pareto law, 1 is exponential, 2 is normal, and 4 ends
# almost at once.
_POWERS = np.array([0, 0.5, 1, 2, 4])[:, np.newaxis]

# Where Chernoff's bound is computed: the least of these bounds holds, too.
_TILTS = np.linspace(0.1, 0.98, 89)

Floats = NDArray[np.float64]


def split_bounds(
    bounds: Any, names: Sequence[Any], parameter: str = "bounds"
) -> tuple[list[int], Any]:
    """Return the places of the columns whose bounds are to be found, and all bounds, with a stand-in for these."""
    if _is_private(bounds, parameter):
        return list(range(len(names))), NOWHERE
    if isinstance(bounds, Mapping):
        pairs = dict(bounds)
        for name, pair in bounds.items():
            if _is_private(pair, f"{parameter} of column {name!r}"):
                pairs[name] = NOWHERE
        private = [name for name in names if isinstance(bounds.get(name), str)]
        return [names.index(name) for name in private], pairs
    if isinstance(bounds, list | tuple):
        ends = list(bounds)
        places = []
        for place, name in enumerate(names[: len(ends)]):
            if _is_private(ends[place], f"{parameter} of column {name!r}"):
                places.append(place)
                ends[place] = NOWHERE
        return places, ends if places else bounds
    return [], bounds


def _is_private(bounds: Any, what: str) -> bool:
    if isinstance(bounds, str) and bounds != PRIVATE:
        raise ValueError(
            f"{what} must be {PRIVATE!r} or a pair (low, high), got {bounds!r}"
        )
    return isinstance(bounds, str)


def check_share(name: str, share: Any) -> Fraction:
    """Check the share of the budget that is for finding bounds, or something else."""
    if isinstance(share, bool | np.bool_) or not isinstance(share, Real):
        raise TypeError(
            f"{name} must be a number between 0 and 1, got {type(share).__name__}"
        )
    if not 0 < float(share) < 1:
        raise ValueError(f"{name} must be between 0 and 1, got {share}")
    return Fraction(float(share))


@dataclass(frozen=True)
class Cells:
    """Cells that cover all floats, and grow with the distance from a centre, which is a cell of its own."""

    # Cells from a power of 2 to the next.
    parts: int
    centre: float = 0.0

    @property
    def side(self) -> int:
        """The number of cells on each side of the centre."""
        return (_MOST - _LEAST) * self.parts

    @property
    def size(self) -> int:
        return 2 * self.side + 1

    def of(self, numbers: Floats) -> NDArray[np.intp]:
        """Return the cell of each finite number, in their order."""
        with np.errstate(over="ignore"):
            finite = np.nan_to_num(numbers[np.isfinite(numbers)] - self.centre)
        # The exponent of a float and the first bits of its mantissa.
        bits = np.abs(finite).view(np.int64) >> (53 - self.parts.bit_length())
        cells = np.clip(bits - (_LEAST + _BIAS) * self.parts, -1, self.side - 1) + 1
        return self.side + np.where(finite < 0, -cells, cells)

    def end(self, cell: int) -> float:
        """Return the end next to the centre of a cell of one side, as a distance."""
        return math.ldexp(
            1 + cell % self.parts / self.parts, _LEAST + cell // self.parts
        )


class CellsOfColumn(Protocol):
    """Cells, of which each number is in one."""

    @property
    def size(self) -> int: ...

    def of(self, numbers: Floats) -> NDArray[np.intp]: ...


def count_values(
    rows: Batches, cells: Sequence[CellsOfColumn]
) -> list[NDArray[np.int64]]:
    """Count the values of each column by cell; a record is in at most one cell of each."""
    return rows.add_up(partial(_count_in_cells, cells=cells))


def _count_in_cells(
    table: Table, counts: NDArray[np.int64] | None, *, cells: Sequence[CellsOfColumn]
) -> list[NDArray[np.int64]]:
    # Of the values nothing is declared: no engine groups them, and all count once.
    counts_of_columns = []
    for of_column, numbers in zip(cells, read_values(table), strict=True):
        counts_of_columns.append(
            np.bincount(of_column.of(numbers), minlength=of_column.size)
        )
    return counts_of_columns


def plan_looks(share: Share, n_columns: int) -> tuple[Noise, ...]:
    """Return the noise of the two looks at some columns; none for no columns."""
    # A record changes one count of each column in each look.
    if not n_columns:
        return ()
    first, second = _LOOKS
    return (
        Noise.of(share * first, n_columns, n_columns),
        Noise.of(share * second, n_columns, n_columns),
    )


def place_bounds(
    bounds: Any,
    rows: Batches,
    places: Sequence[int],
    looks: Sequence[Noise],
    source: ByteSource,
) -> tuple[Floats, list[Any]]:
    """Put the bounds that noisy counts show in their places; also return the columns of which they show none."""
    # What is looked at second follows from the noisy first.
    columns = rows.select([rows.names[place] for place in places])
    ends = read_bounds(bounds, rows.names)
    first = _look(columns, [Cells(_FIRST)] * len(places), looks[0], source)
    second = _look(columns, list(map(_cells_after, first)), looks[1], source)
    hidden = []
    for place, rough, fine in zip(places, first, second, strict=True):
        best = fine or rough
        if best is None:
            hidden.append(rows.names[place])
            ends[place] = NOWHERE
        else:
            ends[place] = best.low, best.high
    return ends, hidden


class Look(NamedTuple):
    """Bounds that a look has found, and the median of what is between them."""

    low: float
    high: float
    median: float


def _look(
    rows: Batches, cells: Sequence[Cells], noise: Noise, source: ByteSource
) -> list[Look | None]:
    """Find bounds of each column from noisy counts of its cells."""
    # As floats: noise may be larger than all of them, and nothing is left of it where
    # epsilon is large.
    error = float(min(max(noise.error, Fraction(1, 2)), Fraction(LARGEST)))
    noisy = []
    for counts in count_values(rows, cells):
        drawn = counts + noise.draw(source, counts.size)
        noisy.append(np.clip(drawn, -LARGEST, LARGEST).astype(float))
    looks = []
    for of_column, counts in zip(cells, noisy, strict=True):
        looks.append(find_bounds(of_column, counts, error))
    return looks


def _cells_after(look: Look | None) -> Cells:
    """Return the cells of the second look."""
    # Cells are narrow next to their centre: next to the values, if these do not lie on
    # both sides of 0 or next to it.
    if look is None or look.low <= 0 <= look.high:
        return Cells(_SECOND)
    return Cells(_SECOND, look.median)


def find_bounds(cells: Cells, noisy: Floats, error: float) -> Look | None:
    """Return bounds that hold nearly all values, or None."""
    # None if noise hides all values but those at the centre, if sums of huge numbers are
    # rounded, or if there is hardly a float between the bounds: the caller then keeps
    # the bounds of its first look.
    view = View.of(cells, noisy, error)
    if view is None:
        return None
    clear = view.clear_range()
    if clear is None:
        return None
    first, last = clear
    median_cell = view.median_cell(first, last)
    median = view.edges[median_cell] / 2 + view.edges[median_cell + 1] / 2

    # The upper bound from the median on, as far as noise and what is clipped are least
    # together, and then the lower one.
    distances = view.edges - median
    up = median_cell + extend(
        view.counts[median_cell:],
        distances[median_cell + 1 :],
        last - median_cell,
        opposite=-distances[first],
        error=error,
    )
    down = median_cell - extend(
        view.counts[median_cell::-1],
        -distances[median_cell::-1],
        median_cell - first,
        opposite=distances[up + 1],
        error=error,
    )
    low, high = view.bounds_at(down, up)
    if not floats_between(low, high):
        return None
    return Look(low, high, float(median + cells.centre))


@dataclass(frozen=True, eq=False)
class View:
    """The cells of numbers that are not much nearer to the centre or farther from it than the farthest clear values."""

    cells: Cells
    # From the lowest cell on; those nearer to the centre are one, of which only the
    # centre itself is counted.
    counts: Floats
    # The ends of cells, as distances from the centre: one more than cells.
    edges: Floats
    # The standard deviation of each count.
    error: float
    # Whether there are values for certain at the centre, or between it and the other
    # cells.
    holds_centre: bool
    # Whether there are values for certain below the centre, and above.
    holds_lower: bool
    holds_upper: bool

    @classmethod
    def of(cls, cells: Cells, noisy: Floats, error: float) -> View | None:
        """Select cells from noisy counts of all; None if no values are clear beside the centre."""
        n = cells.side
        lower, upper = noisy[:n][::-1], noisy[n + 1 :]
        chance = _CHANCE_ANYWHERE / noisy.size
        starts_below, stops_below = clear_windows(lower, cells.parts, error, chance)
        starts_above, stops_above = clear_windows(upper, cells.parts, error, chance)
        # Of a window, the cell that is next to the centre.
        starts = np.concatenate([starts_below, starts_above])
        stops = np.concatenate([stops_below, stops_above])
        if not starts.size:
            return None
        farthest = int(starts.max())
        near = max(farthest - cells.parts * _INSIDE, 0)
        far = min(farthest + cells.parts * _OUTSIDE, n)
        is_at_centre = noisy[n] >= _limit(1, chance) * error
        ends = [cells.end(cell) for cell in range(near, far + 1)]
        return cls(
            cells,
            np.concatenate([lower[near:far][::-1], noisy[n : n + 1], upper[near:far]]),
            np.array([-end for end in reversed(ends)] + ends),
            error,
            holds_centre=bool(is_at_centre or (stops < near).any()),
            holds_lower=starts_below.size > 0,
            holds_upper=starts_above.size > 0,
        )

    @property
    def middle(self) -> int:
        """The cell of the centre."""
        return self.counts.size // 2

    def clear_range(self) -> tuple[int, int] | None:
        """Return the outermost cells that clearly hold values."""
        chance = _CHANCE_NEAR / self.counts.size
        starts, stops = clear_windows(self.counts, self.cells.parts, self.error, chance)
        if not starts.size:
            return None
        # Of a window, the cell that is next to the others.
        inner = int(stops.min()), int(starts.max())
        first, last = min(inner), max(inner)
        if self.holds_centre:
            first, last = min(first, self.middle), max(last, self.middle)
        return first, last

    def median_cell(self, first: int, last: int) -> int:
        """Return the cell of the median of the values between two cells."""
        sums = np.cumsum(np.maximum(self.counts[first : last + 1], 0))
        return first + int(np.searchsorted(sums, sums[-1] / 2))

    def bounds_at(self, down: int, up: int) -> tuple[float, float]:
        """Return the bounds at the outer ends of two cells, or 0 in place of one next to it."""
        # Many columns end at 0, next to which cells around it are narrow, or not looked
        # at: it costs little as a bound where no values beyond it are clear. Without
        # this, errors of uniform columns are twice as large.
        edges, centre = self.edges, self.cells.centre
        low, high = float(edges[down] + centre), float(edges[up + 1] + centre)
        if centre != 0:
            return low, high
        is_low_small = edges[self.middle] <= low < high / _NEAR_ZERO
        is_high_small = low / _NEAR_ZERO < high <= edges[self.middle + 1]
        if is_low_small and not self.holds_lower:
            return 0.0, high
        if is_high_small and not self.holds_upper:
            return low, 0.0
        return low, high


def clear_windows(
    counts: Floats, parts: int, error: float, chance: float
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first and the last cell of each window that clearly holds values."""
    # Windows have 1, 2, 4, ... cells: wide ones show values that are spread over many
    # cells. The noise of a window passes for values with at most this chance.
    sums = np.append(0.0, np.cumsum(counts))
    starts, stops = [], []
    width = 1
    while width <= min(_INSIDE * parts, counts.size):
        in_window = sums[width:] - sums[:-width]
        clear = np.flatnonzero(in_window >= _limit(width, chance) * error)
        starts.append(clear)
        stops.append(clear + width - 1)
        width *= 2
    return np.concatenate(starts), np.concatenate(stops)


def _limit(width: int, chance: float) -> float:
    """Return what the noise of some cells together exceeds with at most a chance, in standard deviations of one."""
    # Chernoff's bound for a sum of Laplace numbers of scale 1, whose moment generating
    # function is ``1 / (1 - t**2)``; that for normal ones is less. The standard
    # deviation is the root of 2.
    exponents = -math.log(chance) - width * np.log1p(-(_TILTS**2))
    return float((exponents / _TILTS).min()) / math.sqrt(2)


def extend(
    counts: Floats, ends: Floats, n_inner: int, *, opposite: float, error: float
) -> int:
    """Return the last cell within the best bound on one side of the median."""
    # The cells go from the median on and are clear up to cell `n_inner`; `ends` are the
    # distances of their ends from the median, `opposite` that of the other bound.
    # The tail starts before two cells that are clear, or with the second cell, and with
    # enough values to show its law.
    n_beyond = np.cumsum(counts[n_inner::-1])[::-1]
    enough = np.flatnonzero(n_beyond >= _ENOUGH * error)
    start = min([n_inner - 1, *enough[-1:].tolist()])
    start = min(max(start, 1), n_inner)
    n_clear = n_inner + 1 - start
    # In units of the distance at which the tail starts.
    unit = ends[start - 1] if start else ends[0] / 2
    tail_ends = np.append(1.0, ends[start:] / unit)
    products = _products_beyond(counts[start:], tail_ends, n_clear, error)
    # For a bound at each end, the mean squares of what it clips off the sum of the
    # values, and of the noise of this sum: with a `bounds_share` of a fifth, that
    # of a count here times half the width, over 4.3 for the budget, times the root
    # of 2 for noise of two dimensions.
    bounds = tail_ends[n_clear:]
    middles = (bounds[:-1] + bounds[1:]) / 2
    excess = np.maximum(middles - bounds[:, np.newaxis], 0)  # (n_bounds, n_cells)
    clipped = ((excess @ products) * excess).sum(axis=1)
    noise = error * (opposite / unit + bounds) / 6
    return n_inner + int((noise**2 + clipped).argmin())


def _products_beyond(
    counts: Floats, ends: Floats, n_clear: int, error: float
) -> Floats:
    """Estimate the products of the numbers of values in the cells of a tail beyond those that are clear."""
    # The posterior mean over all laws of tails and all cells with which they may end.
    # The tail goes on or ends in each cell. (n_laws, n_cells)
    expected = _tails(ends, n_clear)
    in_clear = expected[:, :n_clear].sum(axis=1, keepdims=True)
    expected *= max(counts[:n_clear].sum(), error) / np.maximum(in_clear, 1e-9)
    goes_on = -_ENDING * np.diff(np.log(ends[n_clear:]))

    # The log-likelihoods of a count, if the tail goes on in its cell, and if it has
    # ended.
    spread = np.sqrt(error**2 + expected + (_MISFIT * expected) ** 2)
    log_goes_on = -math.sqrt(2) * np.abs(counts - expected) / spread - np.log(spread)
    ended = -math.sqrt(2) * np.abs(counts[n_clear:]) / error - math.log(error)

    # Those of tails that end before each cell, the first after the clear ones, or
    # never.
    log_odds = np.zeros((len(expected), counts.size - n_clear + 1))
    np.cumsum(log_goes_on[:, n_clear:] - ended + goes_on, axis=1, out=log_odds[:, 1:])
    log_odds += log_goes_on[:, :n_clear].sum(axis=1, keepdims=True)
    log_odds[:, :-1] += np.log(-np.expm1(goes_on))
    chances = np.exp(log_odds - log_odds.max())
    chances /= chances.sum()
    reached = np.cumsum(chances[:, :0:-1], axis=1)[:, ::-1]

    # The product of two cells is that of the laws and ends with which the tail reaches
    # the farther one.
    beyond = expected[:, n_clear:]
    products: Floats = np.triu(beyond.T @ (reached * beyond))
    return products + np.triu(products, 1).T


def _tails(ends: Floats, n_clear: int) -> Floats:
    """Return the shares of the values in cells with these ends, the first of which is 1, by many laws of a tail."""
    # A law has a power p and a scale s: beyond the distance r are ``exp(-3 g(r) /
    # g(s))`` of the values, with ``g(r) = (r**p - 1) / p``, so that 95 % are within s.
    # Scales are up to 8 times the distance of the clear cells.
    logs = np.log(ends)
    powers = np.maximum(_POWERS, 1e-9)  # as p tends to 0, g(r) tends to log r
    growth = np.expm1(np.minimum(powers * logs, 50)) / powers
    n_scales = int(np.searchsorted(ends, 8 * ends[n_clear], side="right"))
    step = n_scales // 32 + 1  # some of many narrow cells
    scales = growth[:, 1:n_scales:step, np.newaxis]
    exponents = np.minimum(3 * growth[:, np.newaxis, :] / scales, 600)
    shares: Floats = -np.diff(np.exp(-exponents))
    return shares.reshape(-1, ends.size - 1)
