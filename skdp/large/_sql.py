"""Engine of SQL databases: tables of Ibis, whose database counts and sums groups of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import Integers, Mask
from skdp.domain import Categories, Domain, Interval
from skdp.large._engine import (
    ROWS,
    Release,
    StreamTable,
    Tables,
    read_batches,
)
from skdp.large._io import Extra, run_safely
from skdp.tables import Table, to_objects, type_of_value, wrap_table

pyarrow, dataset = Extra("pyarrow", "sql"), Extra("pyarrow.dataset", "sql")
ibis = Extra("ibis", "sql")

# Adding and subtracting 1.5 * 2**52 rounds a float below 2**51 to an integer, ties to even.
_ROUNDING = 3 << 51


class IbisTable(StreamTable):
    """Engine of tables of Ibis."""

    def _make_empty_table(self) -> Any:
        """Return an Arrow table without rows."""
        return _find_schema(self._frame).empty_table()

    def _read(self, columns: Sequence[Any]) -> Tables:
        """Read columns as a stream of Arrow tables."""
        yield from read_query(self._frame.select(*columns))

    def open_reports(self, release: Release, path: Any) -> Any:
        """Open a Parquet file as a dataset of pyarrow."""
        return dataset.dataset(path)

    def group_rows(
        self, keys: Domain, numbers: Mapping[Any, Any], grid: int
    ) -> tuple[Table, Integers, Integers] | None:
        """Return a row, the number of rows, and sums of each combination of bins or values; None if rows must be read.

        `numbers` are bounds by column. The sums of `_place` have the shape (4, n_numbers, n_combinations).
        """
        backend = self._frame.get_backend().name
        if self.limit is not None or not self._can_group(backend):
            return None
        cells = self._find_cells(keys, backend)
        summands = self._find_summands(numbers, grid, backend)
        if cells is None or summands is None:
            return None
        if backend == "sqlite":
            for index, name in enumerate((*keys.columns, *numbers)):
                summands[f"other{index}"] = _find_other_type(self._frame[name])
        rows = self._frame.select(**cells, **summands)
        sums = {name: rows[name].sum().cast("int64") for name in summands}
        grouped = rows.group_by(list(cells)) if cells else rows
        found = pyarrow.concat_tables(read_query(grouped.aggregate(**sums)))
        totals = {name: found[name].fill_null(0).to_numpy() for name in summands}
        # SQLite stores values of any type in any column. Their rows are read, which raises
        # an error.
        if any(totals[name].any() for name in totals if name.startswith("other")):
            return None
        sums_by_group = np.zeros((4, len(numbers), found.num_rows), np.int64)
        for kind, index in np.ndindex(4, len(numbers)):
            sums_by_group[kind, index] = totals[f"sum{kind}_{index}"]
        return self._represent_keys(keys, found), totals["n_rows"], sums_by_group

    def _can_group(self, backend: str) -> bool:
        """Return True for databases whose expressions equal the conversions of Python."""
        if backend == "sqlite":
            # `hex` writes digits of UTF-8 only in databases with this encoding.
            query = self._frame.get_backend().raw_sql("PRAGMA encoding")
            with closing(query) as cursor:
                return bool(cursor.fetchone() == ("UTF-8",))
        return backend in ("duckdb", "postgres")

    def _find_cells(self, keys: Domain, backend: str) -> dict[str, Any] | None:
        """Return the expressions of the cell of each key, and if it is missing; None if one may not be exact."""
        cells: dict[str, Any] = {}
        for index, name in enumerate(keys.columns):
            cell = _find_cell(self._frame[name], keys[name], backend)
            if cell is None:
                return None
            cells[f"cell{index}"], is_missing = cell
            cells[f"missing{index}"] = is_missing.ifelse(1, 0)
        return cells

    def _find_summands(
        self, numbers: Mapping[Any, Any], grid: int, backend: str
    ) -> dict[str, Any] | None:
        """Return expressions by name; None if one may not be exact.

        "n_rows" is 1, and "sum{k}_{i}" is the k-th result of `_place` for the i-th of `numbers`, bounds by column.
        """
        summands = {"n_rows": ibis.literal(1, "int64")}
        for index, (name, (low, high)) in enumerate(numbers.items()):
            column = _convert_number(self._frame[name], backend)
            if column is None:
                return None
            for kind, summand in enumerate(_place(column, low, high, grid)):
                summands[f"sum{kind}_{index}"] = summand
        return summands

    def _represent_keys(self, keys: Domain, found: Any) -> Table:
        """Return a value of each key for each group, which is encoded as all values of the group."""
        columns = {}
        for index, name in enumerate(keys.columns):
            columns[name] = _represent(
                keys[name],
                found[f"cell{index}"].to_pylist(),
                found[f"missing{index}"].to_numpy() > 0,
                is_whole=self._frame[name].type().is_integer(),
            )
        return wrap_table(pd.DataFrame(columns, index=range(found.num_rows)))


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
            while block := run_safely(lambda: cursor.fetchmany(ROWS)):
                yield run_safely(partial(_make_table, block, schema))
    elif connection.name == "duckdb":
        # DuckDB 2 has other names for the methods that Ibis 12 calls.
        relation = run_safely(lambda: connection.con.sql(query.compile()))
        with run_safely(lambda: relation.to_arrow_reader(ROWS)) as reader:
            for table in read_batches(reader):
                yield table.cast(schema)  # sums are integers of 128 bits
    else:
        read = partial(query.to_pyarrow_batches, chunk_size=ROWS)
        yield from read_batches(run_safely(read))


def _find_schema(query: Any) -> Any:
    """Return the Arrow schema of a table of Ibis; SQLite stores decimals as floats."""
    schema = query.schema().to_pyarrow()
    if query.get_backend().name == "sqlite":
        for index, field in enumerate(schema):
            if pyarrow.types.is_decimal(field.type):
                schema = schema.set(index, field.with_type(pyarrow.float64()))
    return schema


def _make_table(rows: Sequence[tuple[Any, ...]], schema: Any) -> Any:
    """Convert rows of SQLite to an Arrow table; a value of another type is an error."""
    arrays = []
    for values, field in zip(zip(*rows, strict=True), schema, strict=True):
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
        if not {type(value) for value in values} <= {*allowed, type(None)} or (
            is_boolean and not {*values} <= {0, 1, None}
        ):
            raise TypeError("a value has another type than its column")
        arrays.append(pyarrow.array(values, stored).cast(field.type))
    return pyarrow.table(arrays, schema)


# Expressions of the database. They are used only for types for which they are equal to the
# conversions of Python; rows with other types are read.


def _find_other_type(column: Any) -> Any:
    """Return 1 for a value of SQLite whose storage class is not a class of the column's type, otherwise 0."""
    dtype = column.type()
    classes = ["null", "text"]
    if dtype.is_numeric():
        is_real = dtype.is_floating() or dtype.is_decimal()
        classes = ["null", "integer"] + (["real"] if is_real else [])
    return column.typeof().isin(classes).ifelse(0, 1).cast("int64")


