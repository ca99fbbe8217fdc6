"""Columns of reports: their names, and reading their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import to_array
from skdp.domain import MAX_SHOWN_VALUES, Domain
from skdp.tables import Table, is_frame, wrap_table

# Column with the index of the reported field, for strategy="sample".
SAMPLED = "sampled"

# Integers of 64 bits have at most 20 digits.
_DIGITS = re.compile(r"[0-9]{1,20}")
_WORDS = 1 << 64


def value_labels(domain: Domain, cells: NDArray[np.intp]) -> list[str]:
    """Make labels of combinations of values of the columns."""
    texts_of_columns = []
    for name in domain.columns:
        labels = domain[name].labels
        texts = ["missing" if label is None else str(label) for label in labels]
        texts_of_columns.append(texts)
    names = []
    for codes in zip(*np.unravel_index(cells, domain.sizes), strict=True):
        parts = zip(texts_of_columns, codes, strict=True)
        names.append("_".join(texts[code] for texts, code in parts))
    return names


def column_index(
    labels: Mapping[Any, Sequence[Any]], *, level: str = "category"
) -> pd.MultiIndex:
    """Make the index of the values of several columns, by column and value."""
    names = list(labels)
    cell_labels = list(chain.from_iterable(labels.values()))
    # pandas would make levels of column names that are tuples.
    columns = np.empty(len(names), dtype=object)
    columns[:] = names
    sizes = list(map(len, labels.values()))
    column_cells = np.repeat(columns, sizes)
    return pd.MultiIndex.from_arrays(
        [column_cells, cell_labels], names=["column", level]
    )


def concat_columns(
    tables: Mapping[Any, pd.DataFrame], *, level: str = "category"
) -> pd.DataFrame:
    """Concatenate the estimates of several columns."""
    labels = {name: list(table.index) for name, table in tables.items()}
    index = column_index(labels, level=level)
    return pd.concat(list(tables.values())).set_axis(index)


def read_sampled(column: Any, n_attributes: int) -> NDArray[np.integer]:
    """Read the index of the field that each row reports."""
    numbers = read_whole_numbers(np.asarray(column))
    if not np.isin(numbers, np.arange(n_attributes)).all():
        raise ValueError(
            f"Column {SAMPLED!r} of the reports must have integers from 0 to "
            f"{n_attributes - 1}."
        )
    return numbers.astype(np.intp)


def spread(part: NDArray[Any], rows: NDArray[np.bool_]) -> NDArray[Any]:
    """Assign the reports of some rows, and 0 to the other rows."""
    reports = np.zeros((len(rows), *part.shape[1:]), part.dtype)
    reports[rows] = part
    return reports


def read_whole_numbers(block: NDArray[Any]) -> NDArray[Any]:
    """Read integers, which may be stored as floats or text."""
    if block.dtype.kind in "iub":
        return block
    # In JSON, integers of more than 53 bits are text.
    if block.dtype.kind == "f":
        numbers = block.astype(float)
        is_in_range = (numbers >= 0) & (numbers < _WORDS)
        if (is_in_range & (numbers == np.floor(numbers))).all():
            return numbers.astype(np.uint64)
    elif all(map(_is_whole, block.flat)):
        words = np.array(list(map(int, block.flat)), np.uint64)
        return words.reshape(block.shape)
    raise ValueError("The reports must be integers of at most 64 bits.")


def _is_whole(value: Any) -> bool:
    """Return True for an integer of 64 bits, as a number or ASCII digits."""
    if isinstance(value, str):
        return _DIGITS.fullmatch(value) is not None and int(value) < _WORDS
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return False
    number: Any = value
    return bool(0 <= number < _WORDS and number % 1 == 0)


def read_report_table(reports: Any, names: Sequence[Any]) -> Table:
    """Split a dataframe or array of reports into columns; no error contains a value."""
    # Lazy frames have `collect`, and datasets of pyarrow `to_table`.
    is_lazy = not isinstance(reports, pd.DataFrame) and (
        hasattr(reports, "collect") or hasattr(reports, "to_table")
    )
    if is_lazy:
        raise TypeError(
            f"reports must be in memory, got {type(reports).__name__}. Use "
            "`skdp.engines.tally`, and estimate from the tally."
        )
    frame = is_frame(reports)
    if not frame:
        reports = to_array(reports, "reports")
        if reports.ndim != 2:
            raise ValueError(
                "reports must be a DataFrame or a 2D array with the columns "
                f"{[*names][:MAX_SHOWN_VALUES]}, got {reports.ndim}D. Use "
                "reports[[column]] or reports.to_frame()."
            )
    table = wrap_table(reports)
    expected = f"reports must have the columns {[*names]}, got"
    # `set_output` converts numbers of columns to text.
    if frame and list(table.names) not in ([*names], list(map(str, names))):
        remedy = ""
        if set(table.names) < set(names):
            remedy = " Pass the reports of all columns, and select some by `columns=`."
        raise ValueError(f"{expected} {list(table.names)}.{remedy}")
    if len(table.columns) != len(names):
        raise ValueError(f"{expected} an array of {len(table.columns)} columns.")
    if len(table.columns[0]) == 0:
        raise ValueError(
            "Found a table with 0 sample(s) (rows); at least 1 is required"
        )
    return table
