"""Engine of SQL databases: tables of Ibis, whose database counts and sums groups of rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import Floats, Integers
from skdp.domain import Categories, Domain, Interval
from skdp.engines._engine import ROWS, StreamTable, Tables, read_batches
from skdp.engines._io import Extra, run_safely
from skdp.engines._release import BatchRelease
from skdp.tables import Table, type_of_value, wrap_table

pyarrow, dataset = Extra("pyarrow", "sql"), Extra("pyarrow.dataset", "sql")
ibis = Extra("ibis", "sql")

# Storage classes of SQLite for values of the declared type of a column.
_SQLITE_CLASSES = {
    "integer": ("integer", "null"),
    "floating": ("real", "integer", "null"),
    "string": ("text", "null"),
}
# Adding and subtracting 1.5 * 2**52 rounds a float below 2**51 to an integer, ties to even.
_ROUNDING = 3 << 51


class IbisTable(StreamTable):
    """Engine of tables of Ibis."""

    def _make_empty_table(self) -> Any:
        """Return an Arrow table without rows."""
        return self._frame.schema().to_pyarrow().empty_table()

    def _read(self, columns: Sequence[Any]) -> Tables:
        """Read columns as a stream of Arrow tables."""
        yield from read_query(self._frame.select(*columns))

    def open_reports(self, release: BatchRelease, path: Any) -> Any:
        """Open a Parquet file as a dataset of pyarrow."""
        return dataset.dataset(path)

    def group_rows(
        self, keys: Domain, numbers: Mapping[Any, Any], grid: int
    ) -> tuple[Table, Integers, Integers] | None:
        """Count and sum the rows of each combination of bins or values in the database."""
        backend = self._frame.get_backend().name
        if self.limit is not None or backend not in ("sqlite", "duckdb", "postgres"):
            return None
        cells, summands = {}, {"n_rows": ibis.literal(1, "int64")}
        for index, name in enumerate(keys.columns):
            code = _encode(self._frame[name], keys[name], backend)
            if code is None:
                return None
            cells[f"key{index}"] = code
        for index, (name, (low, high)) in enumerate(numbers.items()):
            column = _convert_number(self._frame[name], backend)
            if column is None:
                return None
            for kind, summand in enumerate(_place(column, low, high, grid)):
                summands[f"sum{kind}_{index}"] = summand
        if backend == "sqlite":
            columns = [self._frame[name] for name in (*keys.columns, *numbers)]
            is_other = [~c.typeof().isin(_list_classes(c.type())) for c in columns]
            summands["n_other"] = _any(is_other).ifelse(1, 0).cast("int64")
        rows = self._frame.select(**cells, **summands)
        sums = {name: rows[name].sum().cast("int64") for name in summands}
        grouped = rows.group_by(list(cells)) if cells else rows
        found = pyarrow.concat_tables(read_query(grouped.aggregate(**sums)))
        totals = {name: found[name].fill_null(0).to_numpy() for name in summands}
        # SQLite stores values of any type in any column. Their rows are read, which raises
        # an error.
        if backend == "sqlite" and totals["n_other"].any():
            return None
        table = {}
        for index, name in enumerate(keys.columns):
            values = _represent(keys[name], self._frame[name].type())
            table[name] = values.take(found[f"key{index}"].to_numpy())
        sums_of_numbers = np.zeros((4, len(numbers), found.num_rows), np.int64)
        for kind, index in np.ndindex(4, len(numbers)):
            sums_of_numbers[kind, index] = totals[f"sum{kind}_{index}"]
        frame = pd.DataFrame(table, index=range(found.num_rows))
        return wrap_table(frame), totals["n_rows"], sums_of_numbers


def read_query(query: Any) -> Tables:
    """Read the rows of a table of Ibis as a stream of Arrow tables."""
    connection, schema = query.get_backend(), query.schema().to_pyarrow()
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


def _make_table(rows: Sequence[tuple[Any, ...]], schema: Any) -> Any:
    """Convert rows of SQLite to an Arrow table; a value of another type is an error."""
    arrays = []
    for values, field in zip(zip(*rows, strict=True), schema, strict=True):
        # SQLite stores booleans as integers, and dates as text.
        stored = field.type
        if pyarrow.types.is_boolean(stored):
            stored = pyarrow.int64()
        elif pyarrow.types.is_temporal(stored):
            stored = pyarrow.string()
        arrays.append(pyarrow.array(values, stored).cast(field.type))
    return pyarrow.table(arrays, schema)


# Expressions of the database. They are used only for types for which they are equal to the
# conversions of Python; rows with other types are read.


def _list_classes(dtype: Any) -> tuple[str, ...]:
    """List the storage classes of SQLite for a type of Ibis."""
    for kind, classes in _SQLITE_CLASSES.items():
        if getattr(dtype, f"is_{kind}")():
            return classes
    return ()


def _convert_number(column: Any, backend: str) -> Any:
    """Convert a column of numbers to floats, with a null for NaN; None if this may not be exact."""
    dtype = column.type()
    if dtype.is_integer():
        return column.cast("float64")
    if dtype.is_floating():
        column = column.cast("float64")
        # SQLite stores NaN as null.
        return column if backend == "sqlite" else column.isnan().ifelse(None, column)
    # DuckDB divides an integer by a power of ten, which is exact below 2**53.
    is_exact = dtype.is_decimal() and (dtype.precision or 99) <= 15
    if dtype.is_decimal() and (backend == "postgres" or is_exact):
        column = column.cast("float64")
        return column.isnan().ifelse(None, column)
    return None


def _place(column: Any, low: float, high: float, grid: int) -> list[Any]:
    """Return if a float is not finite, if it is a value, its position between bounds as `to_grid`, and its square."""
    lowest, highest = _exact(low), _exact(high)
    is_value = column.notnull()
    is_infinite = column.abs() > _exact(np.finfo(float).max)
    clipped = ibis.cases(
        (column < lowest, lowest), (column > highest, highest), else_=column
    )
    share = (clipped - lowest) / _exact(high - low)
    position = _round(share * _exact(2 * grid)) - _exact(grid)
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


def _exact(number: float) -> Any:
    """Return a float as an expression without decimals, which databases may round: an integer and powers of two."""
    numerator, denominator = float(number).as_integer_ratio()
    result = 0
    # Powers of two that are 64-bit integers.
    shift = max(numerator.bit_length() - 62, 0)
    result = ibis.literal(numerator >> shift, "int64").cast("float64")
    while shift:
        step = min(shift, 62)
        result = result * ibis.literal(1 << step, "int64").cast("float64")
        shift -= step
    remaining = denominator.bit_length() - 1
    while remaining:
        step = min(remaining, 62)
        result = result / ibis.literal(1 << step, "int64").cast("float64")
        remaining -= step
    return result


def _any(conditions: Sequence[Any]) -> Any:
    """Return True if one of some conditions holds."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = result | condition
    return result


