"""Reading the table that a user hands to an estimator, as scikit-learn does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skdp.frames import Table, is_frame, read_table


def read_input(estimator: BaseEstimator, X: Any, *, reset: bool, least: int = 1) -> Table:
    """Check the shape and the column names of an input as scikit-learn does, without looking at a value."""
    if is_frame(X):
        rows, columns = X.shape
        if columns == 0:
            raise ValueError("Found a table with 0 feature(s) (columns); at least 1 is required")
        if rows < least:
            raise ValueError(f"Found a table with {rows} sample(s) (rows); at least {least} is required")
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return read_table(X)
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError("masked arrays are not supported, as their masked values would be released; fill them first")
    if type(X).__module__.startswith("pyarrow"):
        raise TypeError(f"pyarrow's {type(X).__name__} is not supported; make a pyarrow.Table of it")
    if not issparse(X):
        # scikit-learn's own messages for these mistakes print the data.
        array = read_array(X, "X")
        if array.dtype.kind == "c":
            raise ValueError("Complex data not supported")
        if array.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: X.reshape(-1, 1) for a single "
                "column, X.reshape(1, -1) for a single row, or X[['column']] of a dataframe"
            )
        X = array if isinstance(X, np.ndarray) or not hasattr(X, "__array__") else X
    array = validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=least)
    return read_table(array)


def read_array(values: Any, name: str) -> NDArray[Any]:
    """Make an array of anything array-like; a list that mixes text with anything else becomes one of objects."""
    plain = not hasattr(values, "__array__")
    for dtype in (None, object):
        try:
            array = np.asarray(values, dtype)
        except Exception:
            continue
        if dtype is object or not plain or array.dtype.kind not in "USV":
            return array
    raise ValueError(f"{name} cannot be read as an array: expected rows of single values, all of one length")


def check_names(estimator: BaseEstimator, table: Table, fitted: tuple[Any, ...]) -> None:
    """Check that a table has the columns of `fit`, whatever their names are made of."""
    # scikit-learn compares names only where all of them are strings.
    named = not isinstance(table.native, np.ndarray) and hasattr(estimator, "feature_names_in_")
    if (named or not all(isinstance(name, str) for name in fitted)) and table.names != fitted:
        raise ValueError(f"X has the columns {list(table.names)}; fit saw {list(fitted)}")
