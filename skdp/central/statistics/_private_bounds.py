"""Bounds that are found by noisy counts of cells which cover all floats, and grow with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

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

# The constants below are rounded: on the columns of
# benchmarks/central_preprocessing.py, halving or doubling one of them changes the mean
# error of means by less than a tenth, where no other figure is given.

# The shares of two looks: at cells around 0, and at some around a centre that these
# show, or 0 again.
_LOOKS = Fraction(1, 16), Fraction(15, 16)

# Cells from a power of 2 to the next, of the first look, and of the second around 0 or
# another centre. Around 0, wide cells show more of a long tail: with 8, the mean error
# is larger by a twentieth, and that of a few rows many times.
_FIRST, _AROUND_0, _AROUND = 16, 4, 8

# With which chance noise alone is taken for values: anywhere in a look, and at one
# place next to clear values. There an error costs little; with each doubling of the
# bounds, the square of its cost is four times as large.
_CHANCE_ANYWHERE, _CHANCE_NEAR = 1e-6, 1e-4

# Standard deviations of a count: a look with as many values moves the centre of the
# next, and a tail of as many shows its law.
_ENOUGH = 40.0

# Powers of 2 that are looked at below and above the largest clear values.
_INSIDE, _OUTSIDE = 4, 8

# How much smaller a bound is than the other one if it is set to 0.
_NEAR_ZERO = 8

# Shapes of tails: 0 is that of a Pareto law, 1 is exponential, 2 is normal, and 8 ends
# almost at once.
_POWERS = np.array([0, 0.5, 1, 2, 8])[:, np.newaxis]

# Of Chernoff's bound.
_TILTS = np.linspace(0.1, 0.98, 89)

Floats = NDArray[np.float64]


def split_bounds(bounds: Any, names: Sequence[Any]) -> tuple[list[int], Any]:
    """Return the places of the columns whose bounds are to be found, and all bounds, with a stand-in for these."""
    if _is_private(bounds, "bounds"):
        return list(range(len(names))), NOWHERE
    if isinstance(bounds, Mapping):
        pairs = dict(bounds)
        for name, pair in bounds.items():
            if _is_private(pair, f"bounds of column {name!r}"):
                pairs[name] = NOWHERE
        private = [name for name in names if isinstance(bounds.get(name), str)]
        return [names.index(name) for name in private], pairs
    if isinstance(bounds, list | tuple):
        ends = list(bounds)
        places = []
        for place, name in enumerate(names[: len(ends)]):
            if _is_private(ends[place], f"bounds of column {name!r}"):
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


def count_values(rows: Batches, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
    """Count the values of each column by cell; a record is in at most one cell of each."""
    return rows.add_up(partial(_count_in_cells, cells=cells))


def _count_in_cells(
    table: Table, counts: NDArray[np.int64] | None, *, cells: Sequence[Cells]
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
    """Bounds that a look has found, and what they are judged by."""

    low: float
    high: float
    # Of the range that holds values for certain.
    certain_width: float
    median: float
    # The number of values, in standard deviations of a count.
    n_in_errors: float


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
    # Cells are narrow next to their centre: next to the values, if these lie far from
    # 0, compared with their width. The bounds of a first look may be far too wide by
    # bad luck, so that what holds values for certain decides.
    if look is None or look.n_in_errors < _ENOUGH:
        return Cells(_AROUND_0)
    distance = abs(look.median)
    if distance < look.certain_width / 2:
        return Cells(_AROUND_0)
    is_narrow = distance >= (look.high - look.low) / 2
    parts = _AROUND if is_narrow else _AROUND_0
    if not look.low <= 0 <= look.high:
        return Cells(parts, look.median)
    # Cells end at 0, which may be a bound.
    fraction, power = math.frexp(look.median)
    return Cells(parts, math.ldexp(round(fraction * 2 * parts) / (2 * parts), power))


def find_bounds(cells: Cells, noisy: Floats, error: float) -> Look | None:
    """Return bounds that hold nearly all values, or None."""
    # None if noise hides all values but those at the centre, if sums of huge numbers are
    # rounded, or if there is hardly a float between the bounds: the caller then keeps
    # the bounds of its first look.
    view = View.of(cells, noisy, error)
    if view is None:
        return None
    # Values are clear where noise alone would hardly give such counts: certainly where
    # that holds for all cells together, and near clear values with a larger chance,
    # which falls with the distance.
    log_anywhere = math.log(_CHANCE_ANYWHERE / noisy.size)
    log_near = math.log(_CHANCE_NEAR) - math.log(4) * view.doublings
    clear = view.clear_range(np.maximum(log_near, log_anywhere))
    certain = view.clear_range(np.array([log_anywhere]))
    if clear is None or certain is None:
        return None
    first, end_cell = clear
    half = view.median_cell(first, end_cell)
    median = view.edges[half] / 2 + view.edges[half + 1] / 2

    # The upper bound from the median on, as far as noise and what is clipped are least
    # together, and then the lower one.
    distances = view.edges - median
    upper = Side(view.counts[half:], distances[half + 1 :], view.unseen(half, -1))
    up = half + upper.extend(end_cell - half, -distances[first], error)
    lower = Side(view.counts[half::-1], -distances[half::-1], view.unseen(half, 1))
    down = half - lower.extend(half - first, distances[up + 1], error)

    low, high = view.snap_to_0(down, up, clear)
    if not floats_between(low, high):
        return None
    n_in_errors = np.maximum(view.counts[first : end_cell + 1], 0).sum() / error
    certain_width = view.edges[certain[1] + 1] - view.edges[certain[0]]
    median_value = float(median + cells.centre)
    return Look(low, high, float(certain_width), median_value, float(n_in_errors))


@dataclass(frozen=True, eq=False)
class View:
    """The cells of numbers that are not much nearer to the centre or farther from it than the largest clear values."""

    cells: Cells
    # From the lowest cell on; those nearer to the centre are one, of which only the
    # centre itself is counted.
    counts: Floats
    # The ends of cells, as distances from the centre: one more than cells.
    edges: Floats
    # The standard deviation of each count.
    error: float
    # The number of cells from the centre up to the farthest clear values.
    reach: int
    # Whether there are values for certain at the centre, or between it and the other
    # cells.
    holds_centre: bool
    # Whether no values are clear below the centre, and above.
    is_empty: tuple[bool, bool]

    @classmethod
    def of(cls, cells: Cells, noisy: Floats, error: float) -> View | None:
        """Select cells from noisy counts of all; None if no values are clear beside the centre."""
        n = cells.side
        sides = noisy[:n][::-1], noisy[n + 1 :]
        log_chances = np.array([math.log(_CHANCE_ANYWHERE / noisy.size)])
        below = _clear_windows(sides[0], cells.parts, error, log_chances)
        above = _clear_windows(sides[1], cells.parts, error, log_chances)
        is_empty = below[0].size == 0, above[0].size == 0
        if all(is_empty):
            return None
        # Of a window, the cell that is next to the centre.
        starts = np.concatenate([below[0], above[0]])
        stops = np.concatenate([below[1], above[1]])
        top = int(starts.max())
        near = max(top - cells.parts * _INSIDE, 0)
        far = min(top + cells.parts * _OUTSIDE, n)
        is_at_centre = noisy[n] >= _limit(1, log_chances)[0] * error
        ends = [cells.end(cell) for cell in range(near, far + 1)]
        lower, upper = sides
        return cls(
            cells,
            np.concatenate([lower[near:far][::-1], noisy[n : n + 1], upper[near:far]]),
            np.array([-end for end in reversed(ends)] + ends),
            error,
            top + cells.parts - near,
            bool(is_at_centre or (stops < near).any()),
            is_empty,
        )

    @property
    def middle(self) -> int:
        """The cell of the centre."""
        return self.counts.size // 2

    @property
    def doublings(self) -> Floats:
        """How often the distance of the farthest clear values doubles up to each cell."""
        cells = np.abs(np.arange(self.counts.size) - self.middle)
        return np.maximum(cells - self.reach, 0) / self.cells.parts

    def clear_range(self, log_chances: Floats) -> tuple[int, int] | None:
        """Return the outermost cells with values, where noise passes for values with these chances, or with one."""
        starts, stops = _clear_windows(
            self.counts, self.cells.parts, self.error, log_chances
        )
        if not starts.size:
            return None
        # Of a window, the cell that is next to the others.
        inner = int(stops.min()), int(starts.max())
        first, end_cell = min(inner), max(inner)
        if self.holds_centre:
            first, end_cell = min(first, self.middle), max(end_cell, self.middle)
        return first, end_cell

    def median_cell(self, first: int, end_cell: int) -> int:
        """Return the cell of the median of the values between two cells."""
        sums = np.cumsum(np.maximum(self.counts[first : end_cell + 1], 0))
        return first + int(np.searchsorted(sums, sums[-1] / 2))

    def unseen(self, half: int, sign: int) -> int:
        """Return the place on a side of the median of the cell whose count says nothing; if there is none, no place."""
        # Next to a centre that is not 0 there are values as elsewhere, in cells that
        # are too many to be added up.
        return sign * (half - self.middle) if self.cells.centre else self.counts.size

    def snap_to_0(
        self, down: int, up: int, clear: tuple[int, int]
    ) -> tuple[float, float]:
        """Return the bounds at the ends of two cells, or 0 in place of one where the column may well end."""
        # It is a bound if no values beyond it are clear, and it is in one of the last
        # two cells. Of cells around 0 itself, those next to it are narrow, or not
        # looked at: it costs little as a bound.
        first, end_cell = clear
        edges, centre = self.edges, self.cells.centre
        low, high = float(edges[down] + centre), float(edges[up + 1] + centre)
        second_low = min(edges[first], edges[min(down + 2, up)]) + centre
        second_high = max(edges[end_cell + 1], edges[max(up - 1, down + 1)]) + centre
        is_low_0 = low < 0 <= second_low
        is_high_0 = second_high <= 0 < high
        if centre == 0:
            no_lower, no_upper = self.is_empty
            small_low = edges[self.middle] <= low < high / _NEAR_ZERO
            small_high = low / _NEAR_ZERO < high <= edges[self.middle + 1]
            is_low_0 |= no_lower and small_low
            is_high_0 |= no_upper and small_high
        return 0.0 if is_low_0 else low, 0.0 if is_high_0 else high


def _clear_windows(
    counts: Floats, parts: int, error: float, log_chances: Floats
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first and the last cell of each window, of 1, 2, 4, ... cells, that clearly holds values."""
    sums = np.append(0.0, np.cumsum(counts))
    starts, stops = [], []
    width = 1
    while width <= min(parts, counts.size):
        in_window = sums[width:] - sums[:-width]
        of_windows = log_chances
        if log_chances.size > 1:  # one for each cell: that at the farther end counts
            near, far = log_chances[: in_window.size], log_chances[width - 1 :]
            of_windows = np.minimum(near, far)
        limits = _limit(width, of_windows)
        clear = np.flatnonzero(in_window >= limits * error)
        starts.append(clear)
        stops.append(clear + width - 1)
        width *= 2
    return np.concatenate(starts), np.concatenate(stops)