def _encode(column: Any, values: Categories | Interval, backend: str) -> Any:
    """Return the index of the value in `_represent`; None if the comparison may not be exact."""
    if isinstance(values, Interval):
        return _encode_bins(column, values, backend)
    dtype = column.type()
    present = [value for value in values.values if value is not None]
    value_type = type_of_value(present[0]) if present else None
    cases = []
    if value_type == "string" and dtype.is_string():
        # Text in hexadecimal digits is compared without the collation of the column.
        text = _write_hex(column, backend)
        cases = [text == value.encode().hex() for value in present]
    elif value_type == "number":
        # Floats of 32 bits are not compared, because declared numbers would be rounded.
        number = _convert_number(column, backend)
        if (
            number is None
            or dtype.is_float32()
            or any(abs(x) >= 1 << 53 for x in present)
        ):
            return None
        cases = [number == _exact(value) for value in present]
        column = number
    elif backend != "sqlite":
        is_stored = {"boolean": dtype.is_boolean(), "date": dtype.is_date()}
        is_stored["datetime"] = _has_microseconds(dtype)
        if is_stored.get(value_type or "", False):
            cases = [column == ibis.literal(value, dtype) for value in present]
    if not cases:
        return None
    codes = zip(cases, range(len(cases)), strict=True)
    # SQLite writes a null as the empty text.
    return ibis.cases((column.isnull(), len(cases) + 1), *codes, else_=len(cases))


