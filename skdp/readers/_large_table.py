"""Engines: tables of a library that are checked, privatized and summed in batches or tasks."""

from __future__ import annotations

import importlib
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import ColumnLike, Integers, PathType
from skdp.domain import Domain
from skdp.readers._io import (
    Extra,
    RefusedBatch,
    check_path,
    make_temporary_path,
    open_output,
    read_safely,
    run_safely,
)
from skdp.tables import (
    ColumnError,
    attach_schema_protocol,
    choose_library,
    convert_frame,
    get_protocol_text,
    read_key,
    type_of_column,
)

pyarrow, parquet = Extra("pyarrow"), Extra("pyarrow.parquet")
duckdb = Extra("duckdb")

Tables = Generator[Any, None, None]
Pairs = tuple[Integers, Integers, Integers]

REPEATED_IDS = "`person` has repeated entries. Pass one row for each record."

# Rows of a batch that is read. Random bits do not depend on it.
BATCH_ROWS = 1 << 17


# The engine of a frame

_LOCAL = "skdp.readers._local"

# Module and class of the engine, by the library and the class of a frame.
_ENGINES = {
    ("dask", "DataFrame"): ("skdp.readers._clusters", "DaskTable"),
    ("pyspark", "DataFrame"): ("skdp.readers._clusters", "SparkTable"),
    ("polars", "LazyFrame"): (_LOCAL, "PolarsTable"),
    ("duckdb", "DuckDBPyRelation"): (_LOCAL, "DuckDBTable"),
    ("_duckdb", "DuckDBPyRelation"): (_LOCAL, "DuckDBTable"),
    ("ibis", "Table"): ("skdp.readers._sql", "IbisTable"),
    ("pyarrow", "Dataset"): (_LOCAL, "ArrowTable"),
    ("pyarrow", "Table"): (_LOCAL, "ArrowTable"),
    ("polars", "DataFrame"): (_LOCAL, "MemoryTable"),
    ("pandas", "DataFrame"): (_LOCAL, "MemoryTable"),
}


def _find_engine(frame: object) -> tuple[str, str] | None:
    """Return the module and the class of the engine of a frame, or None."""
    for frame_type in type(frame).__mro__:
        library = frame_type.__module__.partition(".")[0]
        if (library, frame_type.__name__) in _ENGINES:
            return _ENGINES[library, frame_type.__name__]
    return None


def open_engine(frame: object) -> LargeTable:
    """Wrap a frame in the engine of its library; raise an error for other objects."""
    location = _find_engine(frame)
    if location is None:
        raise TypeError(
            "`frame` must be a DataFrame of Dask, Spark, Polars or pandas, a "
            "LazyFrame, a relation of DuckDB, a table of Ibis, or a Table or Dataset "
            f"of pyarrow, got {type(frame).__name__}.{_advise(frame)}"
        )
    module, class_name = location
    return getattr(importlib.import_module(module), class_name)(frame)


def _advise(frame: object) -> str:
    """Return the remedy for an object that is no frame of an engine, as a sentence after a space."""
    if isinstance(frame, str | os.PathLike):
        return " For files, use `privatize_file` and `estimate_file`."
    if isinstance(frame, np.ndarray):
        return " For an array, use `fit_transform` of the transformer."
    if type(frame).__module__.startswith("narwhals"):
        return " Use frame.to_native()."
    if hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
        return " Use pyarrow.table(frame)."
    return ""


def open_large(frame: object) -> LargeTable | None:
    """Open a table that is not in memory, such as Dask or DuckDB; None for other objects."""
    if isinstance(frame, LargeTable):
        return frame
    # A pyarrow Table is in memory, although its engine reads it as a stream.
    if choose_library(frame) == "pyarrow":
        return None
    location = _find_engine(frame)
    if location is None or location[1] == "MemoryTable":
        return None
    return open_engine(frame)


def load_large(data: object) -> Any:
    """Read a table of an engine into memory; return other data unchanged."""
    large = open_large(data)
    return data if large is None else large.load()


# Engines


