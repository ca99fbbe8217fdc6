"""The rows of persons: at most a few of each are used."""

from __future__ import annotations

import math
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import check_same_order
from skdp.central.statistics._cells import find_missing
from skdp.tables import ColumnError, LargeTable, Table, is_frame, read_table, shielded


def number_values(column: Any, name: str, *, sort: bool = False) -> NDArray[np.intp]:
    """Return the number of each value among the distinct ones, in order of appearance or sorted; -1 if missing."""
    if hasattr(column, "__array__") and not isinstance(
        column, np.ndarray | pd.Series | pd.Index
    ):
        series = nw.from_native(column, series_only=True, pass_through=True)
        column = (
            series.to_pandas() if isinstance(series, nw.Series) else np.asarray(column)
        )
    if getattr(column, "ndim", 1) != 1:
        raise ValueError(f"{name} must be 1-dimensional, got {column.ndim} dimensions")
    try:
        # Of a list, pandas would make floats where one is a fraction: large integers would be one person.
        dtype = object if isinstance(column, list | tuple) else None
        return shielded(
            lambda: pd.factorize(
                pd.Series(column, dtype=dtype).reset_index(drop=True), sort=sort
            )[0]
        )
    except ColumnError as error:
        raise ValueError(f"{name} {error}") from None


def read_persons(groups: Any, table: Table) -> NDArray[np.intp]:
    """Return the number of the person of each row of a table."""
    n_rows = len(table.columns[0])
    check_same_order(table.native, groups, "groups")
    if isinstance(groups, str):
        raise TypeError(
            "groups must hold the person of each row; only of a large table is it a column's name, got str"
        )
    if is_frame(groups):
        columns = read_table(groups).columns
        if len(columns) != 1:
            raise ValueError(f"groups must be one column, got {len(columns)}")
        (groups,) = columns
    persons = number_values(groups, "groups")
    if len(persons) != n_rows:
        raise ValueError(f"groups has {len(persons)} entries; X has {n_rows} rows")
    if (persons < 0).any():
        raise ValueError(
            "groups holds a missing value: every row must be some person's"
        )
    return persons


def rows_within(
    persons: NDArray[np.intp], most: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Mark at most `most` rows of each person, given by numbers, chosen at random."""
    # Which of a person's rows are kept does not depend on other persons: one changes at most `most` kept rows.
    n_rows = len(persons)
    shuffled = rng.permutation(n_rows)
    order = shuffled[np.argsort(persons[shuffled], kind="stable")]
    sizes = np.bincount(persons)
    rank = np.arange(n_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = np.zeros(n_rows, bool)
    kept[order[rank < most]] = True
    return kept


def limit_persons(
    table: LargeTable, groups: Any, most: int, rng: np.random.Generator
) -> tuple[LargeTable, Any]:
    """Return the rows of a large table, at most `most` of each person, and a table of its columns without rows."""
    rest, _ = without_column(table.sample, groups, "groups")
    (missing,) = table.add_up([groups], MissingTally())
    if missing.any():
        raise ValueError(
            "groups holds a missing value: every row must be some person's"
        )
    return table.limit_persons(groups, most, int(rng.integers(1 << 31))), rest


def without_column(sample: Any, name: Any, parameter: str) -> tuple[Any, Any]:
    """Return the other columns of a large table, and that which a parameter names, as tables without rows."""
    frame = nw.from_native(sample, eager_only=True)
    if not isinstance(name, str):
        raise TypeError(
            f"{parameter} must be the name of a column of X, as X is a large table; got {type(name).__name__}"
        )
    if name not in frame.columns:
        raise ValueError(
            f"{parameter} must be the name of a column of X, got {name!r}; X has {frame.columns}"
        )
    if len(frame.columns) == 1:
        raise ValueError(f"X has no column beside {name!r}, which is {parameter}")
    return frame.drop(name).to_native(), frame.select(name).to_native()


class MissingTally:
    """How many values of a column are missing: a `skdp.tables.Summary`."""

    def zeros(self) -> list[NDArray[np.int64]]:
        return [np.zeros(1, np.int64)]

    def add(
        self,
        sums: list[NDArray[np.int64]],
        batch: Any,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        (column,) = read_table(batch).columns
        missing = find_missing(column)
        sums[0] += int(
            np.count_nonzero(missing) if counts is None else counts[missing].sum()
        )

    def n_distinct(self, sample: Any) -> float:
        """Return infinity: of the persons nothing is declared."""
        return math.inf
