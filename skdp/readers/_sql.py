"""Engine of SQL databases: tables of Ibis, whose distinct rows are counted if there are few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import chain, count, islice
from typing import Any, Self

from skdp._arrays import Integers, PathType
from skdp.readers._io import Extra, RefusedBatch, run_safely
from skdp.readers._large_table import (
    BATCH_ROWS,
    Release,
    StreamTable,
    Summary,
    Tables,
    read_batches,
)
from skdp.readers._local import quote_for_sql

pyarrow, dataset = Extra("pyarrow", "sql"), Extra("pyarrow.dataset", "sql")
ibis = Extra("ibis", "sql")

# Largest number of distinct rows that a database counts and returns.
MAX_DISTINCT_ROWS = 1 << 18

# Number of rows whose distinct rows a database counts first, and the largest fraction of
# distinct ones: 0.88 of 65,536 rows drawn evenly from `MAX_DISTINCT_ROWS` values are distinct.
N_PROBED_ROWS = 1 << 16
MAX_DISTINCT_FRACTION = 7 / 8

# Name of the column of the numbers of rows.
_N_ROWS = "skdp_n_rows"

# By database, expressions that are equal only for text of equal bytes.
_TEXT_KEYS = {
    "duckdb": "encode(CAST({0} AS VARCHAR))",
    "postgres": 'CAST({0} AS TEXT) COLLATE "C"',
}


class IbisTable(StreamTable):
    """Engine of tables of Ibis."""

    def __init__(self, frame: Any) -> None:
        super().__init__(run_safely(partial(_cast_to_arrow_types, frame)))
        self._stored = frame
        # The distinct rows of some columns and the number of each; None if there are many.
        self._distinct: dict[frozenset[Any], Any] = {}

    def _make_empty_table(self) -> Any:
        """Return an Arrow table without rows."""
        return _find_schema(self._frame).empty_table()

    def _read(self, columns: Sequence[Any]) -> Tables:
        """Read columns as a stream of Arrow tables."""
        yield from read_query(self._frame.select(*columns))

    def open_reports(self, release: Release, path: PathType) -> Any:
        """Open a Parquet file as a dataset of pyarrow."""
        return dataset.dataset(path)

    def identify(self, person: str) -> Self:
        """Return the table with the ids of people as text if they were cast: floats of 2**53 or more may be equal."""
        if self._stored.schema()[person] == self._frame.schema()[person]:
            return self
        return type(self)(self._stored.cast({person: "string"}))

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[Integers]:
        """Sum over the distinct rows, each as often as it occurs, or over all rows if there are many distinct ones."""
        if self.limit is not None or (rows := self._find_distinct(names)) is None:
            return super().add_up(names, summary)
        *columns, n_rows = rows.columns
        found = pyarrow.table(columns, rows.column_names[:-1]).select(names)
        n_rows = n_rows.to_numpy()
        sums = summary.zeros()
        # From the highest to the lowest binary digit of the numbers of rows.
        for digit in reversed(range(int(n_rows.max(initial=0)).bit_length())):
            sums = [part + part for part in sums]
            summary.add(sums, found.filter((n_rows >> digit) & 1 == 1))
        return sums

    def read_small(self, columns: Sequence[Any], max_bytes: int) -> Any:
        """Read columns as an Arrow table; return None if `add_up` needs their distinct rows only."""
        if self.limit is None and self._find_distinct(columns) is not None:
            return None
        return super().read_small(columns, max_bytes)

    def _find_distinct(self, names: Sequence[Any]) -> Any:
        """Return the distinct rows of these columns or more, with their numbers last; None if there are many."""
        # If some columns have many distinct rows, more columns have as many or more.
        for columns, rows in self._distinct.items():
            is_found = columns <= {*names} if rows is None else columns >= {*names}
            if is_found:
                return rows
        rows = count_distinct(self._frame.select(*names))
        if rows is not None:
            rows = rows.rename_columns([*names, _N_ROWS])
        self._distinct[frozenset(names)] = rows
        return rows


def count_distinct(query: Any) -> Any:
    """Count the distinct rows of a table of Ibis: columns "c0", ..., and their numbers.

    Return None if there are many of them, or if the database may not compare values exactly.
    """
    database = query.get_backend().name
    if not all(map(_is_comparable, query.schema().types)):
        return None
    if database == "sqlite":
        return _count_in_process(query)
    return _count_in_database(query) if database in _TEXT_KEYS else None


def _count_in_process(query: Any) -> Any:
    """Count the distinct rows of a table of SQLite, which is faster than its GROUP BY; None if there are many."""
    counts: Counter[tuple[Any, ...]] = Counter()
    schema, text = _find_schema(query), query.compile()
    with closing(run_safely(lambda: query.get_backend().raw_sql(text))) as cursor:
        for n_read in count(BATCH_ROWS, BATCH_ROWS):
            if (first := run_safely(lambda: next(cursor, None))) is None:
                break
            block = chain([first], islice(cursor, BATCH_ROWS - 1))
            run_safely(partial(counts.update, block))
            if len(counts) > min(MAX_DISTINCT_ROWS, MAX_DISTINCT_FRACTION * n_read):
                return None
    values = list(chain.from_iterable(counts))
    found = run_safely(partial(_make_arrow_table, values, schema))
    return found.append_column(_N_ROWS, pyarrow.array(list(counts.values()), "int64"))


def _count_in_database(query: Any) -> Any:
    """Let the database count the distinct rows of a table of Ibis; None if there are many."""
    n_probed = _group(query.limit(N_PROBED_ROWS)).count()
    if run_safely(n_probed.execute) > MAX_DISTINCT_FRACTION * N_PROBED_ROWS:
        return None
    grouped = _group(query).limit(MAX_DISTINCT_ROWS + 1)
    rows = pyarrow.concat_tables(read_query(grouped))
    return rows if rows.num_rows <= MAX_DISTINCT_ROWS else None


def _is_comparable(dtype: Any) -> bool:
    """Return True if equal values of a type are one value for each estimator."""
    return bool(
        dtype.is_boolean()
        or dtype.is_numeric()
        or dtype.is_string()
        or dtype.is_date()
        or dtype.is_timestamp()
    )


def _group(query: Any) -> Any:
    """Count the distinct rows of a table of Ibis in its database: columns "c0", ..., and the numbers of rows."""
    backend = query.get_backend()
    schema: dict[str, Any] = {}
    values, keys = [], []
    for index, (name, dtype) in enumerate(query.schema().items()):
        value = key = quote_for_sql(name)
        if dtype.is_string():
            # A collation may ignore case, accents or blanks.
            value, key = f"min({key})", _TEXT_KEYS[backend.name].format(key)
        schema[f"c{index}"] = dtype
        values.append(f"{value} AS c{index}")
        keys.append(key)
    text = (
        f"SELECT {', '.join(values)}, count(*) AS {_N_ROWS} "
        f"FROM ({query.compile()}) AS found GROUP BY {', '.join(keys)}"
    )
    return backend.sql(text, schema=schema | {_N_ROWS: "int64"})


def read_query(query: Any) -> Tables:
    """Read the rows of a table of Ibis as a stream of Arrow tables."""
    for name, dtype in query.schema().items():
        if dtype.is_interval() or dtype.is_unknown():
            raise ValueError(
                f"Column {name!r} must have a type that Arrow represents, got {dtype}. "
                "Convert it in the database, such as an interval to seconds."
            )
    connection, schema = query.get_backend(), _find_schema(query)
    yield schema.empty_table()
    if connection.name == "sqlite":
        # Ibis would read all rows at once.
        with closing(run_safely(lambda: connection.raw_sql(query.compile()))) as cursor:
            # Tuples that are kept would be visited by the garbage collector.
            values = chain.from_iterable(cursor)
            n_values = BATCH_ROWS * len(schema)
            while block := run_safely(lambda: list(islice(values, n_values))):
                yield run_safely(partial(_make_arrow_table, block, schema))
    elif connection.name == "duckdb":
        # DuckDB 2 has other names for the methods that Ibis 12 calls.
        relation = run_safely(lambda: connection.con.sql(query.compile()))
        with run_safely(lambda: relation.to_arrow_reader(BATCH_ROWS)) as reader:
            for table in read_batches(reader):
                yield table.cast(schema)  # sums are integers of 128 bits
    else:
        read = partial(query.to_pyarrow_batches, chunk_size=BATCH_ROWS)
        yield from read_batches(run_safely(read))


def _cast_to_arrow_types(query: Any) -> Any:
    """Cast UUIDs of PostgreSQL to text, and numbers without a precision to floats, which Ibis does not read."""
    types = {}
    if query.get_backend().name == "postgres":
        for name, dtype in query.schema().items():
            if dtype.is_uuid():
                types[name] = "string"
            elif dtype.is_decimal() and dtype.precision is None:
                types[name] = "float64"
    return query.cast(types) if types else query


def _find_schema(query: Any) -> Any:
    """Return the Arrow schema of a table of Ibis; SQLite stores decimals as floats."""
    schema = query.schema().to_pyarrow()
    if query.get_backend().name == "sqlite":
        for index, field in enumerate(schema):
            if pyarrow.types.is_decimal(field.type):
                schema = schema.set(index, field.with_type(pyarrow.float64()))
    return schema


def _make_arrow_table(block: Sequence[Any], schema: Any) -> Any:
    """Convert the values of some rows of SQLite, one row after the other, to an Arrow table.

    A value of another type than its column is an error.
    """
    arrays = []
    for index, field in enumerate(schema):
        values = block[index :: len(schema)]
        # SQLite stores booleans as integers, and dates as text.
        stored = field.type
        allowed: set[type] = {str}
        if pyarrow.types.is_boolean(stored) or pyarrow.types.is_integer(stored):
            stored, allowed = pyarrow.int64(), {int}
        elif pyarrow.types.is_floating(stored):
            allowed = {int, float}
        elif pyarrow.types.is_temporal(stored):
            stored = pyarrow.string()
        is_boolean = pyarrow.types.is_boolean(field.type)
        # Arrow converts 1.9 to 1, bytes to text, and 7 to True.
        if not {*map(type, values)} <= {*allowed, type(None)} or (
            is_boolean and not {*values} <= {0, 1, None}
        ):
            raise TypeError("a value has another type than its column")
        if float in allowed and any(
            isinstance(value, int) and abs(value) >= 1 << 53 for value in values
        ):
            raise RefusedBatch(
                f"Column {field.name!r} must have integers below 2**53, because SQLite's "
                "decimals are read as floats. Cast it to int64 in the table of Ibis."
            )
        arrays.append(pyarrow.array(values, stored).cast(field.type))
    return pyarrow.table(arrays, schema)
