"""The base class of the linear models: reading rows, and the linear predictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from skdp.base import read_numbers
from skdp.central._supervised import SupervisedStatistic, features
from skdp.central.statistics import LargeRows, Rows
from skdp.frames import LargeTable, Table

Floats = NDArray[np.float64]


class LinearModel(SupervisedStatistic):
    """A model with coefficients, for rows of numbers without missing values."""

    coef_: Floats
    intercept_: Any

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def _respond(self, X: Any) -> Floats:
        """Return the linear function of rows that the coefficients are of."""
        table = self._read_rows(X)
        response: Floats = np.stack(read_numbers(table), axis=1) @ self.coef_.T + self.intercept_
        return response


@dataclass(frozen=True)
class _Placing:
    """How values become places, and the target codes: picklable."""

    ends: Floats
    starts: Floats
    codes: Callable[[Any], NDArray[Any]]

    def __call__(self, table: Table) -> Rows:
        return Rows.of(read_numbers(features(table)), self.ends, self.starts, self.codes(table.columns[-1]))


def read_rows(
    table: Table, large: LargeTable | None, ends: Floats, starts: Floats, codes: Callable[[Any], NDArray[Any]]
) -> Rows:
    """Read the columns and the target of a table, or prepare to read a large one, whose values are checked already."""
    place = _Placing(ends, starts, codes)
    return place(table) if large is None else LargeRows.open(large, table.names, place)
