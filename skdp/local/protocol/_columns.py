"""How reports are laid out in columns: their names, and the numbers that they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, product
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import read_array
from skdp.domain import MAX_SHOWN_VALUES, Domain
from skdp.tables import Table, is_frame, kind_of, read_table

# The column that says, under ``strategy="sample"``, which attribute a row reports.
SAMPLED = "sampled"

# Whole numbers of 64 bits, which have at most 20 digits.
_DIGITS = re.compile(r"[0-9]{1,20}")
_WORDS = 1 << 64


def attributes_of(domain: Domain, strategy: str) -> list[tuple[Any, ...]]:
    """Return the columns of each attribute."""
    if strategy == "joint":
        return [domain.columns]
    return [(name,) for name in domain.columns]


def value_labels(domain: Domain, cells: NDArray[np.intp] | None = None) -> list[str]:
    """Label combinations of values of the columns, by default all."""
    texts_of_columns: list[list[str]] = []
    for name in domain.columns:
        texts = []
        for label in domain[name].labels:
            texts.append("missing" if label is None else str(label))
        texts_of_columns.append(texts)
    if cells is None:
        return list(map("_".join, product(*texts_of_columns)))
    names = []
    for codes in zip(*np.unravel_index(cells, domain.sizes), strict=True):
        parts = zip(texts_of_columns, codes, strict=True)
        names.append("_".join(texts[code] for texts, code in parts))
    return names


def column_index(
    labels: Mapping[Any, Sequence[Any]], *, level: str = "category"
) -> pd.MultiIndex:
    """Index the values of several columns by column and value."""
    names = list(labels)
    cell_labels = list(chain.from_iterable(labels.values()))
    # To pandas, True is 1 and False is 0 where they share a level, and all of them read
    # as the first. Truth values are text there.
    kinds = list(map(kind_of, cell_labels))
    for kind, label in zip(kinds, cell_labels, strict=True):
        if kind == "number" and label in (0, 1):
            cell_labels = _with_truth_as_text(cell_labels, kinds)
            break
    # Column names may be tuples, of which pandas would make levels.
    columns = np.empty(len(names), dtype=object)
    columns[:] = names
    sizes = list(map(len, labels.values()))
    column_cells = np.repeat(columns, sizes)
    return pd.MultiIndex.from_arrays(
        [column_cells, cell_labels], names=["column", level]
    )


def _with_truth_as_text(labels: Sequence[Any], kinds: Sequence[str]) -> list[Any]:
    """Write truth values as text, and leave the other labels as they are."""
    texts = []
    for label, kind in zip(labels, kinds, strict=True):
        texts.append(str(label) if kind == "boolean" else label)
    return texts


def concat_columns(
    tables: Mapping[Any, pd.DataFrame], *, level: str = "category"
) -> pd.DataFrame:
    """Put the estimates of several columns below each other, in one table."""
    labels = {name: list(table.index) for name, table in tables.items()}
    index = column_index(labels, level=level)
    return pd.concat(list(tables.values())).set_axis(index)


def read_sampled(column: Any, n_attributes: int) -> NDArray[np.integer]:
    """Read which attribute each row reports."""
    numbers = np.asarray(column)
    # JSON has numbers as text, and a column with missing values as floats.
    if numbers.dtype.kind not in "iuf":
        is_number = all(map(_is_whole, numbers))
        numbers = np.array(list(map(int, numbers)) if is_number else [-1])
    if not np.isin(numbers, np.arange(n_attributes)).all():
        raise ValueError(
            f"column {SAMPLED!r} must hold numbers from 0 to {n_attributes - 1}"
        )
    return numbers.astype(np.intp)


def spread(part: NDArray[Any], rows: NDArray[np.bool_]) -> NDArray[Any]:
    """Put the reports of some rows in their places, and 0 elsewhere."""
    reports = np.zeros((len(rows), *part.shape[1:]), part.dtype)
    reports[rows] = part
    return reports


def read_whole_numbers(block: NDArray[Any]) -> NDArray[np.uint64]:
    """Read whole numbers that came as floats or as text."""
    # As text, JSON has those of more than 53 bits.
    if block.dtype.kind == "f":
        numbers = block.astype(float)
        is_in_range = (numbers >= 0) & (numbers < _WORDS)
        if (is_in_range & (numbers == np.floor(numbers))).all():
            return numbers.astype(np.uint64)
    elif all(map(_is_whole, block.flat)):
        words = np.array(list(map(int, block.flat)), np.uint64)
        return words.reshape(block.shape)
    raise ValueError("the reports hold something else than whole numbers")


def _is_whole(value: Any) -> bool:
    """Return whether a value is a number or ASCII digits, of 64 bits."""
    if isinstance(value, str):
        return _DIGITS.fullmatch(value) is not None and int(value) < _WORDS
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return False
    number: Any = value
    return bool(0 <= number < _WORDS and number % 1 == 0)


def read_report_table(reports: Any, names: Sequence[Any]) -> Table:
    """Take a frame or array of reports apart into columns; no error shows a value."""
    # A lazy frame has `collect`, and a Dataset of pyarrow `to_table`.
    is_lazy = not isinstance(reports, pd.DataFrame) and (
        hasattr(reports, "collect") or hasattr(reports, "to_table")
    )
    if is_lazy:
        raise TypeError(
            f"the rows of this {type(reports).__name__} are not in memory: sum them up "
            "by `skdp.engines.tally`, and estimate from the tally"
        )
    frame = is_frame(reports)
    if not frame:
        reports = read_array(reports, "reports")
        if reports.ndim != 2:
            raise ValueError(
                "reports must be a table with a column for each of "
                f"{[*names][:MAX_SHOWN_VALUES]}, got {reports.ndim} dimensions; pass reports[[column]] "
                "for a single column of a dataframe"
            )
    table = read_table(reports)
    expectation = f"the reports of this encoder have the columns {[*names]}, got"
    # `set_output` makes text of numbered columns.
    if frame and list(table.names) not in ([*names], list(map(str, names))):
        raise ValueError(f"{expectation} {list(table.names)}")
    if len(table.columns) != len(names):
        raise ValueError(f"{expectation} an array of {len(table.columns)} columns")
    if len(table.columns[0]) == 0:
        raise ValueError(
            "Found a table with 0 sample(s) (rows); at least 1 is required"
        )
    return table