def _convert_number(column: Any, backend: str) -> Any:
    """Convert a column of numbers to floats, with a null for NaN; None if this may not be exact."""
    dtype = column.type()
    # DuckDB divides an integer by a power of ten, which is exact below 2**53.
    is_exact = dtype.is_decimal() and (dtype.precision or 99) <= 15
    is_exact |= dtype.is_decimal() and backend == "postgres"
    if not (dtype.is_integer() or dtype.is_floating() or is_exact):
        return None
    number = column.cast("float64")
    # SQLite stores NaN as null.
    has_nan = not dtype.is_integer() and backend != "sqlite"
    return number.isnan().ifelse(None, number) if has_nan else number


def _exact(number: float) -> Any:
    """Return a float as an expression without decimals, which databases may round: an integer and powers of two."""
    numerator, denominator = float(number).as_integer_ratio()
    # Powers of two that are 64-bit integers.
    shift = max(numerator.bit_length() - 62, 0)
    result = ibis.literal(numerator >> shift, "int64").cast("float64")
    for step in _split_power(shift):
        result = result * ibis.literal(1 << step, "int64").cast("float64")
    for step in _split_power(denominator.bit_length() - 1):
        result = result / ibis.literal(1 << step, "int64").cast("float64")
    return result


def _split_power(power: int) -> list[int]:
    """Split a power of two into powers up to 62."""
    return [min(62, power - start) for start in range(0, power, 62)]


def _place(column: Any, low: float, high: float, grid: int) -> list[Any]:
    """Return four integers of each row: 1 if null or infinite, 1 if not null, its position, and position**2 / `grid`.

    The position is from -`grid` at `low` to `grid` at `high`, and 0 for nulls.
    """
    lowest, highest = _exact(low), _exact(high)
    is_value = column.notnull()
    is_infinite = column.abs() > _exact(np.finfo(float).max)
    clipped = ibis.cases(
        (column < lowest, lowest), (column > highest, highest), else_=column
    )
    fraction = (clipped - lowest) / _exact(high - low)
    position = _round(fraction * _exact(2 * grid)) - _exact(grid)
    square = _round(position * position / _exact(grid))
    return [
        (is_value & ~is_infinite).ifelse(0, 1).cast("int64"),
        is_value.ifelse(1, 0).cast("int64"),
        is_value.ifelse(position.cast("int64"), 0),
        is_value.ifelse(square.cast("int64"), 0),
    ]


def _round(number: Any) -> Any:
    """Round a float below 2**51 to the nearest integer, as a float."""
    return (number + _exact(_ROUNDING)) - _exact(_ROUNDING)


