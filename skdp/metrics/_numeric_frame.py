"""Tables of any library as numbers, for aif360."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp.frames import convert_frame, is_frame, read_table


def read_frame(X: Any) -> pd.DataFrame:
    """Read a table of any library as pandas."""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        X = pd.DataFrame(X, columns=list(read_table(X).names))
    if not is_frame(X):
        raise TypeError(f"X must be a pandas, polars or pyarrow dataframe or a 2-D array, got {type(X).__name__}")
    table = read_table(X)
    if not isinstance(X, pd.DataFrame):
        # The levels of a polars or pyarrow categorical are those that some data happened to have.
        native = nw.from_native(X, eager_only=True)
        native = native.with_columns(nw.col(n).cast(nw.String) for n, t in native.schema.items() if t == nw.Categorical)
        X = convert_frame(native.to_native(), "pandas")
    frame = X.infer_objects()
    for name in table.names:
        if frame[name].isna().any():
            raise ValueError(f"column {name!r} has missing values; drop or impute them first")
    return frame


def encode_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn every column into numbers, or into a 0/1 column a value."""
    numeric = {name: numbers for name in frame.columns if (numbers := _as_numbers(frame[name])) is not None}
    texts = [name for name in frame.columns if name not in numeric]
    return pd.get_dummies(frame.assign(**numeric), columns=texts, prefix_sep="=", dtype=np.float64)


def _as_numbers(column: pd.Series) -> pd.Series | None:
    """Turn what is a number in some sense into floats; None for all else."""
    kind = pd.api.types.infer_dtype(column, skipna=False)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return None
    if pd.api.types.is_numeric_dtype(column.dtype) or kind in ("decimal", "boolean"):
        return column.astype(np.float64)
    if kind in ("date", "datetime", "datetime64"):
        times = pd.to_datetime(column, utc=True)
        return (times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    if kind in ("timedelta", "timedelta64"):
        return pd.to_timedelta(column) / pd.Timedelta(days=1)
    return None
