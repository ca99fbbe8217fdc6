"""Reading numeric columns and their public bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from skdp.coding import ColumnError, is_missing, kind_of, shielded, to_numbers
from skdp.frames import Table


def read_bounds(
    bounds: Any, names: Sequence[Any], *, parameter: str = "bounds"
) -> NDArray[np.float64]:
    """Check declared bounds and return them as an array of shape (n_columns, 2)."""
    if bounds is None:
        raise ValueError(
            "bounds must be declared, as (low, high) or {column: (low, high)}, from what is publicly known: the lowest "
            "and the highest value of the data are private"
        )
    if isinstance(bounds, Mapping):
        unknown = [name for name in bounds if name not in names]
        if unknown:
            raise ValueError(
                f"bounds declares columns that X does not have: {unknown}; X has {list(names)}"
            )
        absent = [name for name in names if name not in bounds]
        if absent:
            raise ValueError(f"bounds declares nothing for the columns {absent}")
        return np.array([_read_pair(name, bounds[name], parameter) for name in names])
    rows = _as_list(bounds)
    if rows is None:
        raise TypeError(
            f"bounds must be (low, high), a mapping or an array of shape (n_features, 2), got {type(bounds).__name__}"
        )
    if len(rows) == 2 and all(_as_list(row) is None for row in rows):
        rows = [rows] * len(names)
    if len(rows) != len(names):
        raise ValueError(f"bounds has {len(rows)} rows; X has {len(names)} columns")
    return np.array(
        [
            _read_pair(name, row, parameter)
            for name, row in zip(names, rows, strict=True)
        ]
    )


# Relative to the larger end: floats then still distinguish the steps of a grid of 65,536 points.
_LEAST_WIDTH = 1e-9


def floats_between(low: float, high: float) -> bool:
    """Whether bounds are far enough apart."""
    return high - low >= max(_LEAST_WIDTH * max(abs(low), abs(high)), 1e-300)


def _as_list(value: Any) -> list[Any] | None:
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim else None
    return (
        list(value)
        if isinstance(value, Sequence) and not isinstance(value, str | bytes)
        else None
    )


def _read_pair(name: Any, pair: Any, parameter: str) -> tuple[float, float]:
    ends = _as_list(pair)
    if ends is None or len(ends) != 2:
        raise ValueError(f"{parameter} of column {name!r} must be a pair (low, high)")
    for end in ends:
        if isinstance(end, bool | np.bool_) or not isinstance(end, Real):
            raise TypeError(
                f"{parameter} of column {name!r} must be two numbers, got {type(end).__name__}"
            )
    try:
        low, high = map(float, ends)
    except OverflowError:
        raise ValueError(
            f"{parameter} of column {name!r} must be finite, got a number beyond the range of floats"
        ) from None
    # The difference of two finite numbers may still be infinite.
    if not (
        math.isfinite(low)
        and math.isfinite(high)
        and math.isfinite(high - low)
        and low < high
    ):
        raise ValueError(
            f"{parameter} of column {name!r} must be finite with low < high, got ({low:g}, {high:g})"
        )
    if not floats_between(low, high):
        raise ValueError(
            f"{parameter} of column {name!r} are too close together for floats, got ({low!r}, {high!r})"
        )
    return low, high


def _as_numbers(column: Any) -> Any:
    """Write truth values as 0 and 1, and Decimals as floats; return other columns unchanged."""
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype) and dtype.categories.dtype == bool:
        column, dtype = column.astype(object), np.dtype(object)
    if getattr(dtype, "kind", "") == "b" and isinstance(dtype, np.dtype):
        return np.asarray(column, float)
    if getattr(dtype, "kind", "") == "O" and isinstance(dtype, np.dtype):
        return np.fromiter(map(_as_number, column), object, len(column))
    if isinstance(column, np.ndarray):
        return column
    series = nw.from_native(column, series_only=True)
    return series.cast(nw.Float64).to_native() if series.dtype == nw.Boolean else column


def _as_number(value: Any) -> Any:
    try:
        if isinstance(value, bool | np.bool_):
            return int(value)
        if isinstance(value, Decimal) and not value.is_snan():
            return float(value)
    except Exception:  # an object that does not tell its class
        return None
    return value


def _is_numeric(value: Any, truth: bool) -> bool:
    """Whether a Python object is a number or missing."""
    try:
        return (
            is_missing(value)
            or kind_of(value) == "number"
            or (truth and isinstance(value, Decimal))
        )
    except Exception:  # an object that does not tell its class
        return False


def read_numbers(
    table: Table, *, missing: bool = False, truth: bool = True, others: bool = False
) -> list[NDArray[np.float64]]:
    """Read the columns of a table as numbers, also of truth values (0 and 1) and of Decimals if asked."""
    # With `others`, a Python object that is no number counts as missing instead of being an error.
    given, columns = [], []
    for name, column in zip(table.names, table.columns, strict=True):
        try:
            given.append(shielded(_as_numbers, column) if truth else column)
            columns.append(to_numbers(given[-1]).astype(float, copy=False))
        except ColumnError as error:
            raise TypeError(f"column {name!r}: {error}") from None
    whole = None if missing else together(columns)
    with np.errstate(over="ignore", invalid="ignore"):
        # Column by column, all of an array passes through the cache for each of its columns.
        finite = whole is not None and np.isfinite(whole.sum())
    for name, column, numbers in zip(table.names, given, columns, strict=True):
        objects = getattr(getattr(column, "dtype", None), "kind", "") == "O"
        if not finite and (objects or not missing) and not np.isfinite(numbers).all():
            if (
                objects
                and not others
                and not all(_is_numeric(value, truth) for value in column)
            ):
                # "argument must be ... string ... number": what scikit-learn's own check looks for.
                raise TypeError(
                    f"column {name!r} holds text or other objects; argument must be numeric: convert strings to numbers"
                )
            if not missing:
                raise ValueError(
                    f"column {name!r} holds a missing value, a NaN or an inf. Fill it in, or drop the record, by a "
                    "public rule."
                )
    return columns


def together(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64] | None:
    """Return the array that columns are views of, without a copy, if they lie side by side in memory."""
    # The caller keeps the columns, and so the memory.
    if not columns:
        return None
    first = columns[0]
    places = [column.__array_interface__["data"][0] for column in columns]
    step = places[1] - places[0] if len(places) > 1 else 8
    alike = all(
        column.dtype == float and column.strides == first.strides for column in columns
    )
    if not alike or places != [
        places[0] + step * place for place in range(len(columns))
    ]:
        return None
    return as_strided(
        first, (len(first), len(columns)), (first.strides[0], step), writeable=False
    )
