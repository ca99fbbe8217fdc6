"""Batches of rows, from a table in memory or from a large table, and the rows of each person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from skdp._arrays import ColumnLike, ColumnName, Indices, Integers, Mask, TableLike
from skdp.base import check_same_order, draw_seed, name_declared, to_single_column
from skdp.central.statistics._calibrated_noise import warn_user
from skdp.central.statistics._times import convert_times
from skdp.domain import Categories
from skdp.readers import LargeTable, ValueCounts, open_large
from skdp.tables import (
    ColumnError,
    Table,
    call_safely,
    is_frame,
    is_missing,
    read_key,
    type_of_column,
    wrap_table,
)

# Computes integer sums over the rows of a table, or counts of pairs of integers or of texts. It
# can be pickled, because engines send it to workers.
SumsOf = Callable[[Table], list[Any]]


@dataclass(frozen=True, eq=False)
class RowSums:
    """Integer sums, or `ValueCounts`, over the rows of all batches of a large table: a `skdp.tables.Summary`."""

    sums_of: SumsOf
    # The sums of a table without rows.
    empty_sums: Sequence[Any]

    def zeros(self) -> list[Any]:
        """Return sums over no rows."""
        return list(map(copy, self.empty_sums))

    def add(self, sums: list[Any], batch: TableLike) -> None:
        """Add the sums over the rows of a batch, in place."""
        for index, part in enumerate(self.sums_of(wrap_table(batch))):
            if isinstance(part, Counter):
                sums[index].update(part)  # in place: it may have many values
            else:
                sums[index] = sums[index] + part


@dataclass(frozen=True, eq=False)
class Batches:
    """The rows of a private table, in memory or in an engine that reads them in batches."""

    # The rows in memory; for a table in an engine, its columns without rows.
    table: Table
    large: LargeTable | None = None
    # True if the last column contains the weights of the rows.
    is_weighted: bool = False
    # The number of rows of each person, before rows were excluded; None without persons, or
    # if the estimator does not release the fraction of excluded rows.
    rows_by_person: Integers | None = None
    # The types of columns of times in an engine, which are read as numbers of days.
    times: Mapping[Any, str] = field(default_factory=dict)
    # The categories of columns whose values are found, not declared.
    found: Mapping[Any, Categories] = field(default_factory=dict)

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of the columns."""
        return self.table.names

    @property
    def n_rows(self) -> int | None:
        """The number of rows in memory; None for a table in an engine."""
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

    def are_boolean(self) -> Mask:
        """Return True for columns with a boolean dtype."""
        return np.array([type_of_column(x) == "boolean" for x in self.table.columns])

    def convert_times(self, times: Mapping[Any, str]) -> Batches:
        """Read columns of times as numbers of days."""
        if not times:
            return self
        return replace(self, table=convert_times(self.table, times), times=times)

    def add_found(self, declared: object) -> Any:
        """Add the categories that are found to the declared values of a parameter."""
        if not any(name in self.found for name in self.names):
            return declared
        found = {name: self.found[name] for name in self.names if name in self.found}
        return {**name_declared(self.names, declared), **found}

    def add_up(self, sums_of: SumsOf) -> list[Integers]:
        """Sum integers over all rows: `sums_of` returns the sums over the rows of a table."""
        # For a table in an engine, `table` has no rows. A column of the wrong type raises
        # an error here, before any row is read.
        sums = sums_of(self.table)
        if self.large is None:
            return sums
        return self.large.add_up(self.names, self._sum_up(sums_of, sums))

    def _sum_up(self, sums_of: SumsOf, sums: Sequence[Any]) -> RowSums:
        """Return sums over the rows of a large table, with numbers of days for columns of times."""
        return RowSums(partial(_sum_days, sums_of, self.times), sums)

    def count_values(self, values_of: SumsOf) -> ValueCounts:
        """Count the pairs of a group and a value over all rows, which `values_of` returns for the rows of a table."""
        (counts,) = values_of(self.table)
        if self.large is not None:
            counts = self.large.count_values(
                self.names, self._sum_up(values_of, [counts])
            )
        return counts

    def count_texts(self, texts_of: SumsOf) -> list[Counter[Any]]:
        """Count the texts of each column over all rows; `texts_of` returns a `Counter` of each column of a table."""
        counts = texts_of(self.table)
        if self.large is None:
            return counts
        return self.large.count_texts(self.names, RowSums(texts_of, counts))


def _sum_days(sums_of: SumsOf, times: Mapping[Any, str], table: Table) -> list[Any]:
    """Compute sums over the rows of a table with numbers of days for columns of times."""
    return sums_of(convert_times(table, times) if times else table)


