"""Numbers and dates within bins put in order, where the values of one column are not above those of another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Categories, Interval
from skdp.synthesis.tables._draws import bin_ends, listed_values

_DIGITS = 6  # to which a number of steps is known, after the errors of floats

_SORTS = 8
"""How often rows are sorted, after which bins get their values back."""

_SHUFFLES = 10
"""How often each row offers its values to another row of the same bin."""

Order: TypeAlias = Sequence[tuple[Any, Any]]
"""Pairs of columns of which the first is not above the second; pairs of what is below are first."""

Present: TypeAlias = Mapping[tuple[Any, Any], NDArray[np.bool_]]
"""For each pair, the rows in which neither value is missing."""


@dataclass(frozen=True, eq=False)
class Bins:
    """The bin of each row."""

    codes: NDArray[np.integer]

    @classmethod
    def of(cls, codes: NDArray[np.integer]) -> Self:
        # NumPy sorts integers of 16 bits by radix: in a tenth of the time.
        return cls(codes.astype(np.min_scalar_type(int(codes.max(initial=0)))))

    def sort(self, values: NDArray[Any], rng: np.random.Generator) -> NDArray[np.intp]:
        """Return the rows of each bin in turn, by values; rows of equal values are in random order."""
        rows = rng.permutation(values.size)
        rows = rows[np.argsort(values[rows], kind="stable")]
        return rows[np.argsort(self.codes[rows], kind="stable")]

    def draw_pairs(
        self, rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Draw pairs of rows of the same bin that have no row in common."""
        rows = rng.permutation(self.codes.size)
        rows = rows[np.argsort(self.codes[rows], kind="stable")]
        first, second = rows[:-1:2], rows[1::2]
        same = self.codes[first] == self.codes[second]
        return first[same], second[same]


@dataclass(eq=False)
class Spread:
    """The values of a column, and the bounds between which they may be moved; nothing is said of missing ones."""

    values: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    missing: NDArray[np.bool_]
    step: Any = 0
    bins: Bins | None = None
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
    places = np.minimum(codes, first.size - 1)
    bins = Bins.of(codes) if shaped else None
    return Spread(drawn, first[places], last[places], codes >= first.size, step, bins)


def keep_order(
    columns: Mapping[Any, Spread], order: Order, rng: np.random.Generator
) -> None:
    """Make each value at most the one that it has to be below."""
    if not order:
        return
    present = {
        pair: ~(columns[pair[0]].missing | columns[pair[1]].missing) for pair in order
    }
    movable = {
        name: column.bins for name, column in columns.items() if column.bins is not None
    }
    if movable and _out_of_order(columns, order, present).any():
        # Which of the values of its bin a row has is not known: all permutations of them have the same chance. The
        # order says more: only those are left in which rows are in order. One of them is found by sorting, and a
        # random one by exchanging values at random from there.
        _sort(columns, movable, order, present, rng)
        _shuffle(columns, movable, order, present, rng)
    _mend(columns, order, present, rng)


def _out_of_order(
    columns: Mapping[Any, Spread], order: Order, present: Present
) -> NDArray[np.bool_]:
    """Mark the rows in which a value is above one that it has to be below."""
    wrong = [
        present[below, above] & (columns[below].values > columns[above].values)
        for below, above in order
    ]
    return np.any(wrong, axis=0)


def _sort(
    columns: Mapping[Any, Spread],
    movable: Mapping[Any, Bins],
    order: Order,
    present: Present,
    rng: np.random.Generator,
) -> None:
    """Bring rows into order, as far as possible if each bin keeps its values."""
    # A row that is sorted has values that were not drawn for its bins. Of these only the ranks within each bin are
    # kept: the row of the lowest rank gets the lowest value of the bin. That may bring some rows out of order again.
    values_of_bins = {
        name: columns[name].values[bins.sort(columns[name].values, rng)]
        for name, bins in movable.items()
    }
    for _ in range(_SORTS):
        values = {name: column.values.copy() for name, column in columns.items()}
        if not _sort_rows(values, movable, order, present):
            break
        for name, bins in movable.items():
            columns[name].values[bins.sort(values[name], rng)] = values_of_bins[name]


def _sort_rows(
    values: Mapping[Any, NDArray[Any]],
    movable: Collection[Any],
    order: Order,
    present: Present,
) -> bool:
    """Exchange values of the same row that are in the wrong order; return whether there were any."""
    exchanged = False
    for _ in range(
        len(values) ** 2
    ):  # each round removes a pair in the wrong order from each row that has one
        is_sorted = True
        for below, above in order:
            wrong = present[below, above] & (values[below] > values[above])
            if not wrong.any():
                continue
            is_sorted = False
            exchanged = True
            smaller, larger = values[above][wrong], values[below][wrong]
            if below in movable:
                values[below][wrong] = smaller
            if above in movable:
                values[above][wrong] = larger
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
    """Exchange values of two rows of the same bin, drawn at random, if both rows are in order then."""
    for _ in range(_SHUFFLES):
        for name, bins in movable.items():
            values = columns[name].values
            pairs = [pair for pair in order if name in pair]
            first, second = bins.draw_pairs(rng)
            _swap(values, first, second)
            out_of_order = _out_of_order(columns, pairs, present)
            wrong = out_of_order[first] | out_of_order[second]
            _swap(values, first[wrong], second[wrong])


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
    # First the bounds become those that the order leaves: a lower bound is at most that of what is above, and so are
    # upper bounds. Where they have changed, values are drawn again. Then two values in the wrong order can be exchanged
    # and are still between their bounds. In bins of the same edges, this gives all ordered values the same probability.
    low = {name: column.low for name, column in columns.items()}
    high = {name: column.high for name, column in columns.items()}
    for below, above in order:
        low[above] = np.where(
            present[below, above], np.maximum(low[below], low[above]), low[above]
        )
    for below, above in reversed(order):
        high[below] = np.where(
            present[below, above], np.minimum(high[below], high[above]), high[below]
        )
    wrong = _out_of_order(columns, order, present)
    for name, column in columns.items():
        moved = wrong & ((low[name] > column.low) | (high[name] < column.high))
        if moved.any():
            uniform = rng.random(np.count_nonzero(moved))
            column.values[moved] = _between(
                low[name][moved], high[name][moved], column.step, uniform
            )
    _sort_rows(
        {name: column.values for name, column in columns.items()},
        columns.keys(),
        order,
        present,
    )


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
