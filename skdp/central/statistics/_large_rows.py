"""Private rows of a large table, of which only sums are loaded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.base import read_numbers
from skdp.central.statistics._rows import Rows
from skdp.frames import LargeTable, read_table


@dataclass(frozen=True, eq=False)
class Placing:
    """How values become places: picklable, to be sent to workers."""

    ends: NDArray[np.float64]
    starts: NDArray[np.float64]
    units: NDArray[np.float64]
    middle: NDArray[np.int16] | None = None

    def __call__(self, columns: list[NDArray[np.float64]]) -> Rows:
        rows = Rows.of(columns, self.ends, self.starts, np.zeros(len(columns[0]), np.intp), self.units)
        return rows if self.middle is None else rows.centred(self.middle)


@dataclass(frozen=True, eq=False, kw_only=True)
class LargeRows(Rows):
    """Rows that stay where they are stored: `places` is without them, and only sums are answered."""

    large: LargeTable
    names: tuple[Any, ...]
    placing: Placing

    @classmethod
    def open(cls, large: LargeTable, names: tuple[Any, ...], placing: Placing) -> Self:
        none = placing([np.empty(0)] * len(names))
        return cls(none.places, none.codes, none.square, most=none.most, large=large, names=names, placing=placing)

    def centred(self, middle: NDArray[np.int16]) -> Rows:
        moved = super().centred(middle)
        placing = replace(self.placing, middle=middle)
        return replace(self, places=moved.places, square=moved.square, most=moved.most, placing=placing)

    def count(self, limits: list[int]) -> list[int]:
        return list(map(int, self._add_up(methodcaller("count", limits))))

    def total(self, square: int) -> list[int]:
        return list(map(int, self._add_up(methodcaller("total", square))))

    def shortened(self, square: int, constant: int, *, codes: bool) -> NDArray[np.int64]:
        return self._add_up(methodcaller("shortened", square, constant, codes=codes))

    def _add_up(self, answer: Callable[[Rows], Any]) -> NDArray[np.int64]:
        (sums,) = self.large.add_up(self.names, _RowSums(self.placing, answer, len(self.names)))
        return sums


@dataclass(frozen=True, eq=False)
class _RowSums:
    """A sum over rows: a `skdp.frames.Summary`."""

    placing: Placing
    answer: Callable[[Rows], Any]
    n_columns: int

    def zeros(self) -> list[NDArray[np.int64]]:
        return [np.asarray(self.answer(self.placing([np.empty(0)] * self.n_columns)), np.int64)]

    def add(self, sums: list[NDArray[np.int64]], batch: Any, counts: NDArray[np.int64] | None = None) -> None:
        columns = read_numbers(read_table(batch), missing=True)
        if counts is not None:
            columns = [np.repeat(column, counts) for column in columns]
        sums[0] += np.asarray(self.answer(self.placing(columns)), np.int64)

    def n_distinct(self, sample: Any) -> float:
        """Return infinity: equal rows are not counted."""
        return math.inf
