"""The missing values of a column: finding them, and filling them in, in its own library and dtype."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding import is_missing, kind_of


def find_missing(column: Any) -> NDArray[np.bool_]:
    """Mark the missing values of a column."""
    if isinstance(column, pd.Series) and column.dtype == object:
        column = column.to_numpy()
    if isinstance(column, np.ndarray):
        if column.dtype != object:
            return np.asarray(pd.isna(column))
        return np.fromiter(map(is_missing, column), bool, len(column))  # pandas stumbles over Decimal("sNaN")
    series = nw.from_native(column, series_only=True)
    missing = series.is_null().to_numpy().astype(bool)
    return missing | series.is_nan().fill_null(True).to_numpy().astype(bool) if series.dtype.is_float() else missing


def fill_missing(column: Any, value: Any) -> Any:
    """Replace the missing values of a column."""
    if isinstance(column, np.ndarray):
        return _fill_array(column, value)
    series = nw.from_native(_make_room(column, value), series_only=True)
    filled = series.fill_null(value)
    if filled.dtype.is_float():  # nan is a number to polars, pyarrow and pandas' own dtypes
        frame = filled.alias("column").to_frame()
        known = nw.when(~nw.col("column").is_nan()).then("column").otherwise(value)
        filled = frame.select(known.cast(filled.dtype).alias("column"))["column"].alias(filled.name)
    return filled.to_native()


def _fill_array(column: NDArray[Any], value: Any) -> NDArray[Any]:
    missing = find_missing(column)
    if not missing.any():
        return column
    numbers = column.dtype.kind == "f" and kind_of(value) == "number"
    filled = column.copy() if numbers or column.dtype.kind == "M" else column.astype(object)
    filled[missing] = value
    return filled


def _make_room(column: Any, value: Any) -> Any:
    """Change the dtype of a column where it cannot hold a value."""
    if isinstance(column, pd.Series):
        dtype = column.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            return column if value in dtype.categories else column.cat.add_categories([value])
        if pd.api.types.is_integer_dtype(dtype) and isinstance(value, float) and not value.is_integer():
            return nw.from_native(column, series_only=True).cast(nw.Float64).to_native()
        return column
    if type(column).__module__.startswith("pyarrow"):
        return _make_room_arrow(column, value)
    series = nw.from_native(column, series_only=True)
    if series.dtype == nw.Enum and value not in series.cat.get_categories().to_list():
        return series.cast(nw.String).to_native()
    return column


def _make_room_arrow(column: Any, value: Any) -> Any:
    import pyarrow
    from pyarrow import types

    if types.is_null(column.type):
        return column.cast(pyarrow.scalar(value).type)
    if types.is_integer(column.type) and isinstance(value, float) and not value.is_integer():
        return column.cast(pyarrow.float64(), safe=False)
    if types.is_string_view(column.type):
        return column.cast(pyarrow.large_string())  # nothing can be filled into views
    return column
