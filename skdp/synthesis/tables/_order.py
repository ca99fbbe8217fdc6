"""Numbers and dates within bins put in order, where the values of one column are not above those of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Categories, Interval
from skdp.synthesis.tables._draws import bin_ends, listed_values

_DIGITS = 6  # to which a number of steps is known, after the errors of floats

_ROUNDS = 200
"""How often a row that is not in order looks for another one to exchange a value with."""

Order: TypeAlias = Sequence[tuple[Any, Any]]
"""Pairs of columns of which the first is not above the second; pairs of what is below are first."""


@dataclass(frozen=True, eq=False)
class RowsOfBins:
    """The rows of each bin: those of bin b are ``rows[starts[b]:starts[b + 1]]``."""

    codes: NDArray[np.integer]
    rows: NDArray[np.intp]
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, codes: NDArray[np.integer]) -> Self:
        rows = np.argsort(codes, kind="stable")
        return cls(codes, rows, np.append(0, np.cumsum(np.bincount(codes))))

    def draw_pairs(
        self, rows: NDArray[np.intp], rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Draw for each row another one of its bin; keep pairs that have no row in common."""
        first = rng.permutation(rows)
        bins = self.codes[first]
        sizes = self.starts[bins + 1] - self.starts[bins]
        second = self.rows[
            self.starts[bins] + np.floor(rng.random(first.size) * sizes).astype(np.intp)
        ]
        places = np.arange(first.size)
        holders = np.empty(self.codes.size, np.intp)
        holders[first] = places
        holders[second] = places
        apart = (
            (holders[first] == places) & (holders[second] == places) & (first != second)
        )
        return first[apart], second[apart]


@dataclass(eq=False)
class Spread:
    """The values of a column, and the bounds between which they may be moved; nothing is said of missing ones."""

    values: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    missing: NDArray[np.bool_]
    step: Any = 0
    rows_of_bins: RowsOfBins | None = None
    """Given if where the values are in their bins is known, and is to remain so."""


def fixed(values: NDArray[Any]) -> Spread:
    """Let no value move."""
    return Spread(values.copy(), values, values, np.isnan(values))


def spread(
    values: Categories | Interval,
    codes: NDArray[np.integer],
    like: Any,
    drawn: Any,
    *,
    shaped: bool,
) -> Spread:
    """Let numbers and dates move within their bins; `drawn` will hold what becomes of them."""
    if not isinstance(values, Interval):
        return fixed(listed_values(values)[codes])
    first, last, step = bin_ends(values, like)
    bins = np.minimum(codes, first.size - 1)
    rows_of_bins = RowsOfBins.of(codes) if shaped else None
    return Spread(
        drawn, first[bins], last[bins], codes >= first.size, step, rows_of_bins
    )


def keep_order(
    columns: Mapping[Any, Spread], order: Order, rng: np.random.Generator
) -> None:
    """Make each value at most the one that it has to be below."""
    if order:
        _exchange(columns, order, rng)
        _mend(columns, order, rng)


def _exchange(
    columns: Mapping[Any, Spread], order: Order, rng: np.random.Generator
) -> None:
    """Exchange values of rows of the same bin, so that rows come into order and each bin keeps its values."""
    # Which of the values of its bin a row has is not known: all rows of the bin have the same chance. The order says
    # more: rows whose other value is in the same bin have the lower ones of a column that is below. An exchange that
    # brings two rows closer to it, and no other one: so the rest remains as it was drawn.
    bins = {
        name: column.rows_of_bins
        for name, column in columns.items()
        if column.rows_of_bins is not None
    }
    rows = np.arange(next(iter(columns.values())).values.size)
    for _ in range(_ROUNDS if bins else 0):
        rows = rows[_excess(columns, order, rows) > 0]
        if not rows.size:
            break
        partners = []
        for name, rows_of_bins in bins.items():
            pairs = [pair for pair in order if name in pair]
            values = columns[name].values
            first, second = rows_of_bins.draw_pairs(
                rows[_excess(columns, pairs, rows) > 0], rng
            )
            before = _excess(columns, pairs, first) + _excess(columns, pairs, second)
            _swap(values, first, second)
            worse = (
                _excess(columns, pairs, first) + _excess(columns, pairs, second)
                >= before
            )
            _swap(values, first[worse], second[worse])
            partners.append(second[~worse])
        rows = np.unique(np.concatenate([rows, *partners]))


def _excess(
    columns: Mapping[Any, Spread],
    order: Iterable[tuple[Any, Any]],
    rows: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Return by how much the values of rows are above those that they have to be below, all pairs together."""
    excess = np.zeros(rows.size)
    for below, above in order:
        one, other = columns[below], columns[above]
        lower, upper = one.values[rows], other.values[rows]
        wrong = (lower > upper) & ~(one.missing[rows] | other.missing[rows])
        with np.errstate(over="ignore"):  # infinite, between the largest floats
            excess[wrong] += (lower[wrong] - upper[wrong]).astype(float)
    return excess


def _swap(
    values: NDArray[Any], first: NDArray[np.intp], second: NDArray[np.intp]
) -> None:
    values[first], values[second] = values[second], values[first]


def _mend(
    columns: Mapping[Any, Spread], order: Order, rng: np.random.Generator
) -> None:
    """Move values within their bounds, in rows that are not in order."""
    # First the bounds become those that the order leaves: a lower bound is at most that of what is above, and so are
    # upper bounds. Where they have changed, values are drawn again. Then two values in the wrong order can be exchanged
    # and are still between their bounds. In bins of the same edges, this gives all ordered values the same probability.
    both = {
        pair: ~(columns[pair[0]].missing | columns[pair[1]].missing) for pair in order
    }
    low = {name: column.low for name, column in columns.items()}
    high = {name: column.high for name, column in columns.items()}
    for below, above in order:
        low[above] = np.where(
            both[below, above], np.maximum(low[below], low[above]), low[above]
        )
    for below, above in reversed(order):
        high[below] = np.where(
            both[below, above], np.minimum(high[below], high[above]), high[below]
        )
    wrong = np.any(
        [
            both[below, above] & (columns[below].values > columns[above].values)
            for below, above in order
        ],
        axis=0,
    )
    for name, column in columns.items():
        moved = wrong & ((low[name] > column.low) | (high[name] < column.high))
        if moved.any():
            uniform = rng.random(np.count_nonzero(moved))
            column.values[moved] = _between(
                low[name][moved], high[name][moved], column.step, uniform
            )
    for _ in range(
        len(columns) ** 2
    ):  # each round removes a pair in the wrong order from each row that has one
        swapped = False
        for below, above in order:
            one, other = columns[below].values, columns[above].values
            above_it = both[below, above] & (one > other)
            if above_it.any():
                one[above_it], other[above_it] = other[above_it], one[above_it]
                swapped = True
        if not swapped:
            break


def _between(
    low: NDArray[Any], high: NDArray[Any], step: Any, uniform: NDArray[np.float64]
) -> NDArray[Any]:
    if low.dtype.kind == "f" and step:  # beside a given value between two steps
        low = np.ceil(np.round(low / step, _DIGITS)) * step
        high = np.floor(np.round(high / step, _DIGITS)) * step
    high = np.maximum(low, high)  # beside a given value that leaves no room
    if not step:
        return np.minimum(low + uniform * (high - low), high)
    n_steps = np.rint((high - low) / step) + 1
    return low + np.floor(uniform * n_steps).astype(np.int64) * step
