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

Floats = NDArray[np.float64]

PRIVATE = "private"

NOWHERE = -1.0, 1.0
"""The bounds of a column of which the noise hides where its values are."""

_LEAST, _MOST = -990, 1021
"""Powers of 2. Smaller numbers count as 0, and the difference of two larger ones may be infinite."""

_BIAS = 1023
"""What is added to the exponent of a float in its bits."""

# Chosen on the columns of benchmarks/central_preprocessing.py without a star, with 800 to 50,000 rows.
_LOOKS = Fraction(1, 16), Fraction(15, 16)
"""The shares of two looks: at cells around 0, and at some around a centre that these show, or 0 again."""

_FIRST, _AROUND_0, _AROUND = 16, 4, 8
"""Cells from a power of 2 to the next, of the first look, and of the second around 0 or another centre."""

_MANY, _FAR = 40.0, 0.4
"""Another centre has this number of standard deviations of a count as values, and this distance from 0, in widths of
what holds values for certain: the bounds of a first look may be far too wide by bad luck."""

_CLEAR_ANYWHERE = {_AROUND_0: 19.0, _AROUND: 22.0, _FIRST: 23.5}
"""By cells: minus the logarithm of the chance of error from which there are values for certain. There are more windows
of narrow cells, and a false first look would move the second; all together err with a chance of some 1e-6 a look."""

_CLEAR_NEAR, _CLEAR_FARTHER = 9.0, 1.2
"""The same next to clear cells, and what is added for each doubling of what an error costs."""

_TILTS = np.linspace(0.1, 0.98, 89)
"""Of Chernoff's bound."""

_INSIDE, _OUTSIDE = 4, 8
"""Powers of 2 that are looked at below and above the largest clear values."""

_NEAR_ZERO = 8
"""How much smaller a bound is than the other one if it is set to 0."""

_TAIL, _FIRM = 0.03, 40.0
"""A tail has at least this share of the values on its side, and this number of standard deviations of a count."""

_POWERS = np.array([0, 0.25, 0.5, 1, 2, 4, 8, 16])[:, None]
"""Shapes of tails: 0 is that of a Pareto law, 1 is exponential, 2 is normal, and 16 ends almost at once."""

_MISFIT = 0.1
"""The relative error of the counts that a law expects: no column follows one."""

_ENDING = 1.5
"""A tail reaches r times its distance with a chance of r to the power of minus this, before the counts are seen."""

_SUM_NOISE = 1 / 6
"""The noise of a sum of clipped values is this share of that of a count, times the width of the bounds."""


def split_bounds(bounds: Any, names: Sequence[Any]) -> tuple[list[int], Any]:
    """Return the places of the columns whose bounds are to be found, and all bounds, with a stand-in for these."""
    if _is_private(bounds, "bounds"):
        return list(range(len(names))), NOWHERE
    if isinstance(bounds, Mapping):
        wanted = {
            name: pair
            for name, pair in bounds.items()
            if not _is_private(pair, f"bounds of column {name!r}")
        }
        places = [
            place
            for place, name in enumerate(names)
            if name in bounds and name not in wanted
        ]
        return places, dict(bounds) | {names[place]: NOWHERE for place in places}
    if isinstance(bounds, list | tuple):
        of_names = enumerate(zip(names, bounds, strict=False))
        places = [
            place
            for place, (name, pair) in of_names
            if _is_private(pair, f"bounds of column {name!r}")
        ]
        return places, [
            NOWHERE if isinstance(pair, str) else pair for pair in bounds
        ] if places else bounds
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

    parts: int
    """Cells from a power of 2 to the next."""
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
            known = np.nan_to_num(numbers[np.isfinite(numbers)] - self.centre)
        # The exponent of a float and the first bits of its mantissa.
        bits = np.abs(known).view(np.int64) >> (53 - self.parts.bit_length())
        cells = np.clip(bits - (_LEAST + _BIAS) * self.parts, -1, self.side - 1) + 1
        return self.side + np.where(known < 0, -cells, cells)

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
    found = []
    for of_column, numbers in zip(cells, read_values(table), strict=True):
        found.append(np.bincount(of_column.of(numbers), minlength=of_column.size))
    return found


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


class Found(NamedTuple):
    """Bounds, the width of what holds values for certain, and the median and number (in deviations) of the values."""

    low: float
    high: float
    width: float
    median: float
    n_values: float


def _look(
    rows: Batches,
    cells: Sequence[Cells],
    noise: Noise,
    source: ByteSource,
) -> list[Found | None]:
    """Find bounds of each column from noisy counts of its cells."""
    # As floats: noise may be larger than all of them, and nothing is left of it where epsilon is large.
    error = float(min(max(noise.error, Fraction(1, 2)), Fraction(LARGEST)))
    noisy = [
        np.clip(counts + noise.draw(source, counts.size), -LARGEST, LARGEST)
        for counts in count_values(rows, cells)
    ]
    return [
        find_bounds(one, counts.astype(float), error)
        for one, counts in zip(cells, noisy, strict=True)
    ]


