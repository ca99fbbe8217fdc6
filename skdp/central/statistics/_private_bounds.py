"""Bounds that are found by noisy counts of cells which cover all floats, and grow with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.base import read_bounds, read_numbers
from skdp.central.statistics._ranges import LARGEST
from skdp.frames import LargeTable, Table, read_table

Floats = NDArray[np.float64]

PRIVATE = "private"

NOWHERE = -1.0, 1.0
"""The bounds of a column of which the noise hides where its values are."""

_PARTS = 4
"""Cells from a power of 2 to the next."""

_LEAST, _MOST = -990, 1021
"""Powers of 2. Smaller numbers count as 0, and the difference of two larger ones may be infinite."""

_N = (_MOST - _LEAST) * _PARTS

# Chosen on generated columns (log-normal, normal, Student's t, exponential, Pareto, uniform), on columns of Adult, and
# on small ones of breast cancers.
_CLEAR_ANYWHERE, _CLEAR_NEAR, _CLEAR_CELL = 20.0, 12.0, 8.0
"""Standard deviations of a count from which there are values between a number and its double: anywhere, with a chance
of error of 3e-6, and next to others; and in one cell. One more is asked for each doubling of what an error costs."""

_INSIDE, _OUTSIDE = 4, 8
"""Powers of 2 that are looked at below and above the largest clear values."""

_NEAR_ZERO = 8
"""How much smaller a bound is than the other one if it is set to 0."""

_TAIL, _FIRM = 0.03, 40.0
"""The share of the values, at least, that shows how they thin out, and its size in standard deviations of a count."""

_POWERS = np.array([0, 0.25, 0.5, 1, 2, 4, 8, 16])[:, None]
"""Shapes of tails: 0 is that of a Pareto law, 1 is exponential, 2 is normal, and 16 ends almost at once."""

_MISFIT = 0.3
"""The relative error of the counts of a tail: no column follows its law."""

_WORTH = 0.2
"""The noise of a sum of clipped values, in standard deviations of a count, times the width of the bounds."""


def split_bounds(bounds: Any, names: Sequence[Any]) -> tuple[list[int], Any]:
    """Return the places of the columns whose bounds are to be found, and all bounds, with a stand-in for these."""
    if _is_private(bounds, "bounds"):
        return list(range(len(names))), NOWHERE
    if isinstance(bounds, Mapping):
        wanted = {name: pair for name, pair in bounds.items() if not _is_private(pair, f"bounds of column {name!r}")}
        places = [place for place, name in enumerate(names) if name in bounds and name not in wanted]
        return places, dict(bounds) | {names[place]: NOWHERE for place in places}
    if isinstance(bounds, list | tuple):
        of_names = enumerate(zip(names, bounds, strict=False))
        places = [place for place, (name, pair) in of_names if _is_private(pair, f"bounds of column {name!r}")]
        return places, [NOWHERE if isinstance(pair, str) else pair for pair in bounds] if places else bounds
    return [], bounds


def _is_private(bounds: Any, what: str) -> bool:
    if isinstance(bounds, str) and bounds != PRIVATE:
        raise ValueError(f"{what} must be {PRIVATE!r} or a pair (low, high), got {bounds!r}")
    return isinstance(bounds, str)


def check_bounds_share(share: Any, name: str = "bounds_share") -> Fraction:
    """Check the share of the budget that is for finding bounds, or something else."""
    if isinstance(share, bool | np.bool_) or not isinstance(share, Real):
        raise TypeError(f"{name} must be a number between 0 and 1, got {type(share).__name__}")
    if not 0 < float(share) < 1:
        raise ValueError(f"{name} must be between 0 and 1, got {share}")
    return Fraction(float(share))


def cells_of(numbers: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the cell of each finite number: that of 0 is in the middle, and negative ones are before it."""
    known = numbers[np.isfinite(numbers)]
    shares, powers = np.frexp(np.abs(known))
    cells = (powers - 1 - _LEAST) * _PARTS + np.floor((shares - 0.5) * (2 * _PARTS)).astype(np.intp)
    cells = np.where(known == 0, -1, np.clip(cells, -1, _N - 1))
    return _N + np.sign(known).astype(np.intp) * (cells + 1)


