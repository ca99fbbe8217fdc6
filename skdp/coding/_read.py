"""Read a column as numbers, or its distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding._encode import (
    ColumnError,
    is_missing,
    kind_of,
    library_of,
    plain,
    shielded,
    take,
)


def to_numbers(column: Any) -> NDArray[np.floating]:
    """Return a numeric column as floats, with nan for missing values and for Python objects that are not numbers."""
    if isinstance(column, np.ndarray):
        return shielded(_from_array, column)
    read = {"pandas": _from_pandas, "polars": _from_polars, "pyarrow": _from_arrow}
    return shielded(read[library_of(column)], column)


def objects_of(column: Any) -> list[Any]:
    """Return the values of a column as Python objects."""
    if isinstance(column, np.ndarray):
        return list(column)
    library = library_of(column)
    if library == "pyarrow":
        values: list[Any] = column.to_pylist()
        return values
    return (
        column.to_list() if library == "polars" else list(column.to_numpy(dtype=object))
    )


def as_objects(values: Sequence[Any]) -> NDArray[Any]:
    """Return Python values as they are, in an array of one dimension."""
    return np.fromiter(values, object, len(values))


def _refuse(dtype: Any) -> ColumnError:
    return ColumnError(f"expected numbers, got a column of dtype {dtype}")


def _from_array(array: NDArray[Any]) -> NDArray[np.floating]:
    if array.dtype.kind == "f":
        return array
    if array.dtype.kind in "iu":
        return array.astype(float)
    if array.dtype.kind != "O":
        # Not the dtype itself: the width of a string dtype reveals the length of the longest value.
        raise _refuse(array.dtype.type.__name__)
    return np.fromiter(map(_number, array), float, array.size)


def _number(value: Any) -> float:
    try:
        if is_missing(value) or kind_of(value) != "number":
            return np.nan
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf
    except (
        Exception
    ):  # not a number in spite of its class, or an object that does not tell its class
        return np.nan


def _from_pandas(column: pd.Series) -> NDArray[np.floating]:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        # `astype("category")` makes an empty index of objects if all values are missing.
        if len(dtype.categories) and not pd.api.types.is_numeric_dtype(
            dtype.categories.dtype
        ):
            raise _refuse("category")
        levels = _from_array(np.asarray(dtype.categories))
        return take(np.append(levels, np.nan), column.cat.codes.to_numpy())
    if isinstance(dtype, pd.ArrowDtype):
        import pyarrow

        return _from_arrow(pyarrow.array(column.array))
    if isinstance(dtype, np.dtype):
        return _from_array(column.to_numpy())
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype):
        return column.to_numpy(dtype=float, na_value=np.nan)
    raise _refuse(dtype)


def _from_polars(column: Any) -> NDArray[np.floating]:
    import polars

    if column.dtype == polars.Null:  # the type of a column without values
        return np.full(len(column), np.nan)
    if not column.dtype.is_numeric():
        raise _refuse(column.dtype.base_type())
    if column.dtype != polars.Float32:
        column = column.cast(polars.Float64)
    return column.fill_null(float("nan")).to_numpy()


def _from_arrow(column: Any) -> NDArray[np.floating]:
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if not (
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    ):
        raise _refuse(kind)
    # Both copy even if there is nothing to do.
    if kind not in (pyarrow.float32(), pyarrow.float64()):
        # The error of a safe cast would show a large integer.
        column = column.cast(pyarrow.float64(), safe=False)
    if column.null_count:
        column = column.fill_null(pyarrow.scalar(float("nan"), column.type))
    return column.to_numpy(zero_copy_only=False)


def distinct_values(column: Any) -> tuple[list[Any], bool]:
    """Return the distinct values of a column, sorted, and whether any is missing."""
    try:
        return _distinct(column)
    except ColumnError:
        raise
    except Exception:
        pass  # it may hold a value, so it must not be the context of the error below
    raise ColumnError("holds values that cannot be hashed and sorted")


def _distinct(column: Any) -> tuple[list[Any], bool]:
    if isinstance(column, np.ndarray):
        column = pd.Series(column)
    elif library_of(column) == "pyarrow" and str(column.type) == "string_view":
        column = column.cast(
            "large_string"
        )  # `unique` of Arrow misreads nulls in views
    series = nw.from_native(column, series_only=True)
    if series.dtype == nw.Object:
        # Hashing would merge 1, 1.0 and True.
        objects = [plain(value) for value in series.to_list()]
        found = list({(kind_of(value), value): value for value in objects}.values())
    else:
        found = [plain(value) for value in series.unique().to_list()]
    known = [value for value in found if value is not None]
    if len({kind_of(value) for value in known}) > 1:
        raise ColumnError("mixes values of several kinds")
    return sorted(known), len(known) < len(found)
