"""CSV files, read and written in batches; what a column holds is decided by the domain, never by the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from skdp.base import (
    LARGEST_WHOLE,
    MISSING_TEXTS,
    date_dtype,
    declares_zone,
    parse_dates,
    read_csv_rows,
    type_of_values,
)
from skdp.domain import Interval
from skdp.engines._errors import UnreadableError
from skdp.engines._libraries import Extra
from skdp.engines.files._source_file import SourceFile
from skdp.tables import present

pyarrow, pyarrow_csv = Extra("pyarrow"), Extra("pyarrow.csv")

# Arrow reads up to 32 blocks ahead.
_BLOCK_BYTES = 1 << 21
_TRUTH = {
    "True": True,
    "TRUE": True,
    "true": True,
    "False": False,
    "FALSE": False,
    "false": False,
}


def column_names(source: SourceFile) -> list[str]:
    """Read the header."""
    rows = read_csv_rows(source, source.delimiter)
    names = next(rows)
    rows.close()
    return names


def text_batches(source: SourceFile, columns: list[str]) -> Iterator[Any]:
    """Read some columns as text."""
    read_options, parse, convert = _options(source)
    convert.column_types = dict.fromkeys(columns, pyarrow.string())
    convert.include_columns = columns
    try:
        with source.open() as file:
            reader = pyarrow_csv.open_csv(
                pyarrow.PythonFile(_WholeLineEnds(file), mode="r"),
                read_options=read_options,
                parse_options=parse,
                convert_options=convert,
            )
            for batch in reader:
                yield pyarrow.Table.from_batches([batch])
        return
    except pyarrow.ArrowInvalid:
        # Its text has a row, and it would be the context of an error that is raised
        # here.
        pass
    raise unreadable_error(source)


class _WholeLineEnds:
    """A file in blocks that never end between CR and LF: Arrow would drop the LF, also in a quoted value."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, n_bytes: int) -> bytes:
        block: bytes = self._file.read(n_bytes - 1)
        return block + self._file.read(1) if block.endswith(b"\r") else block

    def close(self) -> None:
        self._file.close()
        self.closed = True


def unreadable_error(source: SourceFile) -> UnreadableError:
    """Make the error of a file that is no CSV file; it names the line and shows no row."""
    try:
        for _ in read_csv_rows(source, source.delimiter):
            pass
    except ValueError as error:
        return UnreadableError(str(error))
    return UnreadableError(
        f"{source.name} is no CSV file of UTF-8 text with a value a row for each column"
    )