@dataclass(frozen=True)
class CellCounts:
    """The number of values in each cell of each column: what a `LargeTable` adds up."""

    n_columns: int

    def zeros(self) -> list[NDArray[np.int64]]:
        return [np.zeros(2 * _N + 1, np.int64) for _ in range(self.n_columns)]

    def add(self, sums: list[NDArray[np.int64]], batch: Any, counts: NDArray[np.int64] | None = None) -> None:
        for total, numbers in zip(sums, read_numbers(read_table(batch), missing=True), strict=True):
            np.add.at(total, cells_of(numbers), 1 if counts is None else counts[np.isfinite(numbers)])

    def n_distinct(self, sample: Any) -> float:
        """Return infinity: of the values nothing is declared."""
        return math.inf


def count_values(table: Table, large: LargeTable | None, places: Sequence[int]) -> NDArray[np.int64]:
    """Count the values of some columns by cell; a record is in at most one cell of each."""
    names = [table.names[place] for place in places]
    if large is not None:
        return np.array(large.add_up(names, CellCounts(len(names))))
    chosen = Table(tuple(names), tuple(table.columns[place] for place in places), table.native)
    numbers = read_numbers(chosen, missing=True)
    return np.array([np.bincount(cells_of(column), minlength=2 * _N + 1) for column in numbers])


def place_bounds(
    bounds: Any, names: Sequence[Any], places: Sequence[int], noisy: NDArray[Any], error: Fraction
) -> tuple[NDArray[np.float64], list[Any]]:
    """Put the bounds that noisy counts show in their places; also return the columns of which they show none."""
    ends, hidden = read_bounds(bounds, names), []
    # As floats: noise may be larger than all of them, and nothing is left of it where epsilon is large.
    given = float(min(max(error, Fraction(1, 2)), Fraction(LARGEST)))
    for place, counts in zip(places, np.clip(noisy, -LARGEST, LARGEST).astype(float), strict=True):
        found = find_bounds(counts, given)
        if found is None:
            hidden.append(names[place])
        ends[place] = found or NOWHERE
    return ends, hidden