def _cells_after(found: Found | None) -> Cells:
    """Return the cells of the second look."""
    # Cells are narrow next to their centre: next to the values, if these lie far from 0, compared with their width.
    if (
        found is None
        or found.n_values < _MANY
        or abs(found.median) < _FAR * found.width
    ):
        return Cells(_AROUND_0)
    # Wide cells show more of a long tail.
    parts = (
        _AROUND if abs(found.median) >= _FAR * (found.high - found.low) else _AROUND_0
    )
    shares, power = math.frexp(found.median)
    aligned = math.ldexp(
        round(shares * 2 * parts) / (2 * parts), power
    )  # cells end at 0, which may be a bound
    return Cells(parts, aligned if found.low <= 0 <= found.high else found.median)


def find_bounds(cells: Cells, noisy: Floats, error: float) -> Found | None:
    """Return bounds that hold nearly all values, None if the noise hides all but those at the centre."""
    # 1. How far from the centre the values are, by windows: neighbouring cells together.
    n, widths = (
        cells.side,
        [width for width in (1, 2, 4, 8, 16) if width <= cells.parts],
    )
    sides = noisy[:n][::-1], noisy[n + 1 :]
    anywhere = _CLEAR_ANYWHERE[cells.parts]
    clear = [_clear_windows(side, widths, error, anywhere) for side in sides]
    tops = [int(starts.max()) for starts, _ in clear if starts.size]
    if not tops:
        return None
    top = max(tops)
    # 2. The cells of numbers that are not much nearer or farther. Those next to the centre are one.
    near, far = (
        max(top - cells.parts * _INSIDE, 0),
        min(top + cells.parts * _OUTSIDE, n),
    )
    counts = np.concatenate(
        [sides[0][near:far][::-1], noisy[n : n + 1], sides[1][near:far]]
    )
    ends = [cells.end(cell) for cell in range(near, far + 1)]
    edges, middle = np.array([-end for end in reversed(ends)] + ends), far - near
    # 3. Where there are values for certain. An error costs as much as the bounds get wider: the number of doublings
    # from the farthest values.
    doublings = (
        np.maximum(
            np.abs(np.arange(counts.size) - middle) - (top + cells.parts - near), 0
        )
        / cells.parts
    )
    asked = np.minimum(_CLEAR_NEAR + _CLEAR_FARTHER * doublings, anywhere)
    at_centre = noisy[n] >= _limit(1, anywhere) * error or any(
        (stops < near).any() for _, stops in clear
    )
    windows = [
        _clear_windows(counts, widths, error, least) for least in (asked, anywhere)
    ]
    if not all(
        starts.size for starts, _ in windows
    ):  # sums of huge numbers are rounded
        return None
    # Of a window, the cell that is next to the others.
    (first, last), (one, other) = (
        sorted((int(stops.min()), int(starts.max()))) for starts, stops in windows
    )
    if at_centre:
        first, last, one, other = (
            min(first, middle),
            max(last, middle),
            min(one, middle),
            max(other, middle),
        )
    width = float(edges[other + 1] - edges[one])
    # 4. How far the bounds go beyond, as seen from their median.
    sums = np.cumsum(np.maximum(counts[first : last + 1], 0))
    half = first + int(np.searchsorted(sums, sums[-1] / 2))
    median = edges[half] / 2 + edges[half + 1] / 2
    steps = edges - median
    # Next to a centre that is not 0 there are values as elsewhere, in cells that are too many to be added up.
    unseen = half - middle if cells.centre else counts.size
    up = half + _extend(
        counts[half:], steps[half + 1 :], last - half, -steps[first], error, -unseen
    )
    down = half - _extend(
        counts[half::-1], -steps[half::-1], half - first, steps[up + 1], error, unseen
    )
    low, high = float(edges[down] + cells.centre), float(edges[up + 1] + cells.centre)
    # 5. Many columns end at 0: it is a bound if no values beyond it are clear, and it is in one of the last two cells.
    # Of cells around 0 itself, those next to it are narrow, or not looked at: it costs little as a bound.
    around_0 = cells.centre == 0
    if low < 0 <= min(edges[first], edges[min(down + 2, up)]) + cells.centre or (
        around_0 and not clear[0][0].size and edges[middle] <= low < high / _NEAR_ZERO
    ):
        low = 0.0
    if max(
        edges[last + 1], edges[max(up - 1, down + 1)]
    ) + cells.centre <= 0 < high or (
        around_0
        and not clear[1][0].size
        and low / _NEAR_ZERO < high <= edges[middle + 1]
    ):
        high = 0.0
    if not floats_between(
        low, high
    ):  # of values that hardly differ, those of the first look are kept
        return None
    return Found(
        low, high, width, float(median + cells.centre), float(sums[-1]) / error
    )