def _encode_bins(column: Any, values: Interval, backend: str) -> Any:
    """Return the index of the bin of a number or date in `_represent`."""
    dtype, edges = column.type(), values.edges
    if values.dtype.kind == "M":
        is_date = values.dtype == np.dtype("datetime64[D]")
        if backend == "sqlite" or not (dtype.is_date() or _has_microseconds(dtype)):
            return None
        # A day includes all its times.
        last = edges[-1] + timedelta(days=1) if is_date else edges[-1]
        limits = [ibis.literal(edge, dtype) for edge in (*edges[:-1], last)]
        is_above = column >= limits[-1] if is_date else column > limits[-1]
    else:
        # A number with more decimals than declared is an error.
        number = _convert_number(column, backend)
        is_real = values.decimals is not None and not dtype.is_integer()
        if number is None or dtype.is_float32() or is_real:
            return None
        column, limits = number, list(map(_exact, edges))
        is_above = column > limits[-1]
    n_bins = len(edges) - 1
    inner = [(column < limits[index + 1], index) for index in range(n_bins - 1)]
    return ibis.cases(
        (column.isnull(), n_bins + 2),
        (column < limits[0], n_bins),
        (is_above, n_bins + 1),
        *inner,
        else_=n_bins - 1,
    )


def _has_microseconds(dtype: Any) -> bool:
    """Return True for timestamps without a time zone and with microseconds."""
    is_plain = dtype.is_timestamp() and dtype.timezone is None
    return bool(is_plain and dtype.scale in (None, 6))


def _write_hex(column: Any, backend: str) -> Any:
    """Return the UTF-8 bytes of text in lowercase hexadecimal digits, by functions for which Ibis has no method."""
    call = ibis.udf.scalar.builtin
    if backend != "postgres":
        to_hex = call(_stand_for, name="hex", signature=(("string",), "string"))
        return to_hex(column).lower()
    signature = (("string", "string"), "binary")
    to_bytes = call(_stand_for_two, name="convert_to", signature=signature)
    signature = (("binary", "string"), "string")
    encode = call(_stand_for_two, name="encode", signature=signature)
    return encode(to_bytes(column, "UTF8"), "hex")


def _stand_for(column: Any) -> Any:
    """Stand for a function of the database with one argument."""


def _stand_for_two(column: Any, option: Any) -> Any:
    """Stand for a function of the database with two arguments."""


def _represent(values: Categories | Interval, dtype: Any) -> Any:
    """Return one value for each result of `_encode`, which Python encodes as all values with this result."""
    if isinstance(values, Categories):
        present = [value for value in values.values if value is not None]
        return pd.Series([*present, _find_other(present), None], dtype=object).array
    edges = np.array(values.edges)
    if values.dtype.kind == "M":
        edges = edges.astype("datetime64[us]")
        day = np.timedelta64(1, "D")
        ends: list[Any] = [edges[0] - day, edges[-1] + day, np.datetime64("NaT")]
        return pd.Series(np.array([*edges[:-1], *ends], "datetime64[us]")).array
    lowest: Floats = edges[:-1]
    if dtype.is_integer():
        lowest = np.ceil(lowest)
        outside = [math.ceil(edges[0]) - 1, math.floor(edges[-1]) + 1]
    else:
        outside = [np.nextafter(edges[0], -np.inf), np.nextafter(edges[-1], np.inf)]
    return pd.Series([*lowest, *outside, np.nan], dtype=float).array


def _find_other(values: Sequence[Any]) -> Any:
    """Return a value that is not declared, of the type of declared values."""
    first = values[0]
    if isinstance(first, str):
        return "".join(values) + "x"
    if isinstance(first, bool):
        return not first if len(values) == 1 else None
    if isinstance(first, int | float):
        return max(values) + 1
    days = (
        first.replace(year=2000, month=1, day=1) + timedelta(n)
        for n in itertools.count()
    )
    return next(day for day in days if day not in values)
