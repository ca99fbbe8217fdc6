"""The groups that a privacy curve tells apart: one sensitive feature, or the combinations of several."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.evaluation._curve_scoring import ALL
from skdp.frames import is_frame, read_table


def read_groups(features: Any, X: Any, rows: int) -> Any:
    """Read the sensitive feature, or several."""
    if isinstance(features, str | Integral):
        features = _columns_of(X, [features])
    elif isinstance(features, list | tuple) and len(features) != rows and _all_names(features, X):
        features = _columns_of(X, features)
    elif is_frame(features) or np.ndim(features) == 2:
        table = read_table(features if is_frame(features) else np.array(features, dtype=object))
        features = dict(zip(table.names, table.columns, strict=True))
    else:
        # A list of objects stays one: NumPy would turn [1, "a"] into two strings.
        features = {None: np.array(features, dtype=object) if isinstance(features, list | tuple) else features}
    columns = {name: _name_missing(np.asarray(column)) for name, column in features.items()}
    for values in columns.values():
        if values.ndim != 1 or len(values) != rows:
            raise ValueError(f"sensitive_features must name columns of X, or have {rows} rows, got {values.shape}")
    if len(columns) > 1:
        return pd.DataFrame(columns)
    if not columns:
        raise ValueError("sensitive_features has no columns")
    (values,) = columns.values()
    if ALL in set(values.tolist()):
        raise ValueError(f"sensitive_features has a group {ALL!r}, which is everybody in the result; rename it")
    return values


def _all_names(features: Sequence[Any], X: Any) -> bool:
    return is_frame(X) and len(features) > 0 and set(map(str, features)) <= set(map(str, read_table(X).names))


def _columns_of(X: Any, names: Sequence[Any]) -> dict[Any, Any]:
    if not is_frame(X):
        raise ValueError("sensitive_features names a column, but X is an array: give the values")
    table = read_table(X)
    for name in names:
        if name not in table.names:
            raise ValueError(f"sensitive_features {name!r} is no column of X")
    return {name: table.columns[table.names.index(name)] for name in names}


def _name_missing(values: NDArray[Any]) -> NDArray[Any]:
    """Make a group of missing values, which fairlearn would leave out: "missing", or "(missing)" if a value is so."""
    gone = pd.isna(values)
    if values.ndim != 1 or not gone.any():
        return values
    name, known = "missing", set(values[~gone].tolist())
    while name in known:
        name = f"({name})"
    return np.where(gone, name, values.astype(object))
