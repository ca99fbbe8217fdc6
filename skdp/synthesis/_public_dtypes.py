"""The dtypes of synthetic columns: they follow from what is declared, not from what the private table has become."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp.coding import kind_of
from skdp.domain import Categories, Interval

_NUMPY = {
    "unsigned": np.dtype(np.uint64),
    "whole": np.dtype(np.int64),
    "real": np.dtype(float),
    "boolean": np.dtype(bool),
    "string": np.dtype("U1"),
}
_NARWHALS = {
    "unsigned": nw.UInt64(),
    "whole": nw.Int64(),
    "real": nw.Float64(),
    "boolean": nw.Boolean(),
    "string": nw.String(),
}


def declared_kind(attribute: Categories | Interval) -> str | None:
    """Describe the declared values of a column."""
    known = attribute.edges if isinstance(attribute, Interval) else [one for one in attribute.values if one is not None]
    kinds = {kind_of(value) for value in known}
    if kinds == {"number"}:
        real = getattr(attribute, "real", False) or not all(float(value).is_integer() for value in known)
        if real:
            return "real"
        return "unsigned" if max(known) > np.iinfo(np.int64).max and min(known) >= 0 else "whole"
    return kinds.pop() if kinds in ({"boolean"}, {"string"}) else None


def as_declared(column: Any, attribute: Categories | Interval) -> Any:
    """Give a column without rows the dtype that its declared values have."""
    # A dtype is read from the values of a table somewhere, and one value may change it: a missing one makes floats of
    # integers and objects of truth values, and a column of missing values has a dtype of its own. So of these dtypes
    # only the library remains, and the family: NumPy's, pandas' nullable ones, Arrow's. Categorical dtypes, dates and
    # narrow floats of real numbers stay.
    kind = declared_kind(attribute)
    if kind is None:
        return column
    if isinstance(column, np.ndarray):
        return column if _is_narrow(column.dtype, kind) else np.empty(0, _NUMPY[kind])
    if isinstance(column, pd.Series):
        return pd.Series([], dtype=_pandas_dtype(column.dtype, kind))
    series = nw.from_native(column, series_only=True)
    if series.dtype.is_numeric() or series.dtype == nw.Unknown:  # Unknown: nothing but missing values
        narrow = series.dtype == nw.Float32 and kind == "real"
        return column if narrow else nw.new_series("", [], _NARWHALS[kind], backend=series.implementation).to_native()
    return column


def _is_narrow(dtype: np.dtype[Any], kind: str) -> bool:
    return kind == "real" and dtype.kind == "f" and dtype.itemsize < 8


def _pandas_dtype(dtype: Any, kind: str) -> Any:
    if isinstance(dtype, np.dtype):
        if _is_narrow(dtype, kind) or dtype.kind not in "iufbO":
            return dtype
        return pd.Series(["text"]).dtype if kind == "string" else _NUMPY[kind]
    if isinstance(dtype, pd.ArrowDtype):
        import pyarrow
        from pyarrow import types

        held = dtype.pyarrow_dtype
        if types.is_integer(held) or types.is_floating(held) or types.is_null(held):
            made = {
                "unsigned": pyarrow.uint64,
                "whole": pyarrow.int64,
                "real": pyarrow.float64,
                "boolean": pyarrow.bool_,
                "string": pyarrow.string,
            }
            return pd.ArrowDtype(made[kind]())
        return dtype
    if (
        pd.api.types.is_numeric_dtype(dtype)
        and not pd.api.types.is_bool_dtype(dtype)
        and kind in ("whole", "unsigned", "real")
    ):
        return {"unsigned": pd.UInt64Dtype(), "whole": pd.Int64Dtype(), "real": pd.Float64Dtype()}[kind]
    return dtype