def _options(source: SourceFile) -> tuple[Any, Any, Any]:
    """Return how text is read, cut into rows and columns, and when it is null."""
    return (
        pyarrow_csv.ReadOptions(block_size=_BLOCK_BYTES),
        pyarrow_csv.ParseOptions(delimiter=source.delimiter, newlines_in_values=True),
        pyarrow_csv.ConvertOptions(
            null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def column_type(name: str, values: Any) -> Any:
    """Return the Arrow type as which a declared column is read; numbers are floats where these are exact."""
    dates = date_dtype(values)
    if dates is not None:
        is_day = dates == np.dtype("datetime64[D]")
        return pyarrow.date32() if is_day else pyarrow.timestamp("us")
    if declares_zone(values):
        return pyarrow.timestamp("us", "UTC")
    kind = type_of_values(values)
    is_interval = isinstance(values, Interval)
    present_values = values.edges if is_interval else present(values.values)
    if kind is bool:
        return pyarrow.bool_()
    if kind is str or not present_values:
        return pyarrow.string()
    numbers = [
        value for value in present_values if is_interval or isinstance(value, int)
    ]
    is_large = max(map(abs, numbers), default=0) >= LARGEST_WHOLE
    if kind is Decimal or (kind is int and is_large):
        return _exact_type(name, values)
    problem = None
    if is_large:
        problem = "numbers of 2**53 or more"
    elif kind not in (int, float) and not is_interval:
        problem = f"values of type {type(present_values[0]).__name__}"
    if problem is not None:
        raise ValueError(
            f"column {name!r}: {problem} are read from Parquet or Arrow files only"
        )
    return pyarrow.float64()


def _exact_type(name: str, values: Any) -> Any:
    """Return the type of declared decimals, or whole numbers."""
    numbers = [Decimal(value) for value in present(values.values)]
    scale = max(0, *(-int(value.as_tuple().exponent) for value in numbers))
    is_whole = type_of_values(values) is int
    limit = 1 << 63 if is_whole else Decimal(f"1e{38 - scale}")
    if scale > 38 or not all(-limit < value < limit for value in numbers):
        raise ValueError(
            f"column {name!r}: numbers of so many digits are read from Parquet or "
            "Arrow files only"
        )
    return pyarrow.int64() if is_whole else pyarrow.decimal128(38, scale)


def sample_type(name: str, values: Any) -> Any:
    """Return the type of what is made like a declared column: whole numbers, where all are declared to be."""
    kind = column_type(name, values)
    if not pyarrow.types.is_floating(kind):
        return kind
    is_whole = type_of_values(values) is int
    if isinstance(values, Interval):
        is_whole = not values.real
    return pyarrow.int64() if is_whole else kind


class TextReader:
    """Parses the text of a declared column: no row changes how another one is read."""

    # With `strict`, text that is no number is an error that names the column, and
    # otherwise an undeclared value.

    def __init__(self, name: str, values: Any, *, strict: bool) -> None:
        self._name = name
        self._values = values
        self._type = column_type(name, values)
        self._strict = strict
        labels = values.labels if type_of_values(values) is str else ()
        self._missing = {text for text in MISSING_TEXTS if text not in labels}
        self._keeps_empty = "" in labels and None not in labels

    def read(self, column: Any) -> Any:
        """Parse each distinct text once."""
        if self._keeps_empty:
            column = column.fill_null("")
        coded = column.combine_chunks().dictionary_encode()
        texts = []
        for text in coded.dictionary.to_pylist():
            texts.append(None if text in self._missing else text)
        return self._parse(texts).take(coded.indices)

    def _parse(self, texts: list[str | None]) -> Any:
        kind = self._type
        if pyarrow.types.is_temporal(kind):
            series = pd.Series(texts, dtype=object, name=self._name)
            times = parse_dates(series, zoned=declares_zone(self._values))
            days = pyarrow.types.is_date(kind)
            return pyarrow.array(times.astype("M8[D]") if days else times, kind)
        if pyarrow.types.is_integer(kind) or pyarrow.types.is_decimal(kind):
            return self._parse_exactly(texts)
        if pyarrow.types.is_floating(kind):
            return pyarrow.array(map(self._number, texts), kind)
        if pyarrow.types.is_boolean(kind):
            return pyarrow.array(map(self._truth, texts), kind)
        return pyarrow.array(texts, kind)

    def _parse_exactly(self, texts: list[str | None]) -> Any:
        declared = {}
        for value in present(self._values.values):
            # As declared: 1.50 would not fit into numbers of one decimal place.
            declared[Decimal(value)] = Decimal(value)
        scale = getattr(self._type, "scale", 0)
        # A number that is not declared stands for all of them.
        undeclared = Decimal(0)
        while undeclared in declared:
            undeclared += Decimal(f"1e-{scale}")
        numbers: list[Decimal | None] = []
        for text in texts:
            if text is None:
                numbers.append(None)
            else:
                numbers.append(declared.get(self._decimal(text), undeclared))
        wide_type = pyarrow.decimal128(38, scale)
        return pyarrow.array(numbers, wide_type).cast(self._type)

    def _decimal(self, text: str) -> Decimal:
        try:
            number = Decimal(_plain_number(text))
        except ArithmeticError:
            number = Decimal("nan")
        if not number.is_finite():
            self._refuse_text()
            return Decimal("Infinity")
        return number

    def _number(self, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            number = float(_plain_number(text))
        except ValueError:
            number = np.nan
        if np.isnan(number):
            self._refuse_text()
            return np.inf
        return number

    def _refuse_text(self) -> None:
        if self._strict:
            raise ValueError(
                f"column {self._name!r} holds text that is no number; write decimals "
                "with a point, such as 1.5"
            )

    def _truth(self, text: str | None) -> bool | None:
        if text is None:
            return None
        if text not in _TRUTH:
            raise ValueError(
                f"column {self._name!r} holds text that is neither true nor false"
            )
        return _TRUTH[text]


def _plain_number(text: str) -> str:
    # 1_000 is a number in Python only.
    return text.replace("_", "?")


def write_csv(
    tables: Iterable[Any], schema: Any, file: Any, delimiter: str = ","
) -> None:
    """Write a stream of tables; dates and datetimes as ISO 8601."""
    options = pyarrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
    header = delimiter.join(_quoted(name, delimiter) for name in schema.names)
    file.write(f"{header}\n".encode())
    plain = _plain(schema.empty_table())
    with pyarrow_csv.CSVWriter(file, plain.schema, write_options=options) as writer:
        for table in tables:
            writer.write_table(_plain(table))


def _quoted(name: str, delimiter: str) -> str:
    if any(sign in name for sign in f'{delimiter}"\r\n'):
        return '"' + name.replace('"', '""') + '"'
    return name


def _plain(table: Any) -> Any:
    """Write datetimes as text, and the nulls of a table of one column as quoted text: an empty line is no row."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pyarrow.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type)
        if pyarrow.types.is_timestamp(field.type):
            column = iso_texts(column)
        if table.num_columns == 1:
            column = column.cast(pyarrow.string()).fill_null("")
        table = table.set_column(place, field.name, column)
    return table


def iso_texts(column: Any) -> Any:
    """Write datetimes as ISO 8601."""
    fine = (
        column
        if column.type.unit == "ns"
        else column.cast(pyarrow.timestamp("us", column.type.tz))
    )
    coded = fine.combine_chunks().dictionary_encode()
    texts = [
        None if time is None else time.isoformat()
        for time in coded.dictionary.to_pylist()
    ]
    return pyarrow.array(texts, pyarrow.string()).take(coded.indices)
