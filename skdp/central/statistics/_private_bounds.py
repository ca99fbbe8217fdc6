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

PRIVATE = "private"

NOWHERE = -1.0, 1.0
"""The bounds of a column of which the noise hides where its values are."""

_PARTS = 4
"""Cells from a power of 2 to the next."""

_LEAST, _MOST = -990, 1021
"""Powers of 2. Smaller numbers count as 0, and the difference of two larger ones may be infinite."""

_N = (_MOST - _LEAST) * _PARTS

# Chosen on generated columns (log-normal, normal, Student's t, exponential, Pareto) and on columns of Adult.
_CLEAR_ANYWHERE, _CLEAR_NEAR = 20.0, 12.0
"""Standard deviations of a count from which there are values between a number and its double: anywhere, with a chance
of error of 3e-6, and next to others. One more is asked for each doubling of what an error costs."""

_KNOWN = 6.0
"""Standard deviations of a count that tells how a tail falls."""

_ENOUGH = 0.45
"""Standard deviations of a count: as many values, if they are beyond the bounds, are clipped."""

_INSIDE, _OUTSIDE = 6, 8
"""Powers of 2 that are looked at below and above the largest clear values."""


def split_bounds(bounds: Any, names: Sequence[Any]) -> tuple[list[int], Any]:
    """Return the places of the columns whose bounds are to be found, and all bounds, with a stand-in for these."""
    if _is_private(bounds, "bounds"):
        return list(range(len(names))), NOWHERE
    if isinstance(bounds, Mapping):
        wanted = {name: pair for name, pair in bounds.items() if not _is_private(pair, f"bounds of column {name!r}")}
        places = [place for place, name in enumerate(names) if name in bounds and name not in wanted]
        return places, dict(bounds) | {names[place]: NOWHERE for place in places}
    if isinstance(bounds, list | tuple):
        places = [place for place, pair in enumerate(bounds) if _is_private(pair, "a row of bounds")]
        filled = [NOWHERE if place in places else pair for place, pair in enumerate(bounds)] if places else bounds
        return [place for place in places if place < len(names)], filled
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
    beyond = np.abs(np.arange(windows.size) + (_PARTS - 1) / 2 - middle) - (top + _PARTS - low)
    needed = np.minimum(_CLEAR_NEAR + np.maximum(beyond, 0) / _PARTS, _CLEAR_ANYWHERE)
    known = np.flatnonzero(windows >= needed * error)
    largest = int(known[windows[known].argmax()])
    core = largest + int(cells[largest : largest + _PARTS].argmax())
    first, last = min(core, known[0] + _PARTS - 1), max(core, known[-1])
    if zero >= _CLEAR_ANYWHERE * error or any(found.size and found[0] < low for found in clear):
        first, last = min(first, middle), max(last, middle)
    last = _extend(cells, last, error)
    first = cells.size - 1 - _extend(cells[::-1], cells.size - 1 - first, error)
    return edges[first], edges[last + 1]


def _together(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up the counts from each cell to that of about twice its values."""
    sums: NDArray[np.float64] = np.convolve(counts, np.ones(_PARTS), "valid")
    return sums


def _extend(counts: NDArray[np.float64], last: int, error: float) -> int:
    """Return the last cell that is worth its noise, by what the counts beyond it say, and how they fall before it."""
    noise, held, fall = error * math.sqrt(_PARTS), error, 1.0
    for cell in range(last, counts.size - _PARTS):
        here, before, earlier = (
            max(float(counts[max(end - _PARTS, 0) : max(end, 0)].sum()), error)
            for end in range(cell + 1, cell + 1 - 3 * _PARTS, -_PARTS)
        )
        if here > _KNOWN * error or cell == last:
            # Tails fall by the same factor each time, or faster and faster.
            fall = min(1.0, here / before) * min(1.0, here * earlier / before**2)
            held = here
        # Beyond there is nothing, or what the tail lets expect, give or take half of it: both are as likely.
        seen, expected = float(counts[cell + 1 : cell + 1 + _PARTS].sum()), held * fall
        spread = math.hypot(expected / 2, noise)
        odds = math.log(noise / spread) + ((seen / noise) ** 2 - ((seen - expected) / spread) ** 2) / 2
        mean = (expected * noise**2 + seen * (expected / 2) ** 2) / spread**2
        left = max(mean, 0.0) / (1 + math.exp(min(-odds, 700.0)))
        if left <= _ENOUGH * error:
            return cell
        held += (left - held) / _PARTS
    return max(last, counts.size - _PARTS)