def _limit(width: int, log_chances: Floats) -> Floats:
    """Return what the noise of some cells together exceeds with at most a chance, in standard deviations of one."""
    # Chernoff's bound for a sum of Laplace numbers; that for normal ones is less.
    different, places = np.unique(log_chances, return_inverse=True)
    exponents = -different[:, np.newaxis] - width * np.log1p(-(_TILTS**2))
    limits: Floats = (exponents / _TILTS).min(axis=1) / math.sqrt(2)
    return limits[places]


@dataclass(frozen=True, eq=False)
class Side:
    """The cells on one side of the median, from it on."""

    counts: Floats
    # The distances of their ends from the median.
    ends: Floats
    # The place of the cell whose count says nothing.
    unseen: int

    def extend(self, end_cell: int, opposite: float, error: float) -> int:
        """Return the last cell within the best bound, of cells that are clear up to `end_cell`."""
        # `opposite` is the distance of the bound on the other side. The tail starts before
        # two cells that are clear, or with the second cell, and with enough values to
        # show its law.
        n_beyond = np.cumsum(self.counts[end_cell::-1])[::-1]
        enough = np.flatnonzero(n_beyond >= _ENOUGH * error)
        start = min([end_cell - 1, *enough[-1:].tolist()])
        start = min(max(start, 1), end_cell)
        n_clear = end_cell + 1 - start
        # In units of the distance at which the tail starts.
        unit = self.ends[start - 1] if start else self.ends[0] / 2
        tail_ends = np.append(1.0, self.ends[start:] / unit)
        products = _products_beyond(
            self.counts[start:], tail_ends, n_clear, error, self.unseen - start
        )
        # For a bound at each end, the mean squares of what it clips off the sum of the
        # values, and of the noise of this sum: with a `bounds_share` of a fifth, that
        # of a count here times half the width, over 4.3 for the budget, times the root
        # of 2 for noise of two dimensions.
        bounds = tail_ends[n_clear:]
        middles = (bounds[:-1] + bounds[1:]) / 2
        excess = np.maximum(middles - bounds[:, np.newaxis], 0)  # (n_bounds, n_cells)
        clipped = ((excess @ products) * excess).sum(axis=1)
        noise = error * (opposite / unit + bounds) / 6
        return end_cell + int((noise**2 + clipped).argmin())


def _products_beyond(
    counts: Floats, ends: Floats, n_clear: int, error: float, unseen: int
) -> Floats:
    """Estimate the products of the numbers of values in the cells of a tail beyond those that are clear."""
    # The posterior mean over all laws of tails and all cells with which they may end.
    # The tail goes on or ends in each cell: it reaches r times its distance with a
    # chance of 1 / r², before the counts are seen. (n_laws, n_cells)
    expected = _tails(ends, n_clear)
    in_clear = expected[:, :n_clear].sum(axis=1, keepdims=True)
    expected *= max(counts[:n_clear].sum(), error) / np.maximum(in_clear, 1e-9)
    goes_on = -2 * np.diff(np.log(ends[n_clear:]))

    # The log-likelihoods of a count, if the tail goes on in its cell, and if it has
    # ended.
    spread = np.sqrt(error**2 + expected)
    log_goes_on = -math.sqrt(2) * np.abs(counts - expected) / spread - np.log(spread)
    ended = -math.sqrt(2) * np.abs(counts[n_clear:]) / error - math.log(error)
    if n_clear <= unseen < counts.size:
        log_goes_on[:, unseen] = ended[unseen - n_clear] = 0

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