def find_bounds(counts: NDArray[np.float64], error: float) -> tuple[float, float] | None:
    """Return the ends of the cells that hold nearly all values, None if the noise hides them."""
    # Neighbouring cells are looked at together, from a number to about its double.
    below, zero, above = counts[:_N][::-1], counts[_N], counts[_N + 1 :]
    clear = [np.flatnonzero(_together(side) >= _CLEAR_ANYWHERE * error) for side in (below, above)]
    tops = [int(found[-1]) for found in clear if found.size]
    if not tops:
        return NOWHERE if zero >= _CLEAR_ANYWHERE * error else None
    top = max(tops)
    low, high = max(top - _PARTS * _INSIDE, 0), min(top + _PARTS * _OUTSIDE, _N)
    # From here on, the cells around 0 are one.
    cells = np.concatenate([below[low:high][::-1], [zero], above[low:high]])
    ends = [math.ldexp(1 + cell % _PARTS / _PARTS, _LEAST + cell // _PARTS) for cell in range(low, high + 1)]
    edges = [-end for end in reversed(ends)] + ends
    middle, windows = high - low, _together(cells)
    # How often the values of a cell, or the middle of a window, are to be halved to be as the largest clear ones.
    beyond = np.maximum(np.abs(np.arange(cells.size) - middle) - (top + _PARTS - low), 0) / _PARTS
    of_windows = np.maximum(beyond[: windows.size], beyond[_PARTS - 1 :])
    known = np.flatnonzero(windows >= np.minimum(_CLEAR_NEAR + of_windows, _CLEAR_ANYWHERE) * error)
    largest = int(known[windows[known].argmax()])
    core = largest + int(cells[largest : largest + _PARTS].argmax())
    alone = np.flatnonzero(cells >= (_CLEAR_CELL + beyond) * error)
    first = min([core, known[0] + _PARTS - 1, *alone[:1]])
    last = max([core, known[-1], *alone[-1:]])
    if zero >= _CLEAR_ANYWHERE * error or any(found.size and found[0] < low for found in clear):
        first, last = min(first, middle), max(last, middle)
    sums = np.cumsum(np.maximum(cells[first : last + 1], 0))
    half = first + int(np.searchsorted(sums, sums[-1] / 2))
    centre = edges[half] / 2 + edges[half + 1] / 2
    steps = np.array(edges) - centre
    up = half + _extend(cells[half:], steps[half + 1 :], last - half, -steps[first], error)
    down = half - _extend(cells[half::-1], -steps[half::-1], half - first, steps[up + 1], error)
    least, most = edges[down], edges[up + 1]
    # Cells next to 0 are narrow, or not looked at: without clear values on its other side, it costs little as a bound.
    if not clear[0].size and edges[middle] <= least < most / _NEAR_ZERO:
        least = 0.0
    if not clear[1].size and least / _NEAR_ZERO < most <= edges[middle + 1]:
        most = 0.0
    return least, most


def _together(counts: Floats) -> Floats:
    """Add up the counts from each cell to that of about twice its values."""
    sums: Floats = np.convolve(counts, np.ones(_PARTS), "valid")
    return sums


def _extend(cells: Floats, ends: Floats, last: int, other: float, error: float) -> int:
    """Return the last cell that is worth its noise; `ends` and `other` are distances of ends from the centre."""
    held = np.cumsum(cells[last::-1])[::-1]
    firm = np.flatnonzero(held >= max(_TAIL * held[0], _FIRM * error))
    # The tail starts before two cells that are clear, or with the second cell.
    start = min(max(min([last - 1, *firm[-1:]]), 1), last)
    inside = last + 1 - start
    unit = ends[start - 1] if start else ends[0] / 2
    at, counts = np.append(1.0, ends[start:] / unit), cells[start:]
    expected = _tails(at, inside)
    expected *= max(counts[:inside].sum(), error) / np.maximum(expected[:, :inside].sum(axis=1, keepdims=True), 1e-9)
    spread = np.sqrt(error**2 + expected + (_MISFIT * expected) ** 2)
    odds = -math.sqrt(2) * np.abs(counts - expected) / spread - np.log(spread)
    empty = -math.sqrt(2) * np.abs(counts[inside:]) / error - math.log(error)
    # Each tail may end before each cell. That it goes on is as likely as the ratio of the distances of the cell's ends.
    goes_on = -np.diff(np.log(at[inside:]))
    paths = np.cumsum(odds[:, inside:] - empty + goes_on, axis=1)
    paths = np.hstack([np.zeros((len(paths), 1)), paths]) + odds[:, :inside].sum(axis=1, keepdims=True)
    paths[:, :-1] += np.log(-np.expm1(goes_on))
    chances = np.exp(paths - paths.max())
    still = np.cumsum((chances / chances.sum())[:, :0:-1], axis=1)[:, ::-1]
    values = (still * expected[:, inside:]).sum(axis=0)
    # The sum that bounds at each end would clip, and their noise.
    at = at[inside:]
    clipped = np.maximum((at[:-1] + at[1:]) / 2 - at[:, None], 0) @ values
    return last + int(np.hypot(_WORTH * error * (other / unit + at), clipped).argmin())


def _tails(at: Floats, inside: int) -> Floats:
    """Return the shares of the cells between these distances, the first of which is 1, by many laws of a tail."""
    # Beyond r are ``exp(-3 g(r) / g(end))`` of the values, with ``g(r) = (r**p - 1) / p``: 95 % are below `end`.
    logs = np.log(at)
    growth = np.where(_POWERS == 0, logs, np.expm1(np.minimum(_POWERS * logs, 50)) / np.maximum(_POWERS, 0.1))
    ends = growth[:, 1 : int(np.searchsorted(at, 8 * at[inside], side="right")), None]
    shares: Floats = -np.diff(np.exp(-np.minimum(3 * growth[:, None, :] / ends, 600)))
    return shares.reshape(-1, at.size - 1)
