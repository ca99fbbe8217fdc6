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
    """Choose at most so many rows of each person, at random.

    Which of a person's rows are kept does not depend on other persons, so adding or removing a person changes the kept
    table by at most her own rows.

    Parameters
    ----------
    groups : 1-D array or series of shape (n_rows,)
        Who each row is about.
    most : int
        How many rows of a person are kept.
    n_rows : int
        The number of rows of the table.
    rng : numpy.random.Generator
        The coins of the choice; they need not be secret.

    Returns
    -------
    ndarray of int
        The places of the kept rows, increasing.

    Raises
    ------
    ValueError
        If the groups do not fit the table, or one is missing: rows without a person cannot be bounded.

    Examples
    --------
    >>> kept = bound_contribution(["ann", "bob", "ann", "ann"], 2, 4, np.random.default_rng(0))
    >>> len(kept), 1 in kept
    (3, True)
    """
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
    """Leave out what a person contributes beyond a limit, in a large table.

    Parameters
    ----------
    table : LargeTable
        The private table.
    groups : str
        The column that says who each row is about.
    most : int
        How many rows of a person are kept.
    seed : int
        Of the choice.

    Returns
    -------
    tuple of (LargeTable, list of column names)
        The kept rows, and the columns without that of the persons.

    Raises
    ------
    TypeError, ValueError
        If it is no column of the table, or a value of it is missing: rows without a person cannot be bounded.
    """
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
        """Return the sum over no rows.

        Returns
        -------
        list of ndarray of int64
            One number.
        """
        return [np.zeros(1, np.int64)]

    def add(self, sums: list[NDArray[np.int64]], batch: Any, counts: NDArray[np.int64] | None = None) -> None:
        """Count the missing values of a batch.

        Parameters
        ----------
        sums : list of ndarray of int64
            As `zeros` gave them; changed in place.
        batch : pandas, polars or pyarrow table
            One column.
        counts : ndarray of int64, optional
            How often each value occurs; once by default.
        """
        (column,) = read_table(batch).columns
        missing = find_missing(column)
        sums[0] += int(np.count_nonzero(missing) if counts is None else counts[missing].sum())

    def n_distinct(self, sample: Any) -> float:
        """Return infinity: of the persons nothing is declared.

        Parameters
        ----------
        sample : pandas, polars or pyarrow table
            One column.

        Returns
        -------
        float
            Infinite.
        """
        return math.inf