def _find_cell(column: Any, values: Categories | Interval, backend: str) -> Any:
    """Return the declared value or the index of the bin, and if it is missing; None if this may not be exact.

    The value is null if it is not declared, and the index is -1 below and the number of bins above the bounds.
    """
    listed = values.edges if isinstance(values, Interval) else values.values
    present = [value for value in listed if value is not None]
    has_bins = isinstance(values, Interval)
    comparable = _make_comparable(column, present, backend, has_bins=has_bins)
    if comparable is None:
        return None
    cells, literals = comparable
    if isinstance(values, Categories):
        return cells.isin(literals).ifelse(cells, None), cells.isnull()
    if values.decimals is not None and not (
        column.type().is_integer() or values.dtype.kind == "M"
    ):
        return None  # a number with more decimals than declared is an error
    is_above = cells > literals[-1]
    if values.dtype == np.dtype("datetime64[D]"):
        # A day includes all its times.
        is_above = cells >= ibis.literal(present[-1] + timedelta(days=1), column.type())
    n_bins = len(literals) - 1
    bins = _search(cells, literals, 0, n_bins)
    bin_of_row = ibis.cases((cells < literals[0], -1), (is_above, n_bins), else_=bins)
    return bin_of_row, cells.isnull()


def _make_comparable(
    column: Any, values: Sequence[Any], backend: str, *, has_bins: bool
) -> tuple[Any, list[Any]] | None:
    """Return expressions of a column and of declared values that compare as in Python; None without exact ones."""
    dtype = column.type()
    value_type = type_of_value(values[0]) if values else ""
    if value_type == "number":
        # Floats of 32 bits are not compared, because declared numbers would be rounded.
        is_exact = not dtype.is_float32() and max(map(abs, values)) < 1 << 53
        numbers = _convert_number(column, backend) if is_exact else None
        return None if numbers is None else (numbers, list(map(_exact, values)))
    if value_type == "string" and dtype.is_string():
        # Text in hexadecimal digits is compared without the collation of the column.
        return _write_hex(column, backend), [value.encode().hex() for value in values]
    is_time = dtype.is_timestamp() and dtype.timezone is None
    is_time = is_time and dtype.scale in (None, 6)
    is_day = dtype.is_date()
    if has_bins:  # of days or of times
        is_day = is_time = is_day or is_time
    stored = {"boolean": dtype.is_boolean(), "date": is_day, "datetime": is_time}
    if backend == "sqlite" or not stored.get(value_type, False):
        return None
    return column, [ibis.literal(value, dtype) for value in values]


def _search(column: Any, edges: Sequence[Any], first: int, stop: int) -> Any:
    """Return the index of the bin of each number from the edge `first` to `stop`, by a binary search."""
    if stop - first == 1:
        return ibis.literal(first, "int32")
    middle = (first + stop) // 2
    below = _search(column, edges, first, middle)
    return (column < edges[middle]).ifelse(below, _search(column, edges, middle, stop))


def _write_hex(column: Any, backend: str) -> Any:
    """Return the UTF-8 bytes of text in lowercase hexadecimal digits, by functions for which Ibis has no method."""
    call = ibis.udf.scalar.builtin
    if backend != "postgres":
        to_hex = call(_stand_for, name="hex", signature=(("string",), "string"))
        # SQLite writes a null as the empty text.
        return column.isnull().ifelse(None, to_hex(column).lower())
    # A cast to text would remove the last blanks of char(n), and there is none of bytes
    # of enumerated values; `format` writes both as they are read.
    signature = (("string", "string"), "string")
    write = call(_stand_for_two, name="format", signature=signature)
    signature = (("string", "string"), "binary")
    to_bytes = call(_stand_for_two, name="convert_to", signature=signature)
    signature = (("binary", "string"), "string")
    encode = call(_stand_for_two, name="encode", signature=signature)
    text = encode(to_bytes(write("%s", column), "UTF8"), "hex")
    return column.isnull().ifelse(None, text)  # `format` writes a null as ''


def _stand_for(column: Any) -> Any:
    """Stand for a function of the database with one argument."""


def _stand_for_two(column: Any, option: Any) -> Any:
    """Stand for a function of the database with two arguments."""


def _represent(
    values: Categories | Interval,
    cells: Sequence[Any],
    is_missing: Mask,
    *,
    is_whole: bool,
) -> Any:
    """Return an array with a value for each result of `_find_cell`, encoded by Python as all values with this result.

    `cells` are declared values (text in hexadecimal digits, None if undeclared), or indices of bins from -1.
    """
    if isinstance(values, Categories):
        # An object that is not declared, and is not missing.
        undeclared = object()
        is_text = any(isinstance(value, str) for value in values.values)
        found = []
        for cell, missing in zip(cells, is_missing, strict=True):
            text = (
                bytes.fromhex(cell).decode() if is_text and cell is not None else cell
            )
            found.append(undeclared if text is None and not missing else text)
        return to_objects(found)
    edges = np.array(values.edges)
    if values.dtype.kind == "M":
        edges = edges.astype("datetime64[us]")
        day = np.timedelta64(1, "D")
        inside = [edges[0] - day, *edges[:-1], edges[-1] + day]
    elif is_whole:
        inside = [np.ceil(edges[0]) - 1, *np.ceil(edges[:-1]), np.floor(edges[-1]) + 1]
    else:
        above = np.nextafter(edges[-1], np.inf)
        inside = [np.nextafter(edges[0], -np.inf), *edges[:-1], above]
    found = np.array(inside)[np.array(cells, float).astype(int) + 1]
    found[is_missing] = np.array(
        "NaT" if edges.dtype.kind == "M" else np.nan, edges.dtype
    )
    return found
