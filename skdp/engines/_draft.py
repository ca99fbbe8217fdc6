"""Drafts of domain files from private tables, which are read in batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, time
from typing import Any

import numpy as np

from skdp._arrays import ColumnName, Floats, Integers
from skdp.domain import (
    MAX_WHOLE_NUMBER,
    Categories,
    Domain,
    Interval,
    check_draft,
    draft_values,
)
from skdp.engines._csv import (
    MISSING_TEXTS,
    header_error,
    infer_type,
    is_name,
    parse_numbers,
    parse_texts,
    parse_times,
)
from skdp.readers import Extra
from skdp.tables import ColumnError, distinct_values

pyarrow, compute = Extra("pyarrow"), Extra("pyarrow.compute")

# Largest number of distinct values of a column that are kept. A column with more values is
# drafted from these and from its extremes.
MAX_DISTINCT = 1 << 16

# Numbers of decimals that are drafted: whole numbers, and amounts to cents.
_DECIMALS = (0, 1, 2)

# Comment at the beginning of a drafted file.
_DRAFT_COMMENT = (
    "A draft from the data, without any protection: the observed values and the range\n"
    "of the numbers are private.\n"
    "Before you use it for a release, edit it from public knowledge, such as a code book\n"
    "or a questionnaire."
)

_REAL_COMMENT = (
    "Numbers with any decimals are declared. If all numbers are rounded, such as amounts\n"
    "to cents, declare decimals = 2 in place of real = true."
)

_DECIMALS_COMMENT = (
    "The numbers of the data have no further decimals. If others may have, declare\n"
    "real = true in place of decimals."
)

_TIME_COMMENT = (
    "Days are declared, without the times of day. For times, declare low and high with a\n"
    "time, such as 2024-01-01T00:00:00."
)


def draft_domain_toml(
    tables: Iterable[Any],
    *,
    bins: int | None = None,
    max_values: int = 100,
    has_texts: bool = False,
) -> str:
    """Return the values of a stream of Arrow tables as a domain file, with comments for editing.

    Text and dates with up to `max_values` distinct values are listed. More dates are cut into at most 32 bins, and
    numbers with more than 32 distinct values get bounds. If a number of `bins` is given, it replaces 32, and numbers
    are cut into bins, too. Columns that identify people, and columns with a single value, are excluded. With
    `has_texts`, the columns are text of a CSV file, whose types are inferred.
    """
    # **Privacy.** The draft contains values of the data; its first lines warn of it.
    n_bins = 32 if bins is None else bins
    check_draft(n_bins, max_values)
    columns = _read_columns(tables, max_values, has_texts=has_texts)
    if has_texts:
        _check_header_names(columns)
    drafted: dict[Any, Any] = {}
    excluded = {}
    for name, column in columns.items():
        try:
            limits = {"bins": n_bins, "max_values": max_values, "max_numbers": n_bins}
            limits["has_bins"] = bins is not None
            drafted[name] = _draft_column(name, column, limits)
        except ColumnError as error:
            excluded[name] = str(error)
    if not drafted:
        reasons = [f"{name!r} {reason}" for name, reason in excluded.items()]
        raise ValueError(
            "X must have a column of categories, numbers or dates, got only columns "
            f"that a draft cannot declare: {'; '.join(reasons)}."
        )
    lines = _DRAFT_COMMENT.split("\n")
    for name, reason in excluded.items():
        lines.append(f"Column {name!r} is excluded: it {reason}.")
    header = "\n".join(f"# {line}" for line in lines)
    comments = {}
    for name, values in drafted.items():
        if isinstance(values, Interval) and values.real:
            is_rounded = values.decimals is not None
            comments[name] = _DECIMALS_COMMENT if is_rounded else _REAL_COMMENT
        if isinstance(values, Interval) and columns[name].has_times:
            comments[name] = _TIME_COMMENT
    return f"{header}\n\n{Domain(drafted).to_toml(comments=comments)}"


def _check_header_names(columns: Mapping[Any, _Column]) -> None:
    """Raise an error if the names of the columns of a CSV file seem to be a row."""
    # A name may be a value of its column ("smoker"), or a number ("2024"), but not if all
    # names are, and not if most names are values.
    values = []
    for index, (name, column) in enumerate(columns.items()):
        if column.contains(name):
            values.append(index)
    names = [
        name
        for name, column in columns.items()
        if is_name(name) and not column.contains(name)
    ]
    if values and (not names or 2 * len(values) > len(columns)):
        raise header_error("The file", "a name that is a value of its column", values)


def _read_columns(
    tables: Iterable[Any], max_values: int, *, has_texts: bool
) -> dict[Any, _Column]:
    """Count the values of the columns of a stream of tables."""
    columns: dict[Any, _Column] = {}
    for table in tables:
        for name in table.column_names:
            if name not in columns:
                columns[name] = _Column(
                    max(MAX_DISTINCT, max_values), has_texts=has_texts
                )
            columns[name].add(table.column(name).combine_chunks())
    return columns


def _drop_views(column: Any) -> Any:
    """Convert an Arrow array of views or half floats, for which Arrow has no functions."""
    if pyarrow.types.is_string_view(column.type):
        return column.cast(pyarrow.string())
    is_half = pyarrow.types.is_float16(column.type)
    return column.cast(pyarrow.float32()) if is_half else column


class _Column:
    """Distinct values of a column with their numbers of rows, up to a limit; beyond it, the extremes of the values."""

    def __init__(self, limit: int, *, has_texts: bool) -> None:
        self._limit, self._has_texts = limit, has_texts
        # Values of an ordered dictionary, which is a declaration.
        self.declared: Categories | None = None
        self.has_missing = False
        # True if values have a time of day.
        self.has_times = False
        # Distinct values other than missing values, and the number of rows of each.
        self._values = pyarrow.nulls(0)
        self._counts = np.zeros(0, np.int64)
        self._error = ""
        # With more values than the limit: their type, see `_find_type`, and the smallest value,
        # the largest value and a number with a fraction of each batch.
        self._type = ""
        self._extremes: list[Any] = []

    def add(self, column: Any) -> None:
        """Count the rows of a batch; beyond the limit, only rows of known values."""
        if pyarrow.types.is_dictionary(column.type):
            if column.type.ordered and self.declared is None:
                self.declared = Categories(column.dictionary.to_pylist(), ordered=True)
            values = _drop_views(column.dictionary)
            column = pyarrow.DictionaryArray.from_arrays(column.indices, values)
            column = column.dictionary_decode()
        column = _drop_views(column)
        if pyarrow.types.is_floating(column.type):
            column = compute.if_else(compute.is_nan(column), None, column)
        try:
            coded = column.dictionary_encode()
        except pyarrow.ArrowNotImplementedError:
            self._error = f"has values of type {column.type}, which no domain declares"
            return
        self.has_missing |= coded.null_count > 0
        values = coded.dictionary
        counts = np.bincount(coded.indices.drop_null(), minlength=len(values))
        known = self._values.cast(values.type)
        indices = compute.index_in(values, value_set=known)
        is_new = indices.is_null().to_numpy(zero_copy_only=False)
        self._counts[indices.drop_null().to_numpy()] += counts[~is_new]
        new = values.filter(pyarrow.array(is_new))
        is_full = bool(self._type)
        # Values of another type are kept: they make this a column of text.
        if is_full and self._add_extremes(new):
            return
        self._values = pyarrow.concat_arrays([known, new])
        self._counts = np.append(self._counts, counts[is_new])
        if not is_full and len(self._values) > self._limit:
            self._type = self._find_type()
            self._add_extremes(self._values)

    def contains(self, text: str) -> bool:
        """Return True if a text is among the values."""
        return text in self._values.to_pylist()

    def _find_type(self) -> str:
        """Return the type of many values; types other than numbers and times are "text"."""
        if self._has_texts:
            text_type, _ = infer_type(self._values.to_pylist())
            return text_type
        types, value_type = pyarrow.types, self._values.type
        if types.is_date(value_type) or types.is_timestamp(value_type):
            return "datetime"
        is_number = types.is_integer(value_type) or types.is_floating(value_type)
        return "number" if is_number or types.is_decimal(value_type) else "text"

    def _add_extremes(self, values: Any) -> bool:
        """Update the extremes; return False, and make this a column of text, if a value is not of the type."""
        if self._type == "text" or not len(values):
            return True
        if self._has_texts:
            is_missing = compute.is_in(values, pyarrow.array(MISSING_TEXTS))
            self.has_missing |= bool(compute.any(is_missing).as_py())
            values = values.filter(compute.invert(is_missing))
        parse = parse_numbers if self._type == "number" else parse_times
        parsed = parse(values)
        if parsed is None:
            self._type, self._extremes = "text", []
        elif len(parsed):
            ends = compute.min_max(parsed).as_py().values()
            if self._type == "number":
                # Numbers with more decimals, if any, show that the column has them.
                for n in _DECIMALS:
                    ends = (*ends, *parsed[parsed != np.round(parsed, n)][:1].tolist())
            elif self._type == "date":
                ends = [end.date() for end in ends]
            self._extremes += ends
        return parsed is not None

    def read(self) -> tuple[list[Any], Integers]:
        """Return the distinct values in ascending order, a subset with the extremes if there are too many, and counts.

        The counts are the numbers of rows of values that were counted, in any order.
        """
        if self._error:
            raise ColumnError(self._error)
        if not self._has_texts:
            values, _ = distinct_values(pyarrow.chunked_array([self._values]))
            return sorted({*values, *self._extremes}), self._counts
        texts = self._values.to_pylist()
        inferred, labels = infer_type(texts)
        text_type = self._type or inferred
        values = parse_texts("", texts, text_type, labels)
        is_value = np.array([value is not None for value in values], bool)
        self.has_missing |= not is_value.all()
        values = [value for value in values if value is not None]
        if text_type == "number" and all(value % 1 == 0 for value in values):
            values = [int(value) for value in values]
        return sorted({*values, *self._extremes}), self._counts[is_value]


def _draft_column(
    name: ColumnName, column: _Column, limits: Mapping[str, Any]
) -> list[Any] | Categories | Interval:
    """Draft the values of a column by `draft_values`, and set its `has_times`."""
    listed, counts = column.read()
    times = [value for value in listed if isinstance(value, datetime)]
    column.has_times = any(value.time() != time() for value in times)
    drafted = draft_values(
        name,
        listed if column.declared is None else column.declared,
        counts,
        has_missing=column.has_missing,
        **limits,
    )
    if isinstance(drafted, Interval) and drafted.real:
        largest = max(map(abs, drafted.ends))
        drafted.decimals = _find_decimals(np.array(listed, float), largest)
    return drafted


def _find_decimals(numbers: Floats, largest: float) -> int | None:
    """Return the number of decimals of rounded numbers within `largest`, 1 or 2; None for other numbers."""
    for n in _DECIMALS[1:]:
        is_rounded = (numbers == np.round(numbers, n)).all()
        if is_rounded and largest * 10**n < MAX_WHOLE_NUMBER:
            return n
    return None