def select_columns(table: Table, names: Sequence[Any]) -> Table:
    """Select some columns of a table."""
    columns = [table.columns[table.names.index(name)] for name in names]
    return replace(table, names=tuple(names), columns=tuple(columns))


def find_missing(column: ColumnLike) -> Mask:
    """Return True for each missing value of a column: None, NaN, NaT or null."""
    if isinstance(column, pd.Series) and column.dtype == object:
        column = column.to_numpy()
    if isinstance(column, np.ndarray):
        if column.dtype != object:
            return pd.isna(column)
        # pandas.isna raises an error for Decimal("sNaN").
        return np.fromiter(map(is_missing, column), bool, len(column))
    series = nw.from_native(column, series_only=True)
    missing = series.is_null().to_numpy().astype(bool)
    if series.dtype.is_float():
        missing |= series.is_nan().fill_null(True).to_numpy().astype(bool)
    return missing


def split_persons(
    X: TableLike, person: ColumnLike | ColumnName | None
) -> tuple[Any, Any]:
    """Split a table in memory into its features and the persons, if `person` is a column name."""
    if isinstance(person, str):
        return split_off_column(X, person, "person")
    return X, person


def read_persons(person: ColumnLike | ColumnName | None, table: Table) -> Indices:
    """Check the parameter `person`, and return the number of the person of each row; shape (n_rows,)."""
    n_rows = len(table.columns[0])
    check_same_order(table.native, person, "person")
    if is_frame(person):
        columns = wrap_table(person).columns
        if len(columns) != 1:
            raise ValueError(
                f"`person` must be one column, got {len(columns)} columns."
            )
        person = columns[0]
    name = getattr(person, "name", None)
    if isinstance(name, str) and name in table.names:
        raise ValueError(
            f"`person` must not be one of the analyzed columns of X, got {name!r}. If it "
            f"identifies people, use `person={name!r}`, which excludes it from X."
        )
    n_dimensions = getattr(person, "ndim", 1)
    if n_dimensions != 1:
        raise ValueError(
            f"`person` must be 1-dimensional, got {n_dimensions} dimensions."
        )
    try:
        persons: Indices = call_safely(_number_persons, person)
    except ColumnError as error:
        raise ValueError(f"`person` {error}.") from None
    if len(persons) != n_rows:
        # The numbers of rows are private.
        raise ValueError("`person` must have one person for each row of X.")
    if (persons < 0).any():
        raise _make_missing_person_error()
    return persons


def _number_persons(person: ColumnLike | ColumnName | None) -> Indices:
    """Return the number of the person of each row, in order of appearance; -1 if missing."""
    if not hasattr(person, "__array__"):
        # pandas would convert the integers of a list with a fraction to floats.
        person = pd.Series(person, dtype=object)
    elif hasattr(person, "to_pandas"):  # of polars or pyarrow
        person = person.to_pandas()
    if infer_dtype(person) == "mixed-integer":
        # 7 and "7" would be two people.
        raise ColumnError(
            "must have ids of one type, got integers and other values. Convert all ids "
            "to text or to integers"
        )
    persons, ids = pd.factorize(pd.Series(person).reset_index(drop=True))
    # Integers that were rounded to equal floats would be one person.
    if infer_dtype(np.asarray(ids)) in ("string", "floating", "mixed-integer-float"):
        texts = map(read_key, map(str, ids))
        keys, _ = pd.factorize(np.array([*texts, None], object))
        persons = keys[persons]  # the last key is for missing ids
    return persons


def _make_missing_person_error() -> ValueError:
    return ValueError(
        "`person` must not contain missing values. Drop the rows without a person."
    )