def _clear_windows(
    counts: Floats, widths: Sequence[int], error: float, asked: Floats | float
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first and the last cell of each window that clearly holds values."""
    sums, starts, stops = np.append(0.0, np.cumsum(counts)), [], []
    for width in widths:
        if isinstance(asked, float):
            limit = _limit(width, asked)
        else:  # at the farther end of a window
            limit = _limit(
                width, np.maximum(asked[: asked.size - width + 1], asked[width - 1 :])
            )
        starts.append(np.flatnonzero(sums[width:] - sums[:-width] >= limit * error))
        stops.append(starts[-1] + width - 1)
    return np.concatenate(starts), np.concatenate(stops)


def _limit(width: int, asked: Floats | float) -> Floats:
    """Return what the noise of some cells exceeds with a chance of at most ``e**-asked``, in standard deviations."""
    # Chernoff's bound for a sum of Laplace numbers; that for normal ones is less.
    limits: Floats = (
        (np.expand_dims(asked, -1) - width * np.log1p(-(_TILTS**2))) / _TILTS
    ).min(axis=-1)
    return limits / math.sqrt(2)


def _extend(
    cells: Floats, ends: Floats, last: int, other: float, error: float, unseen: int
) -> int:
    """Return the last cell within the best bound, of cells from the centre on that are clear up to `last`."""
    # `ends` are the distances of their ends from the centre, and `other` is that of the bound on the other side.
    # The tail starts before two cells that are clear, or with the second cell, and with enough values to show its law.
    held = np.cumsum(cells[last::-1])[::-1]
    firm = np.flatnonzero(held >= max(_TAIL * held[0], _FIRM * error))
    start = min(max(min([last - 1, *firm[-1:]]), 1), last)
    n_clear = last + 1 - start
    # In units of the distance at which it starts.
    unit = ends[start - 1] if start else ends[0] / 2
    at = np.append(1.0, ends[start:] / unit)
    products = _products_beyond(cells[start:], at, n_clear, error, unseen - start)
    # For a bound at each end: the mean square of what it clips of the sum, and of the noise, which grows with it.
    at = at[n_clear:]
    excess = np.maximum((at[:-1] + at[1:]) / 2 - at[:, None], 0)
    clipped = ((excess @ products) * excess).sum(axis=1)
    return last + int(
        ((_SUM_NOISE * error * (other / unit + at)) ** 2 + clipped).argmin()
    )


def _products_beyond(
    counts: Floats, at: Floats, n_clear: int, error: float, unseen: int
) -> Floats:
    """Estimate the products of the numbers of values in the cells of a tail beyond those that are clear."""
    # The mean over all laws of tails and all cells with which they may end, by how likely they make the counts.
    expected = _tails(at, n_clear)
    in_clear = expected[:, :n_clear].sum(axis=1, keepdims=True)
    expected *= max(counts[:n_clear].sum(), error) / np.maximum(in_clear, 1e-9)
    # The log-likelihoods of a count, if the tail goes on in its cell, and if it has ended.
    spread = np.sqrt(error**2 + expected + (_MISFIT * expected) ** 2)
    inside = -math.sqrt(2) * np.abs(counts - expected) / spread - np.log(spread)
    ended = -math.sqrt(2) * np.abs(counts[n_clear:]) / error - math.log(error)
    if n_clear <= unseen < counts.size:  # a count that says nothing
        inside[:, unseen] = ended[unseen - n_clear] = 0
    # So those of tails that end before each cell, the first after the clear ones, or never, are, as logarithms:
    goes_on = -_ENDING * np.diff(np.log(at[n_clear:]))
    odds = np.cumsum(inside[:, n_clear:] - ended + goes_on, axis=1)
    odds = np.hstack([np.zeros((len(odds), 1)), odds]) + inside[:, :n_clear].sum(
        axis=1, keepdims=True
    )
    odds[:, :-1] += np.log(-np.expm1(goes_on))
    chances = np.exp(odds - odds.max())
    reached = np.cumsum((chances / chances.sum())[:, :0:-1], axis=1)[:, ::-1]
    # The product of two cells is that of the laws and ends with which the tail reaches the farther one.
    beyond = expected[:, n_clear:]
    products: Floats = np.triu(beyond.T @ (reached * beyond))
    return products + np.triu(products, 1).T


def _tails(at: Floats, n_clear: int) -> Floats:
    """Return the shares of the values in cells with these ends, the first of which is 1, by many laws of a tail."""
    # A law has a power p and a scale s: beyond the distance r are ``exp(-3 g(r) / g(s))`` of the values, with
    # ``g(r) = (r**p - 1) / p``, so that 95 % are within s. Scales are up to 8 times the distance of the clear cells.
    logs = np.log(at)
    growth = np.where(
        _POWERS == 0,
        logs,
        np.expm1(np.minimum(_POWERS * logs, 50)) / np.maximum(_POWERS, 0.1),
    )
    n_scales = int(np.searchsorted(at, 8 * at[n_clear], side="right"))
    scales = growth[
        :, 1 : n_scales : n_scales // 32 + 1, None
    ]  # some of many narrow cells
    shares: Floats = -np.diff(np.exp(-np.minimum(3 * growth[:, None, :] / scales, 600)))
    return shares.reshape(-1, at.size - 1)
