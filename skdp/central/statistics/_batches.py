"""Batches of rows, from a table in memory or from a large table, and the rows of each person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import check_same_order
from skdp.tables import (
    ColumnError,
    LargeTable,
    Table,
    call_safely,
    is_frame,
    is_missing,
    wrap_table,
)

Integers = NDArray[np.int64]
# Returns integer sums over rows; picklable, as it may be sent to workers.
SumsOf = Callable[[Table], list[Integers]]


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over the rows of all batches: a `skdp.tables.Summary`."""

    sums_of: SumsOf
    # Sums of an empty table.
    nothing: Sequence[Integers]

    def zeros(self) -> list[Integers]:
        zeros: list[Integers] = list(map(np.zeros_like, self.nothing))
        return zeros

    def add(self, sums: list[Integers], batch: Any) -> None:
        for total, part in zip(sums, self.sums_of(wrap_table(batch)), strict=True):
            total += part


@dataclass(frozen=True, eq=False)
class Batches:
    """The rows of a table: a single batch in memory, or the batches of an engine."""

    # All rows of a table in memory; for a large table, its columns without rows.
    table: Table
    large: LargeTable | None = None

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of the columns."""
        return self.table.names

    @property
    def n_rows(self) -> int | None:
        """The number of rows, if it is known."""
        return len(self.table.columns[0]) if self.large is None else None

    def select(self, names: Sequence[Any]) -> Batches:
        """Select some columns."""
        return replace(self, table=select_columns(self.table, names))

    @property
    def features(self) -> Batches:
        """All columns but the last, which is the target."""
        return self.select(self.names[:-1])

    @property
    def target(self) -> Batches:
        """The last column."""
        table = Table(self.names[-1:], self.table.columns[-1:], self.table.native)
        return replace(self, table=table)

    def add_up(self, sums_of: SumsOf) -> list[Integers]:
        """Sum over all rows."""
        # Unreadable columns of a large table raise an error here, before any row is
        # read.
        sums = sums_of(self.table)
        if self.large is None:
            return sums
        return self.large.add_up(self.names, RowSums(sums_of, sums))


def select_columns(table: Table, names: Sequence[Any]) -> Table:
    """Select some columns of a table."""
    columns = [table.columns[table.names.index(name)] for name in names]
    return replace(table, names=tuple(names), columns=tuple(columns))


def find_missing(column: Any) -> NDArray[np.bool_]:
    """Mark the missing values of a column."""
    if isinstance(column, pd.Series) and column.dtype == object:
        column = column.to_numpy()
    if isinstance(column, np.ndarray):
        if column.dtype != object:
            return np.asarray(pd.isna(column))
        # pandas.isna raises an error for Decimal("sNaN").
        return np.fromiter(map(is_missing, column), bool, len(column))
    series = nw.from_native(column, series_only=True)
    missing = series.is_null().to_numpy().astype(bool)
    if series.dtype.is_float():
        missing |= series.is_nan().fill_null(True).to_numpy().astype(bool)
    return missing


def read_persons(groups: Any, table: Table) -> NDArray[np.intp]:
    """Return the number of the person of each row of a table."""
    n_rows = len(table.columns[0])
    check_same_order(table.native, groups, "groups")
    if isinstance(groups, str):
        raise TypeError(
            "groups must be an array with the person of each row, got str. Column "
            "names are for large tables only"
        )
    if is_frame(groups):
        columns = wrap_table(groups).columns
        if len(columns) != 1:
            raise ValueError(f"groups must be one column, got {len(columns)}")
        groups = columns[0]
    if getattr(groups, "ndim", 1) != 1:
        raise ValueError(f"groups must be 1-dimensional, got {groups.ndim} dimensions")
    try:
        persons: NDArray[np.intp] = call_safely(_number_persons, groups)
    except ColumnError as error:
        raise ValueError(f"groups {error}") from None
    if len(persons) != n_rows:
        raise ValueError(f"groups has {len(persons)} entries; X has {n_rows} rows")
    if (persons < 0).any():
        raise _missing_person()
    return persons


def _number_persons(groups: Any) -> NDArray[np.intp]:
    """Return the number of each person, in order of appearance; -1 if missing."""
    if not hasattr(groups, "__array__"):
        # pandas would convert the integers of a list with a fraction to floats.
        groups = pd.Series(groups, dtype=object)
    elif not isinstance(groups, np.ndarray | pd.Series | pd.Index):
        groups = nw.from_native(groups, series_only=True).to_pandas()
    return pd.factorize(pd.Series(groups).reset_index(drop=True))[0]


def _missing_person() -> ValueError:
    return ValueError(
        "groups must not contain missing values: each row requires a person"
    )


def rows_within(
    persons: NDArray[np.intp], most: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Mark at most `most` rows of each person, given by numbers, chosen at random."""
    # Which of a person's rows are marked does not depend on other persons: one changes
    # at most `most` marked rows.
    n_rows = len(persons)
    shuffled = rng.permutation(n_rows)
    order = shuffled[np.argsort(persons[shuffled], kind="stable")]
    sizes = np.bincount(persons)
    rank = np.arange(n_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_within = np.zeros(n_rows, bool)
    is_within[order[rank < most]] = True
    return is_within


def limit_persons(
    large: LargeTable, groups: Any, most: int, rng: np.random.Generator
) -> tuple[LargeTable, Any]:
    """Return the rows of a large table, at most `most` of each person, and a table of its columns without rows."""
    features, column = without_column(large.sample, groups, "groups")
    (n_missing,) = Batches(wrap_table(column), large).add_up(_count_missing)
    if n_missing.any():
        raise _missing_person()
    return large.limit_persons(groups, most, int(rng.integers(1 << 31))), features


def _count_missing(table: Table) -> list[Integers]:
    (column,) = table.columns
    return [np.array([find_missing(column).sum()], np.int64)]


def without_column(sample: Any, name: Any, parameter: str) -> tuple[Any, Any]:
    """Split the sample of a large table into the other columns and the column that a parameter names."""
    frame = nw.from_native(sample, eager_only=True)
    if not isinstance(name, str):
        raise TypeError(
            f"{parameter} must be the name of a column of X, as X is a large table; "
            f"got {type(name).__name__}"
        )
    if name not in frame.columns:
        raise ValueError(
            f"{parameter} must be the name of a column of X, got {name!r}; X has "
            f"{frame.columns}"
        )
    if len(frame.columns) == 1:
        raise ValueError(f"X must have a column besides {parameter}, {name!r}")
    return frame.drop(name).to_native(), frame.select(name).to_native()