def rows_within(persons: Indices, max_rows: int, rng: np.random.Generator) -> Mask:
    """Choose at most `max_rows` rows of each person at random: return True for each chosen row.

    `persons` has the number of the person of each row.
    """
    # The choice of the rows of a person is independent of other people, so a person
    # changes at most `max_rows` chosen rows.
    n_rows = len(persons)
    shuffled = rng.permutation(n_rows)
    order = shuffled[np.argsort(persons[shuffled], kind="stable")]
    sizes = np.bincount(persons)
    # The position of each row among the shuffled rows of its person.
    rank = np.arange(n_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_within = np.zeros(n_rows, bool)
    is_within[order[rank < max_rows]] = True
    return is_within


def limit_persons(
    large: LargeTable, person: Any, max_rows: int, rng: np.random.Generator
) -> tuple[LargeTable, Any]:
    """Limit a large table to `max_rows` rows per person; also return its other columns, without rows.

    `person` is the name of the column of people.
    """
    features, column = split_off_column(large.template, person, "person")
    (n_missing,) = Batches(wrap_table(column), large).add_up(_count_missing)
    if n_missing.any():
        raise _make_missing_person_error()
    seed = int(rng.integers(1 << 31))
    return large.identify(person).limit_persons(person, max_rows, seed), features


def count_persons(large: LargeTable, person: Any) -> Integers:
    """Count the rows of each person in a large table; `person` is the name of the column of people."""
    large = large.identify(person)
    _, column = split_off_column(large.template, person, "person")
    (counts,) = Batches(wrap_table(column), large).count_texts(_count_persons)
    return np.fromiter(counts.values(), np.int64, len(counts))


def _count_persons(table: Table) -> list[Counter[Any]]:
    """Count the rows of each person in the single column of a table."""
    ids = nw.from_native(table.columns[0], series_only=True).to_list()
    is_text = any(isinstance(value, str) for value in ids)
    return [Counter(map(read_key, ids) if is_text else ids)]


def _count_missing(table: Table) -> list[Integers]:
    """Count the missing values of the single column of a table."""
    return [np.array([find_missing(table.columns[0]).sum()], np.int64)]


def read_private_rows(
    X: TableLike,
    person: ColumnLike | ColumnName | None,
    max_rows: int,
    random_state: int | None,
    read: Callable[..., Table],
    *,
    counts_persons: bool = False,
) -> Batches:
    """Read a table by `read`, with at most `max_rows` rows of each person, which are independent of the noise.

    `counts_persons` also counts the rows of each person in an engine.
    """
    large = open_large(X)
    if large is None:
        X, person = split_persons(X, person)
        table = read(X, large=None)
        if person is None:
            return Batches(table)
        persons = read_persons(person, table)
        rng = np.random.default_rng(draw_seed(random_state))
        table = table.take(np.flatnonzero(rows_within(persons, max_rows, rng)))
        return Batches(table, rows_by_person=np.bincount(persons))
    columns, counts, whole = large.template, None, large
    if person is not None:
        rng = np.random.default_rng(draw_seed(random_state))
        large, columns = limit_persons(large, person, max_rows, rng)
        if counts_persons:
            counts = count_persons(whole, person)
    return Batches(read(columns, large=large), large, rows_by_person=counts)


def split_off_column(
    sample: TableLike, name: object, parameter: str
) -> tuple[Any, Any]:
    """Split a table, or the template (without rows) of a large table, into the features and one column.

    `name` is the name of this column, such as the target. `parameter` is the parameter that names it, for errors.
    """
    if not isinstance(name, str):
        raise TypeError(
            f"`{parameter}` must be the name of a column of X for a large table, got "
            f"{type(name).__name__}."
        )
    if not is_frame(sample):
        raise TypeError(
            f"X must be a dataframe if `{parameter}` is the name of a column, "
            f"{name!r}, got {type(sample).__name__}. Pass an array of shape (n_samples,)."
        )
    frame = nw.from_native(sample, eager_only=True)
    if name not in frame.columns:
        raise ValueError(
            f"`{parameter}` must be the name of a column of X, {frame.columns}, got "
            f"{name!r}."
        )
    if len(frame.columns) == 1:
        raise ValueError(
            f"X must have further columns besides `{parameter}`={name!r}, got none."
        )
    return frame.drop(name).to_native(), frame.select(name).to_native()


def append_weights(
    table: Table, sample_weight: ColumnLike | ColumnName | None
) -> Table:
    """Append the weights of rows, which may be None, to a table as its last column."""
    if sample_weight is None:
        return table
    check_same_order(table.native, sample_weight, "sample_weight")
    weights = to_single_column(sample_weight, "sample_weight")
    (column,) = weights.columns
    if isinstance(column, np.ndarray) and infer_dtype(column) == "string":
        raise TypeError(
            "`sample_weight` must be numbers, got text. Convert it to floats."
        )
    dtypes: Any = getattr(sample_weight, "dtypes", ())
    if "object" in map(str, np.ravel(dtypes)):
        warn_user(
            "`sample_weight` has dtype object: values that are not numbers count as "
            "0, because an error would reveal them. Convert it to floats",
            "guide/curator_statistics#weights",
        )
    if len(column) != len(table.columns[0]):
        # The numbers of rows are private.
        raise ValueError("`sample_weight` must have one weight for each row of X.")
    (name,) = weights.names
    if not is_frame(sample_weight):
        name = "sample_weight"
    while name in table.names:
        name += "_"
    return Table(
        (*table.names, name),
        (*table.columns, column),
        table.native,
        has_dtypes=table.has_dtypes,
    )
