"""The classes of a report as floats: of one part, or on a grid of several parts that stay together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Classes: TypeAlias = tuple[tuple[Fraction, Fraction, Fraction], ...]
"""See `ReportPair`."""

_CELLS = 192
"""About the points of the grid on either axis, of which the logarithms of ratios are multiples."""

_MOST_WORK = 1 << 25

_ERROR = 2.0**-47
"""Bound of the relative error of a few operations."""


@dataclass(frozen=True, eq=False)
class Ratios:
    """The ratios of the probabilities of each class under two values to the mass of the blanket, and this mass."""

    # A ratio and a mass are off by at most `error` as a part of it. The ratios of all classes are above 0.

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    masses: NDArray[np.float64]
    error: float = _ERROR

    @classmethod
    def of(cls, classes: Classes) -> Ratios:
        """Round exact classes."""
        table = [(float(a / m), float(b / m), float(m)) for a, b, m in classes if a]
        first, second, masses = np.array(table).T
        return cls(first, second, masses)

    @classmethod
    def product(cls, parts: Sequence[Classes]) -> Ratios | None:
        """Return classes that reveal at least as much as parts that stay together; None if it takes long."""
        # For a convex function of the ratios (a / m, b / m), a point of the plane may be replaced by points around it
        # with the same mean: here by the corners of a cell of a grid, which is the same for all parts. On it, products
        # of ratios are sums of places. So the mean of each ratio stays what it was, but for rounding.
        kinds = {part: cls.of(part) for part in parts}
        logs = {part: np.log([one.first, one.second]) for part, one in kinds.items()}
        least, most = (
            sum(float(reduce(logs[part])) for part in parts)
            for reduce in (np.min, np.max)
        )
        largest = max(float(np.abs(log).max()) for log in logs.values())
        wanted = (most - least) / _CELLS
        if not wanted:
            return cls.of(parts[0])
        # Randomised response has its largest ratio and 1 only: it is on the grid.
        step = largest / max(1, np.ceil(largest / wanted))
        spread = {part: kinds[part]._on_grid(step) for part in kinds}
        numbers, work, width = Counter(parts), 0, 1
        for part, number in numbers.items():
            for _ in range(number):
                width += spread[part][0].max() - spread[part][0].min()
                work += int(width) ** 2 * spread[part][1].size
        if work > _MOST_WORK:
            return None
        grid, start = np.ones((1, 1)), 0
        for part in parts:
            places, masses = spread[part]
            low, reach = int(places.min()), int(places.max() - places.min())
            wider = np.zeros((grid.shape[0] + reach, grid.shape[1] + reach))
            for (row, column), mass in zip(
                (places - low).T.tolist(), masses.tolist(), strict=True
            ):
                wider[row : row + grid.shape[0], column : column + grid.shape[1]] += (
                    mass * grid
                )
            grid, start = wider, start + low
        rows, columns = np.nonzero(grid)
        first, second = np.exp((start + rows) * step), np.exp((start + columns) * step)
        # Each part adds an error of its own; a rounding error of a logarithm is a relative error of the ratio.
        return cls(
            first,
            second,
            grid[rows, columns],
            _ERROR * (len(parts) + 1) * (1 + max(most, -least)),
        )

    def swapped(self) -> Ratios:
        """Return the ratios with the two values exchanged."""
        return replace(self, first=self.second, second=self.first)

    def _on_grid(self, step: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Split each class among the corners of its cell so that both ratios stay; return places and masses."""
        exact = np.log([self.first, self.second]) / step
        below = np.floor(exact)
        upper = np.clip(np.expm1((exact - below) * step) / np.expm1(step), 0, 1)
        shares = (1 - upper, upper)
        corners = [(row, column) for row in (0, 1) for column in (0, 1)]
        places = np.hstack(
            [below + np.array([[row], [column]]) for row, column in corners]
        ).astype(np.int64)
        masses = np.concatenate(
            [
                self.masses * shares[row][0] * shares[column][1]
                for row, column in corners
            ]
        )
        split, where = np.unique(places, axis=1, return_inverse=True)
        held = np.zeros(split.shape[1])
        np.add.at(held, where.ravel(), masses)
        return split[:, held > 0], held[held > 0]
