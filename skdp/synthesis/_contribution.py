"""Leaving out what a person contributes beyond a limit."""

from __future__ import annotations

import math
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.central._filling import find_missing
from skdp.coding import ColumnError, shielded
from skdp.frames import LargeTable, is_frame, read_table


def bound_contribution(groups: Any, most: int, n_rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Choose at most so many rows of each person, at random."""
    # Which of a person's rows are kept does not depend on other persons, so adding or removing a person changes the
    # kept table by at most her own rows.
    if is_frame(groups):
        table = read_table(groups)
        if len(table.columns) != 1:
            raise ValueError(f"groups must be one column, got {len(table.columns)}")
        (groups,) = table.columns
    if hasattr(groups, "__array__") and not isinstance(groups, np.ndarray | pd.Series | pd.Index):
        groups = nw.from_native(groups, series_only=True).to_pandas()
    if getattr(groups, "ndim", 1) != 1:
        raise ValueError(f"groups must be 1-dimensional, got {groups.ndim} dimensions")
    try:
        persons = shielded(_number_persons, groups)
    except ColumnError as error:
        raise ValueError(f"groups {error}") from None
    if len(persons) != n_rows:
        raise ValueError(f"groups has {len(persons)} entries; X has {n_rows} rows")
    if (persons < 0).any():
        raise ValueError("groups holds a missing value: every row must be some person's")
    shuffled = rng.permutation(n_rows)
    order = shuffled[np.argsort(persons[shuffled], kind="stable")]
    sizes = np.bincount(persons)
    rank = np.arange(n_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(order[rank < most])


def _number_persons(groups: Any) -> NDArray[np.intp]:
    return pd.factorize(pd.Series(groups).reset_index(drop=True))[0]


def limit_persons(table: LargeTable, groups: Any, most: int, seed: int) -> tuple[LargeTable, list[Any]]:
    """Leave out what a person contributes beyond a limit, in a large table."""
    names = list(read_table(table.sample).names)
    if not isinstance(groups, str):
        raise TypeError(f"groups must be the name of a column of X, as X is a large table; got {type(groups).__name__}")
    if groups not in names:
        raise ValueError(f"groups must be the name of a column of X, got {groups!r}; X has {names}")
    names.remove(groups)
    if not names:
        raise ValueError("X has no column beside that of the persons")
    (missing,) = table.add_up([groups], MissingTally())
    if missing.any():
        raise ValueError("groups holds a missing value: every row must be some person's")
    return table.limit_persons(groups, most, seed), names


class MissingTally:
    """How many values of a column are missing: a `skdp.frames.Summary`."""

    def zeros(self) -> list[NDArray[np.int64]]:
        """Return the sum over no rows."""
        return [np.zeros(1, np.int64)]

    def add(self, sums: list[NDArray[np.int64]], batch: Any, counts: NDArray[np.int64] | None = None) -> None:
        """Count the missing values of a batch."""
        (column,) = read_table(batch).columns
        missing = find_missing(column)
        sums[0] += int(np.count_nonzero(missing) if counts is None else counts[missing].sum())

    def n_distinct(self, sample: Any) -> float:
        """Return infinity: of the persons nothing is declared."""
        return math.inf