class Summary(Protocol):
    """Interface of sums over rows that workers compute in batches; instances are picklable."""

    def zeros(self) -> list[Integers]:
        """Return arrays of zeros, the sums over no rows."""

    def add(self, sums: list[Integers], batch: object) -> None:
        """Add the sums over the rows of a batch in place."""


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """The number of rows of each pair of a group and a value, both integers."""

    # Groups, values and numbers of rows, each of shape (n_pairs,). Pairs may be repeated.
    parts: tuple[Pairs, ...] = ()

    def __add__(self, other: ValueCounts) -> ValueCounts:
        """Add the counts of further rows."""
        added = ValueCounts(self.parts + other.parts)
        n_first, *n_rest = (groups.size for groups, _, _ in added.parts)
        # So each pair is merged a few times only.
        if sum(n_rest) > n_first:
            return ValueCounts((added.merge(),))
        return added

    def merge(self) -> Pairs:
        """Return the distinct pairs, ascending: groups, values and numbers of rows, each of shape (n_pairs,)."""
        parts = [part for part in self.parts if part[0].size]
        if not parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        (low_group, high_group), (low_value, high_value) = (
            _find_range(part[axis] for part in parts) for axis in (0, 1)
        )
        n_values = high_value - low_value + 1
        if (high_group - low_group + 1) * n_values >= 1 << 63:
            return _merge_ranks(parts)
        # A pair is sorted as one integer, which is faster than by groups and values.
        merged = []
        for groups, values, counts in parts:
            keys = (groups - low_group) * n_values
            keys += values
            keys -= low_value
            merged.append(_add_equal_keys(keys, counts))
        keys, n_rows = map(np.concatenate, zip(*merged, strict=True))
        # Parts of separate columns have separate groups.
        if not (keys[1:] > keys[:-1]).all():
            keys, n_rows = _add_equal_keys(keys, n_rows)
        # In place: memory that the process did not have before takes longer than this.
        groups = keys // n_values
        values = np.remainder(keys, n_values, out=keys)
        groups += low_group
        values += low_value
        return groups, values, n_rows


def _find_range(arrays: Iterable[Integers]) -> tuple[int, int]:
    """Return the smallest and the largest number of arrays that are not empty."""
    lows, highs = zip(*((array.min(), array.max()) for array in arrays), strict=True)
    return int(min(lows)), int(max(highs))


