"""CSV files, read and written in batches; what a column holds is decided by the domain, never by the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
from skdp.engines._libraries import Extra
from skdp.engines.files._source_file import SourceFile
from skdp.tables import present

pyarrow, pyarrow_csv = Extra("pyarrow"), Extra("pyarrow.csv")
compute = Extra("pyarrow.compute")

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
    with source.open() as file:
        reader = pyarrow_csv.open_csv(
            pyarrow.PythonFile(_WholeLineEnds(file), mode="r"),
            read_options=pyarrow_csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=pyarrow_csv.ParseOptions(
                delimiter=source.delimiter, newlines_in_values=True
            ),
            convert_options=pyarrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pyarrow.string()),
                include_columns=columns,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        for batch in reader:
            yield pyarrow.Table.from_batches([batch])


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
    numbers = values.edges if is_interval else present(values.values)
    if kind is bool:
        return pyarrow.bool_()
    if kind is str or not numbers:
        return pyarrow.string()
    is_number = kind in (int, float) or is_interval
    if not is_number or (kind is not float and max(map(abs, numbers)) >= LARGEST_WHOLE):
        raise ValueError(
            f"column {name!r}: a CSV file holds text, truth values, dates and numbers "
            "below 2**53; write its values to a Parquet or Arrow file"
        )
    return pyarrow.float64()


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
        if pyarrow.types.is_floating(kind):
            return pyarrow.array(map(self._number, texts), kind)
        if pyarrow.types.is_boolean(kind):
            return pyarrow.array(map(self._truth, texts), kind)
        return pyarrow.array(texts, kind)

    def _number(self, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            # 1_000 is a number in Python only.
            number = float(text.replace("_", "?"))
        except ValueError:
            number = np.nan
        if np.isnan(number) and self._strict:
            raise ValueError(
                f"column {self._name!r} holds text that is no number; write decimals "
                "with a point, such as 1.5"
            )
        # A number that nobody declares.
        return np.inf if np.isnan(number) else number

    def _truth(self, text: str | None) -> bool | None:
        if text is None:
            return None
        if text not in _TRUTH:
            raise ValueError(
                f"column {self._name!r} holds text that is neither true nor false"
            )
        return _TRUTH[text]


def write_csv(
    tables: Iterable[Any], schema: Any, file: Any, delimiter: str = ","
) -> None:
    """Write a stream of tables; dates and datetimes as ISO 8601."""
    is_special = any(sign in "".join(schema.names) for sign in f'{delimiter}"\r\n')
    options = pyarrow_csv.WriteOptions(
        delimiter=delimiter, quoting_header="needed" if is_special else "none"
    )
    plain = _plain(schema.empty_table())
    with pyarrow_csv.CSVWriter(file, plain.schema, write_options=options) as writer:
        for table in tables:
            writer.write_table(_plain(table))


def _plain(table: Any) -> Any:
    """Write datetimes as text, and the nulls of a table of one column as quoted text: an empty line is no row."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pyarrow.types.is_timestamp(field.type):
            zone = "" if field.type.tz is None else "Z"
            utc = pyarrow.timestamp(field.type.unit, "UTC" if zone else None)
            text_format = f"%Y-%m-%dT%H:%M:%S{zone}"
            column = compute.strftime(column.cast(utc), format=text_format)
        if table.num_columns == 1:
            column = column.cast(pyarrow.string()).fill_null("")
        table = table.set_column(place, field.name, column)
    return table
