"""Columns of stored reports: their names, and the conversion of their entries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from skdp._arrays import Indices, Mask, TableLike
from skdp.base import to_array
from skdp.domain import Domain
from skdp.tables import Table, is_frame, to_objects, type_of_value, wrap_table

# Column with the index of the field that a record reports, if fields are sampled.
SAMPLED = "sampled"

# Reports: one array per field, with one row per record. If fields are sampled, the last
# array is the boolean mask of the reported fields, of shape (n_records, n_fields).
Reports = list[NDArray[Any]]

# Unsigned integers of 64 bits have at most 20 digits.
_DIGITS = re.compile(r"[0-9]{1,20}")


def make_value_labels(domain: Domain, cells: Indices) -> list[str]:
    """Make a label, such as "f_missing", for each of the given joint cells of the columns of a domain.

    A joint cell is a combination of values, a value for each column.
    """
    column_texts = []
    for name in domain.columns:
        labels = domain[name].labels
        column_texts.append(
            ["missing" if label is None else str(label) for label in labels]
        )
    cell_labels = []
    for codes in zip(*np.unravel_index(cells, domain.sizes), strict=True):
        pairs = zip(column_texts, codes, strict=True)
        cell_labels.append("_".join(texts[code] for texts, code in pairs))
    return cell_labels


def make_column_index(
    labels: Mapping[Any, Sequence[Any]], *, level: str = "category"
) -> pd.MultiIndex:
    """Make the index (column, value) of several columns from the labels of their values by column.

    `level` is the name of the level of values.
    """
    cell_labels = list(chain.from_iterable(labels.values()))
    # Labels with their types, because pandas would merge 1 and True, which are equal in
    # Python. The index of a missing label is -1.
    keys = [(type_of_value(label), label) for label in cell_labels]
    codes = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    label_codes = [-1 if key[1] is None else codes[key] for key in keys]
    column_codes = np.repeat(np.arange(len(labels)), list(map(len, labels.values())))
    levels: Any = [to_objects(list(labels)), to_objects([label for _, label in codes])]
    both: Any = [column_codes, label_codes]
    return pd.MultiIndex(levels, both, names=["column", level], verify_integrity=False)


def concat_columns(
    tables: Mapping[Any, pd.DataFrame], *, level: str = "category"
) -> pd.DataFrame:
    """Concatenate the estimates of several columns, with the index (column, value)."""
    labels = {name: list(table.index) for name, table in tables.items()}
    index = make_column_index(labels, level=level)
    return pd.concat(list(tables.values())).set_axis(index)


def parse_sampled_indices(column: object, n_attributes: int) -> NDArray[np.integer]:
    """Convert the column `SAMPLED` to the index of the field that each row reports."""
    numbers = parse_integers(np.asarray(column))
    if not np.isin(numbers, np.arange(n_attributes)).all():
        raise ValueError(
            f"Column {SAMPLED!r} of the reports must have integers from 0 to "
            f"{n_attributes - 1}."
        )
    return numbers.astype(np.intp)


def scatter_rows(part: NDArray[Any], rows: Mask) -> NDArray[Any]:
    """Return an array with the entries of `part` in the marked rows, and 0 in other rows."""
    scattered = np.zeros((len(rows), *part.shape[1:]), part.dtype)
    scattered[rows] = part
    return scattered


def stack_columns(columns: Sequence[Any]) -> NDArray[Any]:
    """Return an array of shape (n_rows, n_columns), a view if the columns are evenly spaced in one array."""
    arrays = list(map(np.asarray, columns))
    first = arrays[0]
    layouts = {(id(array.base), array.dtype, array.strides) for array in arrays}
    starts = [array.__array_interface__["data"][0] for array in arrays]
    steps = set(np.diff(starts).tolist())
    # The base owns the memory of all columns. A frame of bits is one such array, ordered
    # by rows, so a copy of single columns would read all of its memory for each column.
    if first.base is None or len(layouts) > 1 or len(steps) != 1:
        return np.stack(arrays).T
    shape, strides = (len(first), len(arrays)), (*first.strides, *steps)
    return as_strided(first, shape, strides, writeable=False)


def parse_integers(block: NDArray[Any]) -> NDArray[Any]:
    """Convert integers from 0 to 2**64 - 1 that are stored as floats or text; error messages contain no values."""
    if block.dtype.kind in "iub":
        return block
    # Clients in JavaScript write seeds of more than 53 bits as text.
    if block.dtype.kind == "f":
        numbers = block.astype(float)
        is_in_range = (numbers >= 0) & (numbers < 2**64)
        if (is_in_range & (numbers == np.floor(numbers))).all():
            return numbers.astype(np.uint64)
    elif all(map(_is_integer, block.flat)):
        integers = np.array(list(map(int, block.flat)), np.uint64)
        return integers.reshape(block.shape)
    raise ValueError(
        "The reports must be integers from 0 to 2**64 - 1, got other entries "
        f"({block.dtype})."
    )


def _is_integer(entry: object) -> bool:
    """Return True for a number or ASCII digits that are an unsigned integer of 64 bits."""
    if isinstance(entry, str):
        return _DIGITS.fullmatch(entry) is not None and int(entry) < 2**64
    if isinstance(entry, bool | np.bool_) or not isinstance(entry, Real):
        return False
    number: Any = entry
    return bool(0 <= number < 2**64 and number % 1 == 0)


def parse_report_table(reports: TableLike, names: Sequence[Any]) -> Table:
    """Split a dataframe or array of reports into the report columns `names`; error messages contain no values."""
    # Methods of lazy frames and Spark, of datasets of pyarrow, of Dask, and of Ibis.
    methods = ("collect", "to_table", "compute", "execute")
    if not isinstance(reports, pd.DataFrame) and any(
        hasattr(reports, method) for method in methods
    ):
        library, name = (
            type(reports).__module__.partition(".")[0],
            type(reports).__name__,
        )
        raise TypeError(
            f"`reports` must be in memory, got {name} ({library}). Use "
            "`skdp.engines.tally`, and estimate from the tally."
        )
    frame = is_frame(reports)
    if not frame:
        reports = to_array(reports, "reports")
        if reports.ndim != 2:
            raise ValueError(
                "`reports` must be a DataFrame or a 2D array with the columns "
                f"{[*names][:8]}, got {reports.ndim}D. Use "
                "reports[[column]] or reports.to_frame()."
            )
    table = wrap_table(reports)
    expected = f"`reports` must have the columns {[*names]}, got"
    # `set_output` converts integers as column names to text.
    if frame and list(table.names) not in ([*names], list(map(str, names))):
        remedy = ""
        if set(table.names) < set(names):
            remedy = " Pass the reports of all columns, and select some with `columns`."
        raise ValueError(f"{expected} {list(table.names)}.{remedy}")
    if len(table.columns) != len(names):
        raise ValueError(f"{expected} an array of {len(table.columns)} columns.")
    if len(table.columns[0]) == 0:
        raise ValueError(
            "Found a table with 0 sample(s) (rows); at least 1 is required."
        )
    return table