def _add_equal_keys(keys: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Return the distinct keys, ascending, and the sums of their counts; counts of 1 need no order, which is faster."""
    is_single = bool((counts == 1).all())
    if is_single:
        keys.sort()
    else:
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
    is_first = np.ones(keys.size, bool)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    first_rows = np.flatnonzero(is_first)
    if is_single:
        return keys[first_rows], np.diff(first_rows, append=keys.size)
    return keys[first_rows], np.add.reduceat(counts, first_rows)


def _merge_ranks(parts: Sequence[Pairs]) -> Pairs:
    """Merge pairs that are too far apart for keys of 64 bits, by the ranks of their groups and values."""
    groups, values, counts = map(np.concatenate, zip(*parts, strict=True))
    groups, group_ranks = np.unique(groups, return_inverse=True)
    values, value_ranks = np.unique(values, return_inverse=True)
    first, second, counts = ValueCounts(((group_ranks, value_ranks, counts),)).merge()
    return groups[first], values[second], counts


class Release(Protocol):
    """Interface of a release of reports of `skdp.engines`, which checks and privatizes the batches of a table."""

    # Columns that are released unchanged, and the column of the ids of persons.
    keep: tuple[str, ...]
    # A table of reports without rows, and the protocol as JSON.
    empty_reports: Any
    protocol_text: str | None

    @property
    def domain(self) -> Domain | None:
        """Declared values of the reports."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read."""

    @property
    def batch_rows(self) -> int:
        """Number of rows of a batch."""

    def check(self, batch: object) -> NDArray[np.uint64]:
        """Check the values of a batch; return digests of its ids of persons."""

    def draw(self, batch: object, position: tuple[int | None, int]) -> Any:
        """Privatize a batch at a position: the number of its partition or None, and of its first row."""


class LargeTable(ABC):
    """Base class of engines, each of which wraps a frame of one library; only sums over its rows are loaded."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @cached_property
    def sample(self) -> Any:
        """Table in memory with the columns of the frame, and no rows."""
        return run_safely(self._make_empty_table)

    @cached_property
    def template(self) -> Any:
        """Table without rows in the library of results for the frame."""
        return convert_frame(self.sample, choose_library(self._frame))

    @abstractmethod
    def _make_empty_table(self) -> Any:
        """Return a table in memory with the columns of the frame, and no rows."""

    def column_names(self) -> list[Any]:
        """Return the names of the columns, without reading rows."""
        return list(self._frame.columns)

    def protocols(self) -> set[str | None]:
        """Return the protocols (JSON) in the metadata of the table; None if a part has none."""
        return {get_protocol_text(self._frame)}

    def check_path(self, path: PathType | None) -> Any:
        """Check the path of the reports; None is replaced by a temporary path."""
        if path is not None and Path(path).suffix not in ("", ".parquet"):
            raise ValueError(
                "`path` must end in .parquet, the format of the reports, got "
                f"{str(path)!r}. Use `privatize_file` for files in other formats."
            )
        return check_path(path) or make_temporary_path()

    @abstractmethod
    def add_up(self, names: Sequence[Any], summary: Summary) -> list[Integers]:
        """Return the sums of a summary over the named columns of all rows, in one pass."""

    def count_values(self, names: Sequence[Any], summary: Any) -> ValueCounts:
        """Count pairs of integers over the named columns of all rows, in one pass.

        `summary` is a `Summary` with one `ValueCounts` in place of arrays.
        """
        counts: Any = self.add_up(names, summary)
        return counts[0]

    def count_texts(
        self, names: Sequence[Any], summary: Any
    ) -> list[Counter[str | None]]:
        """Count the texts of each named column over all rows, and None for missing values.

        `summary` is a `Summary` with a `Counter` for each column in place of arrays.
        """
        counts: Any = self.add_up(names, summary)
        return list(counts)

    @abstractmethod
    def _collect(self) -> Any:
        """Read all rows as a table of pandas, polars or pyarrow."""

    def read_small(self, columns: Sequence[Any], max_bytes: int) -> Any:
        """Read columns of all rows into memory; return None beyond `max_bytes`, or if other processes read the rows."""
        return None

    def load(self) -> Any:
        """Read all columns of all rows into memory, in the library of results."""
        rows = run_safely(self._collect)
        return convert_frame(rows, choose_library(self.template))

    def check_rows(self, release: Release) -> None:
        """Raise an error if a row has a value outside the domain, or an id of a person is repeated."""
        raise NotImplementedError

    def open_output(self, path: Any) -> AbstractContextManager[Any]:
        """Open the output beside its place, before the charge; it is renamed to `path` at the end."""
        return open_output(path)

    def write(self, release: Release, path: PathType) -> None:
        """Draw the reports of a charged release, and write them to an open output."""
        raise NotImplementedError

    def open_reports(self, release: Release, path: PathType) -> Any:
        """Open the reports of a release as a frame of the engine's library."""
        raise NotImplementedError

    def identify(self, person: str) -> Self:
        """Return a table with exact ids of people in the column `person`."""
        return self

    def limit_persons(self, person: ColumnLike, max_rows: int, seed: int) -> Self:
        """Raise an error, because this engine cannot limit the number of rows of a person."""
        library = type(self._frame).__module__.partition(".")[0]
        raise TypeError(
            "A limit of rows per person requires a table of DuckDB, Polars or pyarrow, "
            f"or a file, got a table of {library}."
        )


class StreamTable(LargeTable):
    """Engine of a frame that this process reads as a stream of Arrow tables."""

    # Column that identifies people, largest number of rows of a person, and a seed; None
    # if the number of rows is not limited.
    limit: tuple[Any, int, int] | None = None

    @abstractmethod
    def _read(self, columns: Sequence[Any]) -> Tables:
        """Read columns of all rows, from the start, as a stream of Arrow tables."""

    def read(self, columns: Sequence[Any]) -> Tables:
        """Read columns of the rows, limited to some rows of each person if `limit` is set."""
        if self.limit is None:
            return self._read(columns)
        names = self.column_names()
        return limit_rows(self._read(names), columns, *self.limit)

    def read_small(self, columns: Sequence[Any], max_bytes: int) -> Any:
        """Read columns of all rows as an Arrow table; return None if it has more than `max_bytes`."""
        parts: list[Any] = []
        n_bytes = 0
        with closing(self.read(columns)) as tables:
            for table in tables:
                n_bytes += table.nbytes
                if n_bytes > max_bytes:
                    return None
                parts.append(table)
        return pyarrow.concat_tables(parts or [self.sample.select(columns)])

    def _collect(self) -> Any:
        """Read all rows as an Arrow table."""
        tables = self.read(self.column_names())
        return pyarrow.concat_tables([self.sample, *tables])

    def load(self) -> Any:
        """Read all columns of all rows into memory, in the library of results."""
        if choose_library(self.template) != "pandas":
            return super().load()
        tables = self.read(self.column_names())
        return run_safely(lambda: collect_batches(chain([self.sample], tables)))

    def check_rows(self, release: Release) -> None:
        """Check the values and the ids of persons of all rows."""
        tables = self.read(release.columns)
        run_safely(lambda: check_distinct_ids(check_batches(release, tables)))

    def write(self, release: Release, path: Any) -> None:
        """Draw the reports in batches and write them to a Parquet file."""
        schema = release.empty_reports.schema
        schema = attach_schema_protocol(schema, release.protocol_text)
        run_safely(lambda: write_parquet(self.draw(release), schema, path))

    def draw(self, release: Release) -> Iterator[Any]:
        """Privatize the rows in batches."""
        return draw_batches(release, self.read(release.columns))

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[Integers]:
        """Sum over all rows in one pass."""
        return add_up_batches(self.read(names), summary)

    def limit_persons(self, person: ColumnLike, max_rows: int, seed: int) -> Self:
        """Return a copy that reads at most some rows of each person."""
        limited = copy(self)
        limited.limit = person, max_rows, seed
        return limited


def check_distinct_ids(digests: Iterable[NDArray[np.uint64]]) -> None:
    """Raise an error if a digest of an id occurs twice in the batches of a table."""
    ids = np.concatenate([np.zeros(0, np.uint64), *digests])
    if len(np.unique(ids)) < len(ids):
        raise RefusedBatch(REPEATED_IDS)


# Streams of Arrow tables. They are also closed after an error, because an open reader of
# DuckDB blocks its connection.


def read_batches(batches: Iterable[Any]) -> Tables:
    """Convert a stream of Arrow batches to tables."""
    for batch in read_safely(batches):
        yield pyarrow.Table.from_batches([batch])


def collect_batches(tables: Iterable[Any]) -> pd.DataFrame:
    """Convert a stream of Arrow tables to a table of pandas; no column of numbers is in memory twice."""
    numbers: dict[str, NDArray[Any]] = {}
    parts, names, n_rows = [], [], 0
    for table in tables:
        names, n_collected = table.column_names, n_rows
        n_rows += len(table)
        for name in names:
            value_type = table.schema.field(name).type
            is_integer = pyarrow.types.is_integer(value_type)
            if is_integer or pyarrow.types.is_floating(value_type):
                values = table[name].to_numpy()
                array = numbers.setdefault(name, np.empty(0, values.dtype))
                if values.dtype != array.dtype:  # integers, with missing values later
                    array = array.astype(np.result_type(array, values))
                    numbers[name] = array
                array.resize(n_rows, refcheck=False)
                array[n_collected:] = values
        parts.append(table.drop_columns(list(numbers)))
    others = pyarrow.concat_tables(parts).to_pandas(ignore_metadata=True)
    columns = {}
    for name in names:
        # A series would be aligned, with a copy of all columns.
        columns[name] = numbers[name] if name in numbers else others[name].array
    # Arrow would keep its memory.
    del table, parts
    pyarrow.default_memory_pool().release_unused()
    return pd.DataFrame(columns, copy=False)


def add_up_batches(tables: Tables, summary: Summary) -> list[Integers]:
    """Compute the sums of a summary over a stream of tables."""
    sums = summary.zeros()
    with closing(tables):
        for table in tables:
            summary.add(sums, table)
    return sums


def check_batches(release: Release, tables: Tables) -> Iterator[NDArray[np.uint64]]:
    """Check the rows of a stream of tables; yield the digests of the ids of persons of each table."""
    with closing(tables):
        for table in tables:
            yield release.check(table)


def draw_batches(
    release: Release, tables: Tables, partition: int | None = None
) -> Iterator[Any]:
    """Privatize the rows of a stream of tables, in order and in batches of `release.batch_rows`.

    `partition` is the number of the partition of a cluster, on which the random bits depend.
    """
    # The random bits of a batch depend on the number of its first row.
    first = 0
    with closing(split_evenly(tables, release.batch_rows)) as batches:
        for batch in batches:
            yield release.draw(batch, (partition, first))
            first += len(batch)


def split_evenly(tables: Tables, n_rows: int) -> Tables:
    """Split a stream of tables into tables of `n_rows` rows each, without copying data."""
    parts: list[Any] = []  # of the next table
    n_collected = 0
    with closing(tables):
        for table in tables:
            while n_collected + len(table) >= n_rows:
                n_missing = n_rows - n_collected
                yield pyarrow.concat_tables([*parts, table.slice(0, n_missing)])
                table = table.slice(n_missing)
                parts, n_collected = [], 0
            if len(table):
                parts.append(table)
                n_collected += len(table)
    if parts:
        yield pyarrow.concat_tables(parts)


def write_keys(name: object, column: Any) -> Any:
    """Convert an Arrow column of the ids of people to text, see `read_key`."""
    coded = column.cast(pyarrow.string()).combine_chunks().dictionary_encode()
    try:
        keys = list(map(read_key, coded.dictionary.to_pylist()))
    except ColumnError as error:
        raise RefusedBatch(f"Column {name!r} {error}.") from None
    return pyarrow.array(keys, pyarrow.string()).take(coded.indices)


def limit_rows(
    tables: Tables, columns: Sequence[Any], person: object, max_rows: int, seed: int
) -> Tables:
    """Select at most `max_rows` pseudorandom rows of each person from a stream, using DuckDB.

    `person` is the column that identifies people. The result has `columns` only.
    """
    with closing(tables):
        first = next(tables, None)
        if first is None:
            return
        # Columns are renamed because DuckDB ignores the case of names.
        names = [f"c{index}" for index in range(first.num_columns)]
        schema = first.rename_columns(names).schema
        # Of ids that are text, 7 and 7.0 are one.
        is_text = type_of_column(first[person]) == "string"
        query = (
            "SELECT * EXCLUDE (person) FROM people QUALIFY row_number() OVER (PARTITION "
            f"BY person ORDER BY hash({', '.join(names)}, {seed})) <= {max_rows}"
        )
        # DuckDB writes rows that exceed the memory to this folder. By default, it would
        # be in the current directory and readable by all users.
        with (
            TemporaryDirectory(prefix="skdp-") as folder,
            duckdb.connect(config={"temp_directory": folder}) as connection,
        ):
            # The rows are stored, because threads of DuckDB cannot read from all engines.
            statement = "CREATE TABLE people AS"
            for table in chain([first], tables):
                ids = table[person]
                if is_text or pyarrow.types.is_floating(ids.type):
                    keys = write_keys(person, ids)  # raises an error for rounded ids
                    ids = keys if is_text else ids
                rows = table.rename_columns(names).cast(schema)
                people = connection.from_arrow(rows.append_column("person", ids))
                run_safely(partial(people.query, "rows", f"{statement} FROM rows"))
                statement = "INSERT INTO people"
            people = connection.sql(query)
            selected = run_safely(lambda: people.to_arrow_reader(BATCH_ROWS))
            for table in read_batches(selected):
                yield table.rename_columns(first.column_names).select(columns)


def write_parquet(tables: Iterable[Any], schema: object, path: Path) -> None:
    """Write a stream of Arrow tables to a Parquet file."""
    with parquet.ParquetWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(table)
