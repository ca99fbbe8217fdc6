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
# on the few rows of scikit-learn's breast cancers.
_CLEAR_ANYWHERE, _CLEAR_NEAR, _CLEAR_CELL = 20.0, 12.0, 8.0
"""Standard deviations of a count from which there are values between a number and its double: anywhere, with a chance
of error of 3e-6, and next to others; and in one cell. One more is asked for each doubling of what an error costs."""

_INSIDE, _OUTSIDE = 4, 8
"""Powers of 2 that are looked at below and above the largest clear values."""

_NEAR_ZERO = 8
"""How much smaller a bound is than the other one if it is set to 0."""

_TAIL, _FIRM = 0.03, 40.0
"""A tail has at least this share of the values on its side, and this number of standard deviations of a count."""

_POWERS = np.array([0, 0.25, 0.5, 1, 2, 4, 8, 16])[:, None]
"""Shapes of tails: 0 is that of a Pareto law, 1 is exponential, 2 is normal, and 16 ends almost at once."""

_MISFIT = 0.3
"""The relative error of the counts that a law expects: no column follows one."""

_WORTH = 0.2
"""The noise of a sum of clipped values is this share of that of a count, times the width of the bounds."""


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


def find_bounds(counts: Floats, error: float) -> tuple[float, float] | None:
    """Return bounds that hold nearly all values, None if the noise hides all but zeros."""
    # 1. How large the values are, by windows: neighbouring cells together, from a number to about its double.
    below, zero, above = counts[:_N][::-1], counts[_N], counts[_N + 1 :]
    clear = [np.flatnonzero(_windows(side) >= _CLEAR_ANYWHERE * error) for side in (below, above)]
    tops = [int(found[-1]) for found in clear if found.size]
    if not tops:
        return None
    top = max(tops)
    # 2. The cells of numbers that are not much smaller or larger. Those around 0 are one.
    low, high = max(top - _PARTS * _INSIDE, 0), min(top + _PARTS * _OUTSIDE, _N)
    cells = np.concatenate([below[low:high][::-1], [zero], above[low:high]])
    ends = [math.ldexp(1 + cell % _PARTS / _PARTS, _LEAST + cell // _PARTS) for cell in range(low, high + 1)]
    edges, middle = [-end for end in reversed(ends)] + ends, high - low
    # 3. Where there are values for certain.
    first, last = _clear_cells(cells, top + _PARTS - low, error)
    if zero >= _CLEAR_ANYWHERE * error or any(found.size and found[0] < low for found in clear):
        first, last = min(first, middle), max(last, middle)
    # 4. What is worth its noise beyond, as seen from their median.
    sums = np.cumsum(np.maximum(cells[first : last + 1], 0))
    half = first + int(np.searchsorted(sums, sums[-1] / 2))
    steps = np.array(edges) - (edges[half] / 2 + edges[half + 1] / 2)
    up = half + _extend(cells[half:], steps[half + 1 :], last - half, -steps[first], error)
    down = half - _extend(cells[half::-1], -steps[half::-1], half - first, steps[up + 1], error)
    least, most = edges[down], edges[up + 1]
    # 5. Cells next to 0 are narrow, or not looked at: 0 costs little as a bound if no values beyond it are clear.
    if not clear[0].size and edges[middle] <= least < most / _NEAR_ZERO:
        least = 0.0
    if not clear[1].size and least / _NEAR_ZERO < most <= edges[middle + 1]:
        most = 0.0
    return least, most


def _windows(counts: Floats) -> Floats:
    """Add up the counts from each cell to that of about twice its values."""
    sums: Floats = np.convolve(counts, np.ones(_PARTS), "valid")
    return sums


def _clear_cells(cells: Floats, largest: int, error: float) -> tuple[int, int]:
    """Return the first and the last cell that clearly hold values, given how far the largest are from the middle."""
    windows = _windows(cells)
    # An error costs as much as the bounds get wider: the number of doublings from the largest values to a cell, and to
    # the farther end of a window.
    doublings = np.maximum(np.abs(np.arange(cells.size) - cells.size // 2) - largest, 0) / _PARTS
    of_windows = np.maximum(doublings[: windows.size], doublings[_PARTS - 1 :])
    near = np.flatnonzero(windows >= np.minimum(_CLEAR_NEAR + of_windows, _CLEAR_ANYWHERE) * error)
    alone = np.flatnonzero(cells >= (_CLEAR_CELL + doublings) * error)
    fullest = int(near[windows[near].argmax()])
    core = fullest + int(cells[fullest : fullest + _PARTS].argmax())
    # Of a window, the cell that is next to the core.
    return min([core, near[0] + _PARTS - 1, *alone[:1]]), max([core, near[-1], *alone[-1:]])


def _extend(cells: Floats, ends: Floats, last: int, other: float, error: float) -> int:
    """Return the last cell that is worth its noise, of cells from the centre on that are clear up to `last`."""
    # `ends` are the distances of their ends from the centre, and `other` is that of the bound on the other side.
    # The tail starts before two cells that are clear, or with the second cell, and with enough values to show its law.
    held = np.cumsum(cells[last::-1])[::-1]
    firm = np.flatnonzero(held >= max(_TAIL * held[0], _FIRM * error))
    start = min(max(min([last - 1, *firm[-1:]]), 1), last)
    n_clear = last + 1 - start
    # In units of the distance at which it starts.
    unit = ends[start - 1] if start else ends[0] / 2
    at = np.append(1.0, ends[start:] / unit)
    values = _values_beyond(cells[start:], at, n_clear, error)
    # Bounds at each end have a sum that they clip, and noise that grows with their width.
    at = at[n_clear:]
    clipped = np.maximum((at[:-1] + at[1:]) / 2 - at[:, None], 0) @ values
    return last + int(np.hypot(_WORTH * error * (other / unit + at), clipped).argmin())


def _values_beyond(counts: Floats, at: Floats, n_clear: int, error: float) -> Floats:
    """Estimate the numbers of values of the cells of a tail beyond those that are clear, by the noisy counts of all."""
    # The mean over all laws of tails and all cells with which they may end, by how likely they make the counts.
    expected = _tails(at, n_clear)
    in_clear = expected[:, :n_clear].sum(axis=1, keepdims=True)
    expected *= max(counts[:n_clear].sum(), error) / np.maximum(in_clear, 1e-9)
    # The log-likelihoods of a count, if the tail goes on in its cell, and if it has ended.
    spread = np.sqrt(error**2 + expected + (_MISFIT * expected) ** 2)
    inside = -math.sqrt(2) * np.abs(counts - expected) / spread - np.log(spread)
    ended = -math.sqrt(2) * np.abs(counts[n_clear:]) / error - math.log(error)
    # Before the counts are seen, a tail goes on through a cell with a probability of the ratio of its ends' distances.
    # So those of tails that end before each cell, the first after the clear ones, or never, are, as logarithms:
    goes_on = -np.diff(np.log(at[n_clear:]))
    odds = np.cumsum(inside[:, n_clear:] - ended + goes_on, axis=1)
    odds = np.hstack([np.zeros((len(odds), 1)), odds]) + inside[:, :n_clear].sum(axis=1, keepdims=True)
    odds[:, :-1] += np.log(-np.expm1(goes_on))
    chances = np.exp(odds - odds.max())
    reached = np.cumsum((chances / chances.sum())[:, :0:-1], axis=1)[:, ::-1]
    values: Floats = (reached * expected[:, n_clear:]).sum(axis=0)
    return values


def _tails(at: Floats, n_clear: int) -> Floats:
    """Return the shares of the values in cells with these ends, the first of which is 1, by many laws of a tail."""
    # A law has a power p and a scale s: beyond the distance r are ``exp(-3 g(r) / g(s))`` of the values, with
    # ``g(r) = (r**p - 1) / p``, so that 95 % are within s. Scales are up to 8 times the distance of the clear cells.
    logs = np.log(at)
    growth = np.where(_POWERS == 0, logs, np.expm1(np.minimum(_POWERS * logs, 50)) / np.maximum(_POWERS, 0.1))
    scales = growth[:, 1 : int(np.searchsorted(at, 8 * at[n_clear], side="right")), None]
    shares: Floats = -np.diff(np.exp(-np.minimum(3 * growth[:, None, :] / scales, 600)))
    return shares.reshape(-1, at.size - 1)
