"""CSV files, read and written in batches; what a column holds is decided by the domain, never by the data."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import (
    LARGEST_WHOLE,
    MISSING_TEXTS,
    date_dtype,
    declares_zone,
    encoding_error,
    parse_dates,
    type_of_values,
)
from skdp.domain import Domain, Interval
from skdp.engines._errors import UnreadableError
from skdp.engines._extras import Extra
from skdp.engines._source_file import SourceFile

pyarrow, pyarrow_csv = Extra("pyarrow"), Extra("pyarrow.csv")

_BLOCK_BYTES = 1 << 21  # Arrow reads up to 32 blocks ahead
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
    with io.TextIOWrapper(source.open(), encoding="utf-8-sig", newline="") as file:
        try:
            names = next(csv.reader(file, delimiter=source.delimiter, strict=True), [])
        except (UnicodeDecodeError, csv.Error):
            names = []
    if not names:
        raise encoding_error(source) or ValueError(f"{source.name} has no header")
    if len(set(names)) < len(names):
        raise ValueError(f"two columns of {source.name} have the same name")
    return names


def text_batches(source: SourceFile, columns: list[str]) -> Iterator[Any]:
    """Read some columns as text."""
    read, parse, convert = _options(source)
    convert.column_types = dict.fromkeys(columns, pyarrow.string())
    convert.include_columns = columns
    try:
        reader = pyarrow_csv.open_csv(
            source.arrow_source(),
            read_options=read,
            parse_options=parse,
            convert_options=convert,
        )
        for batch in reader:
            yield pyarrow.Table.from_batches([batch])
        return
    except pyarrow.ArrowInvalid:
        pass  # its text has a row, and it would be the context of an error that is raised here
    raise unreadable_error(source)


def unreadable_error(source: SourceFile) -> UnreadableError:
    """Make the error of a file that is no CSV file; it shows no row."""
    encoding = encoding_error(source)
    if encoding is not None:
        return UnreadableError(str(encoding))
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


def readers(
    domain: Domain, *, strict: bool = False
) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """Return the Arrow type and the parser of each declared column; no row changes how another one is read."""
    return {name: _reader(name, domain[name], strict) for name in domain.columns}


def _reader(name: str, values: Any, strict: bool) -> tuple[Any, Callable[[Any], Any]]:
    kind = type_of_values(values)
    labels = values.labels if kind is str else ()
    missing = {text for text in MISSING_TEXTS if text not in labels}
    unit, parse = _parser(name, values, strict)

    def read(column: Any) -> Any:
        if "" in labels and None not in labels:
            column = column.fill_null("")
        coded = column.combine_chunks().dictionary_encode()
        texts = [
            None if text in missing else text for text in coded.dictionary.to_pylist()
        ]
        return parse(texts).take(coded.indices)

    return unit, read


def _parser(
    name: str, values: Any, strict: bool
) -> tuple[Any, Callable[[list[str | None]], Any]]:
    """Return the Arrow type of a declared column, and what makes an array of texts."""
    kind, dates = type_of_values(values), date_dtype(values)
    if dates is not None:
        unit = (
            pyarrow.date32()
            if dates == np.dtype("datetime64[D]")
            else pyarrow.timestamp("us")
        )
        return unit, lambda texts: pyarrow.array(
            _times(texts, name).astype(dates), unit
        )
    if declares_zone(values):
        instant = pyarrow.timestamp("us", "UTC")
        return instant, lambda texts: pyarrow.array(
            _times(texts, name, zoned=True), instant
        )
    if kind is bool:
        return pyarrow.bool_(), lambda texts: pyarrow.array(
            [_truth(text, name) for text in texts], pyarrow.bool_()
        )
    known = (
        values.edges
        if isinstance(values, Interval)
        else [value for value in values.values if value is not None]
    )
    if kind is str or not known:
        return pyarrow.string(), lambda texts: pyarrow.array(texts, pyarrow.string())
    whole = [
        one for one in known if isinstance(values, Interval) or isinstance(one, int)
    ]
    is_large = max(map(abs, whole), default=0) >= LARGEST_WHOLE
    if kind is Decimal or (kind is int and is_large):
        return _exact_parser(name, values, strict)
    if is_large:
        raise ValueError(
            f"column {name!r}: numbers of 2**53 or more are read from Parquet or Arrow files only"
        )
    if kind not in (int, float) and not isinstance(values, Interval):
        given = type(known[0]).__name__
        raise ValueError(
            f"column {name!r}: values of type {given} are read from Parquet or Arrow files only"
        )
    read = partial(_number, column=name) if strict else _number
    return pyarrow.float64(), lambda texts: pyarrow.array(
        map(read, texts), pyarrow.float64()
    )


def exact_type(name: str, values: Any) -> Any:
    """Return the Arrow type of declared decimals, or whole numbers."""
    known = [Decimal(value) for value in values.values if value is not None]
    scale = max(0, *(-int(value.as_tuple().exponent) for value in known))
    is_whole = type_of_values(values) is int
    limit = 1 << 63 if is_whole else Decimal(f"1e{38 - scale}")
    if scale > 38 or not all(-limit < value < limit for value in known):
        raise ValueError(
            f"column {name!r}: numbers of so many digits are read from Parquet or Arrow files only"
        )
    return pyarrow.int64() if is_whole else pyarrow.decimal128(38, scale)


def _exact_parser(
    name: str, values: Any, strict: bool
) -> tuple[Any, Callable[[list[str | None]], Any]]:
    """Return the Arrow type of declared decimals or whole numbers, and what makes an array of texts."""
    unit = exact_type(name, values)
    known = {
        Decimal(value): Decimal(value) for value in values.values if value is not None
    }
    scale = getattr(unit, "scale", 0)
    other = next(
        spare
        for number in count()
        if (spare := Decimal(f"{number}e-{scale}")) not in known
    )

    def read(text: str | None) -> Decimal | None:
        if text is None:
            return None
        try:
            number = Decimal(text.replace("_", "?"))
        except ArithmeticError:
            number = Decimal("nan")
        if number.is_finite():
            return known.get(number, other)
        if strict:
            raise ValueError(f"column {name!r} holds text that is no number")
        return other

    wide = pyarrow.decimal128(38, scale)
    return unit, lambda texts: pyarrow.array(map(read, texts), wide).cast(unit)


def _times(
    texts: list[str | None], name: str, *, zoned: bool = False
) -> NDArray[np.datetime64]:
    return parse_dates(pd.Series(texts, dtype=object, name=name), zoned=zoned)


def _number(text: str | None, column: str | None = None) -> float | None:
    """Read a number; other text is an error that names the column, if given, and otherwise an undeclared infinity."""
    if text is None:
        return None
    try:
        number = float(text.replace("_", "?"))  # 1_000 is a number in Python only
    except ValueError:
        number = np.nan
    if number == number:
        return number
    if column is None:
        return np.inf
    raise ValueError(f"column {column!r} holds text that is no number")


def _truth(text: str | None, name: str) -> bool | None:
    if text is None:
        return None
    if text not in _TRUTH:
        raise ValueError(f"column {name!r} holds text that is neither true nor false")
    return _TRUTH[text]


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
